"""Laws that hold for every input; each with a row that breaks it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.components.cases import Case, D, causal_context, sample
from tests.tiny import close, normal
from tfexp.components.attend import attend
from tfexp.components.base import AttentionContext, activate
from tfexp.components.position.alibi import slopes
from tfexp.errors import ConfigError
from tfexp.registry import create

LAYOUTS = ["half_split", "interleaved"]
PLACES = st.integers(0, 10_000)
X = [1.0, 0.0, 0.0, 0.0]
ROTATED = {
    "interleaved": [0.5403023, 0.8414710, 0.0, 0.0],
    "half_split": [0.5403023, 0.0, 0.8414710, 0.0],
}
SLOPES = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8],
    8: [2**-k for k in range(1, 9)],
    12: [2**-k for k in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
}


def rope(head_dim: int = 4, **options):
    return create("position", {"name": "rope", **options}, {"head_dim": head_dim})


def turn(position, vector, place: int):
    """One query vector rotated to a place."""
    places = torch.tensor([place])
    rotate = position.signals(places, places, torch.float64).query
    return rotate(torch.as_tensor(vector, dtype=torch.float64).view(1, 1, 1, -1)).flatten()


# --- rope ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_h08_each_layout_turns_its_own_pairs(layout):
    close(turn(rope(layout=layout), X, 1), ROTATED[layout], atol=5e-8)  # golden values have 7 digits


@pytest.mark.parametrize("layout", LAYOUTS)
def test_h08_the_two_layouts_are_not_interchangeable(layout):
    other = next(name for name in LAYOUTS if name != layout)
    with pytest.raises(AssertionError, match="not close"):
        close(turn(rope(layout=layout), X, 1), ROTATED[other], atol=5e-8)


def test_h07_the_angle_belongs_to_the_position_of_this_call():
    position = rope(layout="interleaved")
    close(turn(position, X, 0), X)
    close(turn(position, X, 5), [math.cos(5), math.sin(5), 0.0, 0.0])
    close(turn(position, X, 0), X)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(i=PLACES, j=PLACES, shift=PLACES)
def test_h08_dot_products_depend_on_the_distance_alone(layout, i, j, shift):
    position, (q, k) = rope(8, layout=layout), normal(2, 8)
    here = turn(position, q, i) @ turn(position, k, j)
    there = turn(position, q, i + shift) @ turn(position, k, j + shift)
    close(here, there, atol=1e-9)  # angles up to 20,000 lose 4 of 16 digits


@pytest.mark.parametrize("layout", LAYOUTS)
@given(place=PLACES)
def test_a_rotation_keeps_every_length(layout, place):
    vector = normal(8)
    close(turn(rope(8, layout=layout), vector, place).norm(), vector.norm(), atol=1e-12)


def test_absolute_positions_break_the_law_of_distances():
    table = create("position", {"name": "sinusoidal"}, {"d_model": 8}).table(torch.arange(10))
    q, k = normal(2, 8)
    with pytest.raises(AssertionError, match="not close"):
        close((q + table[1]) @ (k + table[3]), (q + table[4]) @ (k + table[6]), atol=1e-9)


def test_rope_refuses_an_odd_width():
    with pytest.raises(ConfigError, match="position=rope rotates pairs: head_dim must be even, got 5"):
        rope(5)


# --- alibi ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", SLOPES, ids=lambda n: f"{n}_heads")
def test_h09_slopes_are_the_authors(n_heads):
    assert slopes(n_heads) == pytest.approx(SLOPES[n_heads], rel=1e-15)


@pytest.mark.parametrize("n_heads", [6, 12], ids=lambda n: f"{n}_heads")
def test_h09_a_plain_geometric_series_is_another_scheme(n_heads):
    with pytest.raises(AssertionError):
        assert slopes(n_heads) == pytest.approx([2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)])


@given(shift=PLACES)
def test_h09_bias_is_zero_at_home_and_falls_with_distance(shift):
    alibi = create("position", {"name": "alibi"}, {"n_heads": 6})
    places = torch.arange(5) + shift
    bias = alibi.signals(places, places, torch.float64).bias
    assert (bias.diagonal(dim1=1, dim2=2) == 0).all()
    assert (bias[:, 4].diff(dim=-1) > 0).all()  # keys come nearer to the last query
    close(bias, alibi.signals(torch.arange(5), torch.arange(5), torch.float64).bias)


# --- norms ---------------------------------------------------------------------------------------


def norm(name: str, **options) -> nn.Module:
    return create("norm", {"name": name, "eps": 1e-12, **options}, {"d_model": D}).double()


@pytest.mark.parametrize("options", [{}, {"eps_place": "sigma"}], ids=["inside", "sigma"])
@given(scale=st.floats(0.1, 100), shift=st.floats(-50, 50))
def test_layernorm_forgets_scale_and_shift(options, scale, shift):
    layer, x = norm("layernorm", **options), sample()
    close(layer(x * scale + shift), layer(x), atol=1e-8)  # x + 50 keeps 14 digits, then / 0.1


@given(scale=st.floats(0.1, 100))
def test_rmsnorm_forgets_scale_and_keeps_sign(scale):
    layer, x = norm("rmsnorm"), sample()
    close(layer(x * scale), layer(x), atol=1e-8)  # eps is 1e-10 of the smallest mean square
    close(layer(-x), -layer(x))


def test_rmsnorm_does_not_forget_a_shift():
    layer, x = norm("rmsnorm"), sample()
    with pytest.raises(AssertionError, match="not close"):
        close(layer(x + 1), layer(x), atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"eps_place": "sigma"}], ids=["inside", "sigma"])
def test_layernorm_of_a_constant_token_is_zero_with_finite_gradients(options):
    layer, x = norm("layernorm", **options), torch.full((1, 1, D), 3.0, dtype=torch.float64, requires_grad=True)
    out = layer(x)
    out.square().sum().backward()
    close(out, torch.zeros_like(out))
    assert x.grad.isfinite().all()


# --- attention, residual, feed-forward, init -------------------------------------------------------


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "cosine", "additive"])
def test_g12_attention_alone_has_no_order(score):
    module, x = Case("attention", "softmax", {"score": score}).make(), sample()
    order = torch.tensor([3, 0, 4, 1, 2])
    close(module(x[:, order], AttentionContext()), module(x, AttentionContext())[:, order], atol=1e-12)


def test_g12_a_causal_mask_breaks_it():
    module, x = Case("attention", "softmax").make(), sample()
    order = torch.tensor([3, 0, 4, 1, 2])
    with pytest.raises(AssertionError, match="not close"):
        close(module(x[:, order], causal_context(x)), module(x, causal_context(x))[:, order], atol=1e-12)


@given(shift=st.floats(-1000, 1000))
def test_softmax_forgets_a_constant_in_the_bias(shift):
    q, k, v = normal(3, 1, 2, 4, 4)
    bias = normal(4, 4, seed=9)
    out = [attend(q, k, v, 0.5, AttentionContext(logit_bias=b), 0.0, "plain") for b in (bias, bias + shift)]
    close(*out, atol=1e-12)  # 1000 keeps 13 digits of a logit


def test_cosine_scores_forget_the_length_of_queries_and_keys():
    module = Case("score", "cosine").make()
    q, k = normal(2, 1, 2, 4, 4)
    close(module.logits(q * 7, k * 0.1), module.logits(q, k), atol=1e-11)


POOLINGS = {name: Case("pooling", name).make() for name in ("cls", "mean", "max", "last", "attention")}


def padded(vectors: torch.Tensor, left: int, right: int, filler: float) -> tuple[torch.Tensor, torch.Tensor]:
    """One row (1, T, D) with what may be anything on both sides, and its mask."""
    ends = [torch.full((1, n, vectors.shape[-1]), filler, dtype=vectors.dtype) for n in (left, right)]
    mask = torch.zeros(1, left + vectors.shape[1] + right, dtype=torch.bool)
    mask[:, left : left + vectors.shape[1]] = True
    return torch.cat((ends[0], vectors, ends[1]), dim=1), mask


@pytest.mark.parametrize("name", POOLINGS)
@given(left=st.integers(0, 3), right=st.integers(0, 3), filler=st.floats(-1e6, 1e6))
def test_h05_a_pooling_never_sees_what_is_padded(name, left, right, filler):
    vectors = normal(1, 3, D, seed=8) - 3  # all but certainly below 0: a padded 0 would be the largest
    close(POOLINGS[name](*padded(vectors, left, right, filler)), POOLINGS[name](vectors, None))


@pytest.mark.parametrize("name", POOLINGS)
def test_h05_a_pooling_without_the_mask_is_seen(name):
    vectors = normal(1, 3, D, seed=8) - 3
    with pytest.raises(AssertionError, match="not close"):
        close(POOLINGS[name](padded(vectors, 1, 1, 0.0)[0], None), POOLINGS[name](vectors, None))


@pytest.mark.parametrize("name", ["mean", "max", "attention"])
def test_a_pooling_of_a_set_has_no_order(name):
    x = sample()
    close(POOLINGS[name](x.flip(1), None), POOLINGS[name](x, None))


@pytest.mark.parametrize("name", ["cls", "last"])
def test_a_pooling_of_one_end_has_an_order(name):
    x = sample()
    with pytest.raises(AssertionError, match="not close"):
        close(POOLINGS[name](x.flip(1), None), POOLINGS[name](x, None))


@pytest.mark.parametrize("name", ["relu", "relu_squared", "gelu", "gelu_tanh", "silu"])
def test_an_activation_is_zero_at_zero_and_the_identity_far_out(name):
    power = 2 if name == "relu_squared" else 1
    close(activate(name, torch.tensor([0.0, 50.0, -50.0], dtype=torch.float64)), [0.0, 50.0**power, 0.0], atol=1e-9)


@pytest.mark.parametrize(("role", "std"), [("hidden", 0.5), ("logits", 0.5), ("residual", 0.5 / math.sqrt(6))])
def test_gpt2_init_shrinks_with_depth(role, std):
    recipe = create("init", {"name": "gpt2", "std": 0.5}, {"n_layers": 3})
    weight = torch.empty(200, 200, dtype=torch.float64)
    recipe.linear(weight, role, torch.Generator().manual_seed(0))
    # 40,000 draws: the standard error of the deviation is 0.35 %, of the mean 0.5 % of std.
    assert weight.std().item() == pytest.approx(std, rel=0.02)
    assert weight.mean().item() == pytest.approx(0, abs=0.02 * std)


def test_xavier_init_is_uniform_within_its_bound():
    recipe, weight = create("init", {"name": "xavier"}, {}), torch.empty(100, 200, dtype=torch.float64)
    recipe.linear(weight, "hidden", torch.Generator().manual_seed(0))
    bound = math.sqrt(6 / 300)
    assert 0.99 * bound < weight.abs().max().item() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize(("name", "std"), [("gpt2", 0.02), ("xavier", 1 / math.sqrt(64))])
def test_init_of_embeddings(name, std):
    recipe, weight = create("init", {"name": name}, {"n_layers": 3}), torch.empty(500, 64)
    recipe.embedding(weight, torch.Generator().manual_seed(0))
    assert weight.std().item() == pytest.approx(std, rel=0.03)  # 32,000 draws: standard error 0.4 %


@pytest.mark.parametrize(("d_model", "mlp", "glu"), [(8, 32, 24), (384, 1536, 1024), (4096, 16384, 10928)])
def test_default_inner_widths_have_about_equal_parameters(d_model, mlp, glu):
    from tfexp.registry import resolve

    widths = [resolve("feedforward", name).target.default_d_ff(d_model) for name in ("mlp", "glu")]
    assert widths == [mlp, glu]
    assert 2 * mlp <= 3 * glu <= 2 * mlp + 24
