"""Golden values of attention, each under its number (see test_golden.py)."""

import math

import pytest
import torch

from tests.components.cases import Case
from tests.tiny import close, normal
from tfexp.components.attend import attend
from tfexp.components.base import AttentionContext, set_recorder
from tfexp.model.masks import causal_mask, logit_bias
from tfexp.registry import create

DIGITS = 5e-8  # the golden values have 7 digits after the point
SIMILARITIES = {
    "G19-scaled": ("scaled_dot", {}, [0.6697615, 0.3302385], [1.6604769, 2.6604769]),
    "G19-unscaled": ("dot", {}, [0.7310586, 0.2689414], [1.5378828, 2.5378828]),
    "G20-cosine": ("cosine", {"scale": 10.0}, [0.9999546, 0.0000454], None),
}


def teaching_attention(**options):
    return Case("attention", "softmax", {"bias": True, "form": "plain", **options}).make(n_heads=2, n_kv_heads=2)


def recorded(module, *inputs) -> dict[str, torch.Tensor]:
    seen = {}
    set_recorder(lambda name, value, flops: seen.update({name: value}))
    try:
        seen["out"] = module(*inputs)
    finally:
        set_recorder(None)
    return seen


def softmax(row: list[float], hidden: list[int] = ()) -> torch.Tensor:
    """Attention weights of one query with these scores, read off values that are the identity."""
    n = len(row)
    mask = torch.tensor([[s not in hidden for s in range(n)]])
    context = AttentionContext(mask=mask, logit_bias=logit_bias(mask, None, None, torch.float32))
    q, k = torch.ones(1, 1, 1, 1), torch.tensor(row, dtype=torch.float32).view(1, 1, n, 1)
    return attend(q, k, torch.eye(n).view(1, 1, n, n), 1.0, context, 0.0, "plain").flatten()


def test_G13_shapes_on_the_way_through_attention():
    module, x = teaching_attention(), normal(2, 3, 8)
    seen = recorded(module, x, AttentionContext())
    shapes = {name: tuple(value.shape) for name, value in seen.items()}
    assert shapes == {
        "scores": (2, 2, 3, 3),
        "weights": (2, 2, 3, 3),
        "heads": (2, 2, 3, 4),
        "concat": (2, 3, 8),
        "out": (2, 3, 8),
    }
    projections = (module.query, module.key, module.value, module.output)
    assert [tuple(p.weight.shape) for p in projections] == [(8, 8)] * 4  # query, key, value side by side: (8, 24)


def test_G14_widths_of_keys_and_values_are_free():
    module = Case("attention", "softmax", {"value_dim": 5}).make(n_heads=2, n_kv_heads=2, head_dim=3)
    assert recorded(module, normal(2, 4, 8), AttentionContext())["heads"].shape == (2, 2, 4, 5)
    assert [tuple(p.weight.shape) for p in (module.query, module.value, module.output)] == [(6, 8), (10, 8), (8, 10)]


def test_G15_weights_are_positive_and_sum_to_one():
    mask = causal_mask(torch.arange(3), torch.arange(3))
    context = AttentionContext(mask=mask, logit_bias=logit_bias(mask, None, None, torch.float64))
    weights = recorded(teaching_attention(), normal(2, 3, 8), context)["weights"]
    close(weights.sum(-1), torch.ones(2, 2, 3))
    assert (weights[..., mask] > 0).all()
    assert (weights[..., ~mask] == 0).all()


