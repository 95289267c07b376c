"""float32 linear maps through oneDNN give the numbers and gradients of torch's own."""

import pytest
import torch
from torch import nn

from tfexp.components import onednn
from tfexp.components.base import Linear

SHAPES = {"rows": (5, 7, 3), "batch": (2, 4, 8, 6), "single": (1, 16, 16), "wide": (3, 2, 40)}  # (..., n_in, n_out)

needs_operator = pytest.mark.skipif(onednn._operator is None, reason="this torch has no oneDNN linear")


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(onednn, "MIN_WORK", 0)
    monkeypatch.setattr(onednn, "_wanted", True)


def both(shape, bias):
    *lead, n_in, n_out = shape
    torch.manual_seed(0)
    ours = Linear(n_in, n_out, bias)
    theirs = nn.Linear(n_in, n_out, bias)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(*lead, n_in)
    return ours, theirs, x.clone().requires_grad_(), x.clone().requires_grad_()


@needs_operator
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_value_and_gradients_equal_torchs(always, shape, bias):
    ours, theirs, x, y = both(shape, bias)
    a, b = ours(x), theirs(y)
    assert a.grad_fn is not None
    assert "_Linear" in type(a.grad_fn).__name__  # the form under test was taken
    (a * a).sum().backward()
    (b * b).sum().backward()
    gradients = [(getattr(ours, name).grad, p.grad) for name, p in theirs.named_parameters()]
    pairs = [(a, b), (x.grad, y.grad), *gradients]
    for mine, other in pairs:
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)  # float32 sums in another order


@needs_operator
def test_a_transposed_input_is_taken_as_it_lies(always):
    ours, theirs, _, _ = both((5, 7, 3), True)
    x = torch.randn(7, 5).t()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)


UNUSUAL = {
    "small": lambda: (torch.randn(2, 4), torch.randn(4, 4)),
    "float64": lambda: (torch.randn(2**10, 512).double(), torch.randn(512, 512).double()),
    "meta": lambda: (torch.randn(2**10, 512, device="meta"), torch.randn(512, 512, device="meta")),
}


@pytest.mark.parametrize("make", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_the_plain_form_serves_what_is_unusual(make):
    assert not onednn.applies(*make())


def test_large_float32_is_taken_unless_switched_off(monkeypatch):
    x, weight = torch.randn(2**10, 512), torch.randn(512, 512)
    monkeypatch.setattr(onednn, "_wanted", True)
    monkeypatch.setattr(onednn, "_operator", object())
    assert onednn.applies(x, weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert not onednn.applies(x, weight)
    monkeypatch.setattr(onednn, "_wanted", False)
    assert not onednn.applies(x, weight)
