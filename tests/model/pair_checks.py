"""Invariances of a model of two sides, as functions: the tests apply them to good models and to broken ones."""

import torch
from torch import Tensor

from tests.model.checks import ATOL
from tests.tiny import V, close, ids
from tfexp.model.transformer import Transformer

SOURCE, TARGET = ids(1, 5), ids(1, 4, seed=3)
PADS = SOURCE.new_zeros(1, 3)
REAL = torch.ones(1, 8, dtype=torch.int64)


def logits(model: Transformer, source: Tensor, target: Tensor, of_source=None, of_target=None) -> Tensor:
    return model(
        source, attention_mask=of_source, decoder_input_ids=target, decoder_attention_mask=of_target
    ).logits  # (B, T, V)


def gradients(model: Transformer) -> tuple[Tensor, Tensor]:
    """(T, S) and (T, T): size of the gradient of the logits at t by the memory and by the target's embeddings."""
    captured = {}

    def capture(module, args, output):
        captured[module] = output.detach().requires_grad_()  # of a shared embedding the last call is the target's
        return captured[module]

    parts = (model.encoder, model.embedding)
    handles = [module.register_forward_hook(capture) for module in parts]
    out = logits(model, SOURCE, TARGET)
    for handle in handles:
        handle.remove()
    probes = [(out[:, t] * torch.linspace(-1, 1, out.shape[-1])).sum() for t in range(out.shape[1])]
    by_part = [torch.autograd.grad(probe, [captured[part] for part in parts], retain_graph=True) for probe in probes]
    memory, target = zip(*by_part, strict=True)
    return tuple(torch.stack([g.abs().sum(dim=(0, 2)) for g in side]) for side in (memory, target))


def check_target_causality(model: Transformer) -> None:
    size = gradients(model)[1]
    assert (size.triu(1) == 0).all(), f"the future leaks: {size}"
    assert (size.tril() + torch.ones_like(size).triu(1) > 0).all(), f"the past is not seen: {size}"


def check_whole_source_seen(model: Transformer) -> None:
    size = gradients(model)[0]
    assert (size > 0).all(), f"not every target position sees every source token: {size}"


def check_source_padding(model: Transformer) -> None:
    """On either side of the source, beside a mate that fills the row."""
    alone, mate = logits(model, SOURCE, TARGET), ids(1, 8, seed=5)
    for parts in ((SOURCE, PADS), (PADS, SOURCE)):
        source = torch.cat(parts, dim=1)
        mask = torch.cat((source != 0, REAL), dim=0)
        both = logits(model, torch.cat((source, mate)), TARGET.expand(2, 4), mask)
        close(both[:1], alone, atol=ATOL)
        close(both[1:], logits(model, mate, TARGET), atol=ATOL)


def check_target_padding(model: Transformer) -> None:
    """On the right with and without a mask, on the left with one."""
    alone = logits(model, SOURCE, TARGET)
    right, left = torch.cat((TARGET, PADS), dim=1), torch.cat((PADS, TARGET), dim=1)
    close(logits(model, SOURCE, right)[:, :4], alone, atol=ATOL)
    close(logits(model, SOURCE, right, None, right != 0)[:, :4], alone, atol=ATOL)
    close(logits(model, SOURCE, left, None, left != 0)[:, 3:], alone, atol=ATOL)


def check_pad_ids(model: Transformer) -> None:
    source, target = ids(2, 5), ids(2, 4, seed=3)
    of_source = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    of_target = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 0]])
    other = logits(model, (source + 1 - of_source) % V, (target + 1 - of_target) % V, of_source, of_target)
    real = of_target.bool()
    close(other[real], logits(model, source, target, of_source, of_target)[real], atol=0.0)


def check_batch_mates(model: Transformer) -> None:
    source, target = ids(3, 5), ids(3, 4, seed=3)
    together = logits(model, source, target)
    close(logits(model, source.flip(0), target.flip(0)).flip(0), together, atol=ATOL)
    close(logits(model, source[1:2], target[1:2]), together[1:2], atol=ATOL)


def check_blocked_rows(model: Transformer) -> None:
    """An all-pad source, an all-pad target: everything stays finite, and their mate is as if alone (H01)."""
    source = torch.cat((SOURCE, SOURCE * 0, SOURCE))
    target = torch.cat((TARGET, TARGET, TARGET * 0))
    out = logits(model, source, target, source != 0, target != 0)
    by_parameter = torch.autograd.grad(out.square().sum(), [p for p in model.parameters() if p.requires_grad])
    assert out.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in by_parameter)
    close(out[:1], logits(model, SOURCE, TARGET), atol=ATOL)


def check_logits_at(model: Transformer) -> None:
    chosen = torch.tensor([[False, True, False, True]])
    some = model(SOURCE, decoder_input_ids=TARGET, logits_at=chosen).logits
    close(some, logits(model, SOURCE, TARGET)[chosen], atol=ATOL)


def check_source_positions(model: Transformer) -> None:
    """Positions of the source may be given, and then differ between rows."""
    source, target, places = ids(2, 5), ids(2, 4, seed=3), torch.tensor([[0], [3]]) + torch.arange(5)
    counted = model(source, position_ids=torch.arange(5).expand(2, 5), decoder_input_ids=target).logits
    close(counted, logits(model, source, target), atol=ATOL)
    both = model(source, position_ids=places, decoder_input_ids=target).logits
    for row in (slice(0, 1), slice(1, 2)):
        alone = model(source[row], position_ids=places[row], decoder_input_ids=target[row]).logits
        close(both[row], alone, atol=ATOL)


CHECKS = [
    check_target_causality,
    check_whole_source_seen,
    check_source_padding,
    check_target_padding,
    check_pad_ids,
    check_batch_mates,
    check_blocked_rows,
    check_logits_at,
    check_source_positions,
]
