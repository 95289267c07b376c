"""Public bug reports about masks, pooling and positions, replayed on a tiny model, each under its number."""

import pytest
import torch

from tests.tiny import close, model
from tfexp.components.base import set_recorder
from tfexp.registry import create, names

SIZE = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2, "vocab_size": 32, "max_seq_len": 16}
ATOL = 1e-11  # float64 through two layers whose logits reach about 30
POSITIONS, POOLINGS, SCORES = names("position"), names("pooling"), names("score")
HIDDEN = torch.tensor([[[3.0, 1.0], [1.0, 5.0], [9.0, 9.0]]])
POOLED = {"mean": [[2.0, 3.0]], "max": [[3.0, 5.0]], "cls": [[3.0, 1.0]], "last": [[1.0, 5.0]]}
OVER_EVERYTHING = {"mean": [[13 / 3, 5.0]], "max": [[9.0, 9.0]], "last": [[9.0, 9.0]]}


def classifier(pooling: str, **changes):
    return model(**SIZE, **{"architecture": "encoder", "pooling": pooling, "head": "classification", **changes})


def translator(**changes):
    return model(**SIZE, **{"architecture": "encoder_decoder", "position": "rope", **changes})


def padded(row: list[int], length: int) -> list[int]:
    return row + [0] * (length - len(row))


# --- H01: a row that may attend to nothing ----------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("form", ["plain", "fused"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_h01_an_all_pad_sample_in_a_classifier(pooling, form, score):
    made = classifier(pooling, n_labels=2, attention={"name": "softmax", "form": form, "score": score})
    tokens = torch.tensor([[5, 6, 7, 8], [0, 0, 0, 0]])
    logits = made(tokens, tokens != 0).logits
    torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1])).backward()
    assert logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in made.parameters())
    close(logits[:1], made(tokens[:1]).logits, atol=ATOL)
    close(logits[1], made.head.project.bias, atol=0.0)  # zeros were pooled


@pytest.mark.parametrize("form", ["plain", "fused"])
def test_h01_an_all_pad_source(form):
    made = translator(attention={"name": "softmax", "form": form})
    source, target = torch.tensor([[5, 6, 7, 8], [0, 0, 0, 0]]), torch.tensor([[1, 9, 10], [1, 9, 10]])
    logits = made(source, source != 0, decoder_input_ids=target).logits
    logits.square().sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in made.parameters())
    close(logits[:1], made(source[:1], decoder_input_ids=target[:1]).logits, atol=ATOL)


def test_h01_a_mask_without_blocked_rows_would_be_seen(monkeypatch):
    from tfexp.model import masks

    def without_blocked(mask, bias, blocked, dtype):
        return plain_bias(mask, bias, None, dtype)

    plain_bias = masks.logit_bias
    monkeypatch.setattr(masks, "logit_bias", without_blocked)
    tokens = torch.tensor([[5, 6, 7, 8], [0, 0, 0, 0]])
    made = classifier("mean", n_labels=2, attention={"name": "softmax", "form": "plain"})
    made(tokens, tokens != 0).logits.sum().backward()
    assert not all(p.grad.isfinite().all() for p in made.parameters() if p.grad is not None)


# --- H04: the decoder and the padding of the source -----------------------------------------------


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("form", ["plain", "fused"])
def test_h04_a_translation_does_not_depend_on_the_length_of_its_mates(form, position):
    made = translator(position=position, attention={"name": "softmax", "form": form})
    target, short, long = torch.tensor([[1, 9, 10]]), [5, 6, 7], [11, 12, 13, 14, 15, 16, 17, 18]
    both = torch.tensor([padded(short, 8), long])
    together = made(both, both != 0, decoder_input_ids=target.expand(2, 3)).logits
    close(together[:1], made(torch.tensor([short]), decoder_input_ids=target).logits, atol=ATOL)
    close(together[1:], made(torch.tensor([long]), decoder_input_ids=target).logits, atol=ATOL)


