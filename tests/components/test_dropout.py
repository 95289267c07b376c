"""Dropout with cheap masks: the law of its draws, and the stream that they come from."""

import pytest
import torch

from tests.tiny import normal
from tfexp.components.dropout import LEVELS, Dropout, TokenDropout, dropout

N = 200_000
RATES = [0.1, 0.3, 0.5, 0.9]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_rate_is_met_and_the_mean_stays(rate, dtype):
    torch.manual_seed(0)
    out = dropout(torch.ones(N, dtype=dtype), rate)
    share = (out == 0).double().mean().item()
    assert abs(share - rate) <= 5 * (rate * (1 - rate) / N) ** 0.5 + 1 / LEVELS
    kept = out[out != 0]
    assert torch.equal(kept, torch.full_like(kept, 1 / (1 - round(rate * LEVELS) / LEVELS)))


@pytest.mark.parametrize("lane", range(4))
def test_the_four_elements_of_a_draw_are_independent_of_each_other(lane):
    torch.manual_seed(0)
    drops = (dropout(torch.ones(N), 0.5) == 0).double().view(-1, 4) - 0.5
    others = [other for other in range(4) if other != lane]
    products = (drops[:, [lane]] * drops[:, others]).mean(0)
    assert drops[:, lane].mean().abs() <= 5 * 0.5 / (N / 4) ** 0.5
    assert (products.abs() <= 5 * 0.25 / (N / 4) ** 0.5).all()


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 7), (0, 4)])
def test_any_shape(shape):
    x = normal(*shape, dtype=torch.float32)
    out = dropout(x, 0.5)
    assert out.shape == x.shape
    assert torch.equal(out[out != 0], 2 * x[out != 0])


def test_the_gradient_goes_where_the_value_went():
    x = normal(1000).requires_grad_()
    out = dropout(x, 0.25)
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, out)


def test_draws_come_from_the_global_generator():
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(dropout(torch.ones(100), 0.5))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_whole_tokens_are_dropped():
    torch.manual_seed(0)
    out = TokenDropout(0.25)(torch.ones(50, 40, 8))
    assert torch.equal(out.amin(-1), out.amax(-1))
    assert abs((out[..., 0] == 0).double().mean().item() - 0.25) <= 5 * (0.1875 / 2000) ** 0.5
    assert torch.equal(out[out != 0], torch.full_like(out[out != 0], 1 / 0.75))
    assert TokenDropout(0.25).eval()(out) is out


def test_nothing_happens_in_evaluation_or_at_rate_0():
    x = normal(10)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert repr(Dropout(0.5)) == "Dropout(rate=0.5)"


@pytest.mark.parametrize("rate", [0.999995, 1 - 2**-18])
def test_a_rate_beyond_the_last_level_keeps_a_little(rate):
    torch.manual_seed(0)
    out = dropout(torch.ones(10 * LEVELS), rate)
    assert 0 < int((out != 0).sum()) < 40  # 10 are expected
    assert torch.equal(out.unique(), torch.tensor([0.0, LEVELS]))
