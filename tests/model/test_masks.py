"""Who may attend to whom: polarity, alignment, blocked rows, small number types."""

import pytest
import torch

from tests.components.cases import Case
from tests.tiny import close, normal
from tfexp.components.attend import attend, attend_with_logits
from tfexp.components.base import AttentionContext, Position, set_recorder
from tfexp.model.masks import causal_mask, logit_bias, positions_of, self_attention_context
from tfexp.registry import names

HIDES_THE_LAST = torch.tensor([[True, True, False]])
POSITIONS_OF = {
    "no_mask": (None, [0, 1, 2, 3]),
    "right_padding": ([[1, 1, 1, 0]], [[0, 1, 2, 2]]),
    "left_padding": ([[0, 0, 1, 1]], [[0, 0, 0, 1]]),
    "all_pads": ([[0, 0, 0, 0]], [[0, 0, 0, 0]]),
}
INF = float("inf")


def context(mask, dtype=torch.float64, blocked=None) -> AttentionContext:
    return AttentionContext(mask=mask, logit_bias=logit_bias(mask, None, blocked, dtype), blocked=blocked)


def weights_of(form: str, logits, mask, dtype=torch.float64):
    """Attention weights of one query, read off values that are the identity."""
    n = len(logits)
    q, k = torch.ones(1, 1, 1, 1, dtype=dtype), torch.tensor(logits, dtype=dtype).view(1, 1, n, 1)
    v = torch.eye(n, dtype=dtype).view(1, 1, n, n)
    if form == "logits":
        return attend_with_logits(q @ k.transpose(-2, -1), v, context(mask, dtype), 0.0).flatten()
    return attend(q, k, v, 1.0, context(mask, dtype), 0.0, form).flatten()


@pytest.mark.parametrize("form", ["plain", "fused", "auto", "logits"])
def test_h02_true_means_may_attend_everywhere(form):
    close(weights_of(form, [1, 2, 3], HIDES_THE_LAST), [0.2689, 0.7311, 0], atol=5e-5)  # given with 4 digits


@pytest.mark.parametrize("form", ["plain", "fused", "auto", "logits"])
@pytest.mark.parametrize("wrong", [[0, 0, 1], [0.1554, 0.4223, 0.4223]], ids=["inverted", "added_as_0_and_1"])
def test_h02_the_two_usual_mistakes_would_be_seen(form, wrong):
    with pytest.raises(AssertionError, match="not close"):
        close(weights_of(form, [1, 2, 3], HIDES_THE_LAST), wrong, atol=5e-5)


def test_h03_fewer_queries_than_keys_are_the_last_ones():
    mask = causal_mask(torch.tensor([3, 4]), torch.arange(5))
    assert mask.sum(-1).tolist() == [4, 5]  # 1, 2 if the triangle hung in the upper left corner


@pytest.mark.parametrize("form", ["plain", "fused"])
def test_h03_two_queries_on_five_keys_equal_the_last_rows(form):
    q, k, v = normal(3, 2, 2, 5, 4)
    full = attend(q, k, v, 0.5, context(causal_mask(torch.arange(5), torch.arange(5))), 0.0, form)
    last = attend(q[:, :, 3:], k, v, 0.5, context(causal_mask(torch.tensor([3, 4]), torch.arange(5))), 0.0, form)
    close(last, full[:, :, 3:])


def test_causal_mask_of_positions_that_differ_within_the_batch():
    places = torch.tensor([[0, 1, 2], [2, 0, 1]])
    assert causal_mask(places, places)[1].int().tolist() == [[1, 1, 1], [0, 1, 0], [0, 1, 1]]


@pytest.mark.parametrize(("mask", "expected"), POSITIONS_OF.values(), ids=POSITIONS_OF)
def test_positions_count_from_the_first_real_token(mask, expected):
    given = None if mask is None else torch.tensor(mask, dtype=torch.bool)
    assert positions_of(given, 4, torch.device("cpu")).tolist() == expected


@pytest.mark.parametrize("form", ["plain", "fused", "logits"])
def test_h01_a_row_that_sees_nothing_is_zero_with_finite_gradients(form):
    x = normal(2, 2, 4, 8).requires_grad_()
    mask = torch.tensor([True, False]).view(2, 1, 1, 1).expand(2, 1, 4, 4)
    shared = context(mask, blocked=~mask.any(-1, keepdim=True))
    call = {"logits": lambda: attend_with_logits(x @ x.mT * 0.5, x, shared, 0.0)}
    out = call.get(form, lambda: attend(x, x, x, 0.5, shared, 0.0, form))()
    (gradient,) = torch.autograd.grad(out.square().sum(), x)
    assert (out[1] == 0).all()
    assert gradient.isfinite().all()
    alone = attend(x[:1], x[:1], x[:1], 0.5, AttentionContext(), 0.0, "plain")
    close(out[:1], alone)


def test_h01_without_the_blocked_rows_the_nan_is_seen():
    x, mask = normal(2, 2, 4, 8), torch.zeros(4, 4, dtype=torch.bool)
    with pytest.raises(AssertionError):
        assert attend(x, x, x, 0.5, context(mask), 0.0, "plain").isfinite().all()


@pytest.mark.parametrize("score", names("score"))
@pytest.mark.parametrize("form", ["plain", "fused"])
def test_h01_a_blocked_row_of_a_layer_gives_the_output_bias_alone(score, form):
    module = Case("attention", "softmax", {"score": score, "form": form, "bias": True}).make()
    mask = torch.tensor([[True] * 3, [False] * 3])
    out = module(normal(2, 3, 8), self_attention_context(Position(), torch.arange(3), mask, torch.float64))
    close(out[1], module.output.bias.expand(3, 8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", ["plain", "fused", "logits"])
def test_h18_masks_fit_small_number_types(form, dtype):
    mask = torch.tensor([[True, False, False, False]])
    weights = weights_of(form, [-20, 40, 40, 40], mask, dtype).double()
    close(weights[0], 1.0, atol=1e-3)
    assert (weights[1:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_h18_a_bias_and_a_mask_never_meet_at_minus_infinity_for_a_whole_row(dtype):
    mask = torch.tensor([[True, False], [False, False]])
    bias = torch.full((2, 2), torch.finfo(dtype).min, dtype=dtype)
    summed = logit_bias(mask, bias, ~mask.any(-1, keepdim=True), dtype)
    assert summed.dtype == dtype
    assert summed.softmax(-1).isfinite().all()


def test_only_the_plain_triangle_may_use_a_kernels_own_causal_form():
    from tfexp.registry import create

    alibi, every = create("position", {"name": "alibi"}, {"n_heads": 2}), torch.ones(1, 4, dtype=torch.bool)
    contexts = [
        self_attention_context(position, torch.arange(4), mask, torch.float32)
        for position in (Position(), alibi)
        for mask in (None, every)
    ]
    assert [c.causal for c in contexts] == [True, False, False, False]


def test_recording_shows_the_weights_and_changes_nothing():
    module, x, seen = Case("attention", "softmax").make(), normal(2, 3, 8), {}
    shared = self_attention_context(Position(), torch.arange(3), None, torch.float64)
    silent = module(x, shared)
    set_recorder(lambda name, value, flops: seen.update({name: (value, flops)}))
    try:
        recorded = module(x, shared)
    finally:
        set_recorder(None)
    close(recorded, silent)
    weights, scores = seen["weights"][0], seen["scores"][1]
    close(weights.sum(-1), torch.ones(2, 4, 3))
    assert (weights.triu(1) == 0).all()
    assert scores + seen["heads"][1] == 2 * module.extra_flops(3, 3)  # two sequences