def test_h04_padded_columns_get_no_weight_at_all():
    made, source = translator(), torch.tensor([padded([5, 6, 7], 8)])
    weights = []
    set_recorder(lambda name, value, flops: weights.append(value) if name == "weights" else None)
    try:
        made(source, source != 0, decoder_input_ids=torch.tensor([[1, 9, 10]]))
    finally:
        set_recorder(None)
    across = [w for w in weights if w.shape[-2:] == (3, 8)]
    assert len(across) == made.spec.n_layers
    for weight in across:
        assert (weight[..., 3:] == 0).all()
        assert (weight[..., :3] > 0).all()


def test_h04_without_the_mask_it_would_be_seen():
    made, target = translator(), torch.tensor([[1, 9, 10]])
    with pytest.raises(AssertionError, match="not close"):
        close(
            made(torch.tensor([padded([5, 6, 7], 8)]), decoder_input_ids=target).logits,
            made(torch.tensor([[5, 6, 7]]), decoder_input_ids=target).logits,
            atol=ATOL,
        )


# --- H05: pooling over padding ----------------------------------------------------------------------


@pytest.mark.parametrize("name", POOLED)
def test_h05_padding_is_not_pooled(name):
    pooling = create("pooling", {"name": name}, {"d_model": 2})
    close(pooling(HIDDEN, torch.tensor([[True, True, False]])), POOLED[name], atol=1e-6)  # float32


@pytest.mark.parametrize("name", OVER_EVERYTHING)
def test_h05_without_a_mask_the_padding_would_be_seen(name):
    close(create("pooling", {"name": name}, {})(HIDDEN, None), OVER_EVERYTHING[name], atol=1e-6)  # float32


def test_h05_the_largest_of_negative_values_is_no_padded_zero():
    hidden = torch.tensor([[[-3.0, -1.0], [-1.0, -5.0], [0.0, 0.0]]])
    largest = create("pooling", {"name": "max"}, {})(hidden, torch.tensor([[True, True, False]]))
    assert largest.tolist() == [[-1.0, -1.0]]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_h05_nothing_is_divided_by_no_tokens(pooling):
    made = create("pooling", {"name": pooling}, {"d_model": 2})
    hidden = HIDDEN.clone().requires_grad_()
    out = made(hidden, torch.zeros(1, 3, dtype=torch.bool))
    out.sum().backward()
    assert out.tolist() == [[0.0, 0.0]]
    assert (hidden.grad == 0).all()


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_h05_a_class_does_not_depend_on_the_padding(pooling, position):
    made = classifier(pooling, n_labels=3, position=position)
    both = torch.tensor([padded([5, 6], 10), [4, 5, 6, 7, 8, 9, 10, 11, 12, 13]])
    close(made(both, both != 0).logits[:1], made(torch.tensor([[5, 6]])).logits, atol=ATOL)


# --- H06: one counter of positions for all rows -----------------------------------------------------


def greedy(made, tokens: torch.Tensor, mask: torch.Tensor, steps: int) -> torch.Tensor:
    """The next tokens of each row (B, steps), each from a whole pass."""
    start = tokens.shape[1]
    for _ in range(steps):
        chosen = made(tokens, mask).logits[:, -1].argmax(-1, keepdim=True)
        tokens, mask = torch.cat((tokens, chosen), dim=1), torch.cat((mask, mask.new_ones(len(mask), 1)), dim=1)
    return tokens[:, start:]


@pytest.mark.parametrize("position", POSITIONS)
def test_h06_left_padding_shifts_no_positions(position):
    made = model(**SIZE, position=position)
    prompts = torch.tensor([[7, 8, 9], [0, 0, 7]])
    logits = made(prompts, prompts != 0).logits[:, -1]
    for row, prompt in enumerate(([[7, 8, 9]], [[7]])):
        alone = torch.tensor(prompt)
        close(logits[row : row + 1], made(alone).logits[:, -1], atol=ATOL)
        expected = greedy(made, alone, torch.ones_like(alone), 5)
        assert torch.equal(greedy(made, prompts, prompts != 0, 5)[row : row + 1], expected)


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_h06_one_counter_for_all_rows_would_be_seen(position):
    made, prompts = model(**SIZE, position=position), torch.tensor([[7, 8, 9], [0, 0, 7]])
    shifted = made(prompts, prompts != 0, position_ids=torch.arange(3).expand(2, 3)).logits[1:, -1]
    with pytest.raises(AssertionError, match="not close"):
        close(shifted, made(torch.tensor([[7]])).logits[:, -1], atol=ATOL)