def test_G16_heads_are_concatenated_and_their_number_costs_nothing():
    made = [Case("attention", "softmax").make(n_heads=h, n_kv_heads=h, head_dim=8 // h) for h in (1, 2, 4, 8)]
    assert {sum(p.numel() for p in module.parameters()) for module in made} == {4 * 8 * 8}
    seen = recorded(made[2], normal(1, 3, 8), AttentionContext())
    close(seen["concat"][0, 1, 2:4], seen["heads"][0, 1, 1])  # the second head's features come second


def test_G17_rows_or_columns_are_the_same_thing():
    q, k, v = normal(3, 4, 6)
    ours = attend(*(x.view(1, 1, 4, 6) for x in (q, k, v)), 6**-0.5, AttentionContext(), 0.0, "plain").view(4, 6)
    weights_in_columns = (k @ q.T / math.sqrt(6)).softmax(dim=0)
    close(ours.T, v.T @ weights_in_columns)


@pytest.mark.parametrize(("score", "variance"), [("dot", 64.0), ("scaled_dot", 1.0)], ids=["G18-dot", "G18-scaled"])
def test_G18_the_scale_makes_the_variance_one(score, variance):
    q, k = normal(2, 20_000, 1, 1, 64)
    logits = create("score", {"name": score}, {"head_dim": 64}).logits(q, k)
    # 20,000 draws: the standard error of a variance is about 1 %
    assert logits.var().item() == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize(("score", "options", "weights", "out"), SIMILARITIES.values(), ids=SIMILARITIES)
def test_similarities(score, options, weights, out):
    q, k = torch.tensor([[1.0, 0.0]]).double().view(1, 1, 1, 2), torch.eye(2).double().view(1, 1, 2, 2)
    made = create("score", {"name": score, **options}, {"head_dim": 2})
    drawn = made.logits(q, k).softmax(-1).flatten()
    close(drawn.detach(), weights, atol=DIGITS)
    if out is not None:
        close(drawn @ torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double(), out, atol=DIGITS)


def test_G20_additive_scores_can_be_chosen():
    made = Case("score", "additive", {"width": 3}).make()
    q, k = normal(2, 4)
    hidden = torch.tanh(made.query.weight @ q + made.key.weight @ k)
    close(made.logits(q.view(1, 1, 1, 4), k.view(1, 1, 1, 4)).flatten(), made.combine.weight @ hidden)


def test_G21_the_causal_mask():
    rows = logit_bias(causal_mask(torch.arange(4), torch.arange(4)), None, None, torch.float32)
    hidden = -math.inf
    expected = [[0, hidden, hidden, hidden], [0, 0, hidden, hidden], [0, 0, 0, hidden], [0, 0, 0, 0]]
    assert rows.tolist() == expected


def test_G22_the_mask_goes_before_the_softmax():
    right, pitfall = [0.7310586, 0.2689414, 0.0], [0.6652410, 0.2447285, 0.0]
    close(softmax([2, 1, 0], hidden=[2]), right, atol=1e-7)  # float32
    with pytest.raises(AssertionError, match="not close"):
        close(softmax([2, 1, 0], hidden=[2]), pitfall, atol=1e-7)


def test_G26_the_softmax_is_stable():
    close(softmax([1000, 999, 998]), softmax([2, 1, 0]), atol=1e-7)
    assert torch.tensor(1000.0).exp().isinf()  # what it would be without the shift by the largest
    close(softmax([5.5, 4.5, 3.5]), softmax([2, 1, 0]), atol=1e-7)


def test_G27_a_row_that_sees_nothing_is_zero():
    nothing, row = torch.zeros(1, 1, 1, 3, dtype=torch.bool), torch.ones(1, 1, 1, 1, dtype=torch.bool)
    bias = logit_bias(nothing, None, row, torch.float64)
    context = AttentionContext(mask=nothing, logit_bias=bias, blocked=row)
    out = attend(normal(1, 1, 1, 4), normal(1, 1, 3, 4), normal(1, 1, 3, 4), 1.0, context, 0.0, "plain")
    close(out, torch.zeros(1, 1, 1, 4))


def test_G43_keys_and_values_may_come_from_a_memory():
    module, decoder, memory = teaching_attention(), normal(2, 3, 8), normal(2, 5, 8, seed=3)
    seen = recorded(module, decoder, AttentionContext(), memory)
    assert (seen["scores"].shape, seen["out"].shape) == ((2, 2, 3, 5), (2, 3, 8))
    close(module(decoder, AttentionContext(), memory.flip(1)), seen["out"])  # memory is a set without positions
    assert not torch.equal(module(decoder.flip(1), AttentionContext(), memory), seen["out"])
