"""Invariances of a whole model, as functions: the tests apply them to good models and to broken ones."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.tiny import close, ids
from tfexp.model.transformer import Transformer

ATOL = 1e-11  # float64 through two layers whose logits reach about 30


def future_gradients(model: Transformer, attention_mask: Tensor | None = None) -> Tensor:
    """(T, T): size of the gradient of the logits at t with respect to the embedding at u."""
    captured = []

    def capture(module, args, output):
        captured.append(output.detach().requires_grad_())
        return captured[-1]

    handle = model.embedding.register_forward_hook(capture)
    logits = model(ids(), attention_mask).logits
    handle.remove()
    probes = [(logits[:, t] * torch.linspace(-1, 1, logits.shape[-1])).sum() for t in range(logits.shape[1])]
    gradients = [torch.autograd.grad(probe, captured[0], retain_graph=True)[0] for probe in probes]
    return torch.stack([gradient.abs().sum(dim=(0, 2)) for gradient in gradients])


def check_causality(model: Transformer) -> None:
    size = future_gradients(model)
    assert (size.triu(1) == 0).all(), f"the future leaks: {size}"
    assert (size.tril() + torch.ones_like(size).triu(1) > 0).all(), f"the past is not seen: {size}"


def check_right_padding(model: Transformer) -> None:
    tokens = ids(1, 4)
    padded = torch.cat((tokens, tokens.new_zeros(1, 2)), dim=1)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    close(model(padded, mask).logits[:, :4], model(tokens).logits, atol=ATOL)


def check_left_padding(model: Transformer) -> None:
    tokens = ids(1, 4)
    mates = ids(1, 6, seed=3)
    batch = torch.cat((torch.cat((tokens.new_zeros(1, 2), tokens), dim=1), mates))
    out = model(batch, torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])).logits
    close(out[:1, 2:], model(tokens).logits, atol=ATOL)
    close(out[1:], model(mates).logits, atol=ATOL)


def looked_up(embedding, input_ids, mask, positions) -> Tensor:
    """In place of `token_vectors`: padding is read like any token."""
    return embedding(input_ids, positions)


def check_pad_ids(model: Transformer) -> None:
    tokens, other = ids(), ids()
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 0]])
    other[mask == 0] += 1
    real = mask.bool()
    close(model(other, mask).logits[real], model(tokens, mask).logits[real], atol=0.0)


def check_batch_mates(model: Transformer) -> None:
    tokens = ids(3, 4)
    logits = model(tokens).logits
    close(model(tokens.flip(0)).logits.flip(0), logits, atol=ATOL)
    close(model(tokens[1:2]).logits, logits[1:2], atol=ATOL)


def check_explicit_positions(model: Transformer) -> None:
    tokens, start = ids(), torch.tensor([[0], [3]])
    places = start + torch.arange(4)
    close(model(tokens, position_ids=torch.arange(4).expand(2, 4)).logits, model(tokens).logits, atol=ATOL)
    both = model(tokens, position_ids=places).logits
    for row in (0, 1):
        close(both[row : row + 1], model(tokens[row : row + 1], position_ids=places[row : row + 1]).logits, atol=ATOL)


def check_deterministic(model: Transformer) -> None:
    assert torch.equal(model(ids()).logits, model(ids()).logits)


def check_blocked_rows(model: Transformer) -> None:
    """An all-pad sample: everything stays finite, and its mate is as if alone (H01)."""
    tokens = torch.tensor([[5, 6, 7, 8], [0, 0, 0, 0]])
    logits = model(tokens, tokens != 0).logits
    gradients = torch.autograd.grad(logits.square().sum(), [p for p in model.parameters() if p.requires_grad])
    assert logits.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    close(logits[:1], model(tokens[:1]).logits, atol=ATOL)


def check_shift(model: Transformer) -> None:
    """Only distances count: moving the whole input changes nothing."""
    places = torch.arange(4).expand(2, 4)
    close(model(ids(), position_ids=places + 9).logits, model(ids(), position_ids=places).logits, atol=ATOL)


def check_packed_documents(
    model: Transformer,
    documents: Sequence[int] = (0, 0, 0, 1, 1, 1, 1, 2, 2),
    places: Sequence[int] = (0, 1, 2, 0, 1, 2, 3, 0, 1),
) -> None:
    """Documents of 3, 4 and 2 tokens in one row, the last of them padding, are as if alone."""
    row, other = ids(2, 9).split(1)
    mask = torch.tensor([[1] * 7 + [0] * 2])
    packed = {"position_ids": torch.tensor([places]), "document_ids": torch.tensor([documents])}
    logits = model(row, mask, **packed).logits
    close(logits[:, :3], model(row[:, :3]).logits, atol=ATOL)
    close(logits[:, 3:7], model(row[:, 3:7]).logits, atol=ATOL)
    both = {name: value.expand(2, 9) for name, value in packed.items()}
    close(model(torch.cat((row, other)), mask.expand(2, 9), **both).logits[:1, :7], logits[:, :7], atol=ATOL)


def check_logits_at(model: Transformer) -> None:
    tokens, chosen = ids(), torch.tensor([[0, 1, 1, 0], [0, 0, 0, 1]])
    expected = model(tokens).logits[chosen.bool()]
    close(model(tokens, logits_at=chosen.bool()).logits, expected, atol=ATOL)
    close(model(tokens, logits_at=chosen).logits, expected, atol=ATOL)  # a mask of whole numbers, too


def check_bidirectional(model: Transformer) -> None:
    size = future_gradients(model)
    assert (size > 0).all(), f"not every token sees every other: {size}"
