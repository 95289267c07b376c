"""Cross-entropy in pieces against torch's in float64: values, gradients, labels that are not scored."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.tiny import normal
from tfexp.batch import IGNORE
from tfexp.errors import DataError
from tfexp.tasks.cross_entropy import ROWS_TIMES_WORDS, summed_cross_entropy

N, V = 300, 2000
assert N * V > ROWS_TIMES_WORDS  # else torch's own form would serve
# Of a gradient: float32's rounding of p, bfloat16's of the result (2^-9 of at most 1).
ATOL = {torch.float32: 1e-6, torch.bfloat16: 2**-8}


def labels() -> torch.Tensor:
    drawn = torch.randint(0, V, (N,), generator=torch.Generator().manual_seed(3))
    drawn[::7] = IGNORE
    return drawn


@pytest.mark.parametrize("dtype", ATOL)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("size", [1.0, 50.0])
def test_equals_torch(dtype, smoothing, size):
    logits = (size * normal(N, V)).to(dtype).requires_grad_()
    exact = logits.detach().double().requires_grad_()
    loss = summed_cross_entropy(logits, labels(), smoothing)
    expected = cross_entropy(exact, labels(), reduction="sum", ignore_index=IGNORE, label_smoothing=smoothing)
    (loss / 7).backward()
    (expected / 7).backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(logits.grad.double(), exact.grad, atol=ATOL[dtype], rtol=0)


def test_a_probability_that_underflows_keeps_its_loss():
    logits = torch.zeros(N, V)
    logits[:, 0] = 500.0
    assert summed_cross_entropy(logits, torch.ones(N, dtype=torch.int64)).item() == pytest.approx(500.0 * N, rel=1e-5)


def test_nothing_scored_is_nothing():
    logits = normal(N, V, dtype=torch.float32).requires_grad_()
    loss = summed_cross_entropy(logits, torch.full((N,), IGNORE))
    loss.backward()
    assert loss.item() == 0
    assert (logits.grad == 0).all()


def test_without_gradient_the_value_is_the_same():
    logits = normal(N, V, dtype=torch.float32)
    with torch.no_grad():
        assert summed_cross_entropy(logits, labels()) == summed_cross_entropy(logits.requires_grad_(), labels())


def test_a_second_gradient_is_refused_rather_than_wrong():
    loss = summed_cross_entropy(normal(N, V, dtype=torch.float32).requires_grad_(), labels())
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="keeps one gradient and was asked for it a second time"):
        loss.backward()


WRONG_LABELS = {"minus_one": -1, "minus_five": -5, "one_too_many": None, "far_below": -101}


@pytest.mark.parametrize("n_words", [7, 10_000], ids=["whole", "pieces"])
@pytest.mark.parametrize("wrong", WRONG_LABELS.values(), ids=WRONG_LABELS)
def test_a_label_that_is_no_token_is_refused_as_torch_does(wrong, n_words):
    wrong = n_words if wrong is None else wrong
    logits, labels = torch.zeros(400, n_words), torch.arange(400) % n_words
    labels[3], labels[398] = IGNORE, wrong
    with pytest.raises(IndexError):
        torch.nn.functional.cross_entropy(logits, labels, ignore_index=IGNORE)
    with pytest.raises(DataError, match=rf"^labels: {wrong} is not a token; the model knows 0 to {n_words - 1} \(-100"):
        summed_cross_entropy(logits, labels)
