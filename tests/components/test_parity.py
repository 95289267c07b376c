"""Every component against an independent one: loops in float64, and torch; values and gradients."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.components import naive
from tests.components.cases import CASES, Case, D, causal_context, inputs, run, sample
from tests.tiny import close, normal
from tfexp.components.base import AttentionContext, Signals
from tfexp.model.masks import cross_attention_context, self_attention_context
from tfexp.registry import create, resolve

WITH_REFERENCE = [case for case in CASES if case.reference is not None]
ATTENTIONS = [case for case in CASES if case.slot == "attention"]
POOLINGS = [case for case in CASES if case.slot == "pooling"]
POSITIONS = {
    "none": {"name": "none"},
    "rope": {"name": "rope"},
    "alibi": {"name": "alibi"},
}
PADS = {
    "no_pads": None,
    "right_padding": [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]],
    "left_padding": [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]],
    "all_pads": [[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]],
}


def assert_same(ours: Tensor, theirs: Tensor, wanted: list[Tensor], atol: float) -> None:
    """Equal values, and equal gradients of one random projection of them."""
    close(ours, theirs, atol=atol)
    probe = normal(*ours.shape, seed=11)
    mine = torch.autograd.grad((ours * probe).sum(), wanted, allow_unused=True)
    reference = torch.autograd.grad((theirs * probe).sum(), wanted, allow_unused=True)
    for one, other in zip(mine, reference, strict=True):
        close(torch.zeros(()) if one is None else one, torch.zeros(()) if other is None else other, atol=atol)


def trainable(module: nn.Module) -> list[Tensor]:
    return [p for p in module.parameters() if p.requires_grad]


def test_a_row_without_a_reference_says_why():
    assert [case.id for case in CASES if case.reference is None and not case.no_reference] == []


@pytest.mark.parametrize("case", WITH_REFERENCE, ids=[case.id for case in WITH_REFERENCE])
def test_equals_the_loop(case):
    module, x = case.make(), sample().requires_grad_()
    assert_same(run(case, module, x), case.reference(module, *inputs(case, x)), [x, *trainable(module)], case.atol)


def test_a_wrong_formula_is_seen():
    case = next(c for c in WITH_REFERENCE if c.name == "rmsnorm")
    module, x = case.make(), sample()
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        close(run(case, module, x), naive.layernorm(Case("norm", "layernorm").make(), x))


def placed(position: str, pads: str, causal: bool = True, documents: list[int] | None = None) -> AttentionContext:
    mask = None if PADS[pads] is None else torch.tensor(PADS[pads], dtype=torch.bool)
    place = create("position", POSITIONS[position], {"head_dim": 4, "n_heads": 4}).double()
    numbers = None if documents is None else torch.tensor(documents).expand(2, 5)
    return self_attention_context(place, torch.arange(5).expand(2, 5), mask, torch.float64, causal, numbers)


def gives(case: Case) -> frozenset[str]:
    return resolve(case.slot, case.name).gives


PLACED = [(c, p) for c in ATTENTIONS for p in POSITIONS if resolve("position", p).needs <= gives(c)]
PLACED_IDS = [f"{case.id}-{position}" for case, position in PLACED]
CROSSING = [case for case in ATTENTIONS if "cross" in gives(case)]
TWO_WAY = [case for case in ATTENTIONS if "bidirectional" in gives(case)]


def assert_attends_as_the_loop(case: Case, context: AttentionContext) -> None:
    """What comes out at padded tokens is read by nobody, but is zero where a row has nothing else."""
    module, x = case.make(), sample().requires_grad_()
    out, expected = module(x, context), case.reference(module, x, context)
    if context.real is not None:
        nothing = ~context.real.any(dim=1)
        bias = 0.0 if module.output.bias is None else module.output.bias
        close(out[nothing], (torch.zeros_like(out) + bias)[nothing].detach())
    if context.real is not None and "exact" not in gives(case):
        out, expected = out[context.real], expected[context.real]
    assert_same(out, expected, [x, *trainable(module)], case.atol)


@pytest.mark.parametrize(("case", "position"), PLACED, ids=PLACED_IDS)
@pytest.mark.parametrize("pads", PADS)
def test_attention_equals_the_loop_under_every_mask(case, pads, position):
    assert_attends_as_the_loop(case, placed(position, pads))


@pytest.mark.parametrize("case", ATTENTIONS, ids=[case.id for case in ATTENTIONS])
@pytest.mark.parametrize("pads", ["no_pads", "right_padding", "left_padding"])
def test_attention_to_documents_equals_the_loop(case, pads):
    assert_attends_as_the_loop(case, placed("rope", pads, documents=[0, 0, 1, 1, 2]))


@pytest.mark.parametrize("case", TWO_WAY, ids=[case.id for case in TWO_WAY])
@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("documents", [None, [0, 0, 1, 1, 1]], ids=["one_document", "documents"])
def test_bidirectional_attention_equals_the_loop(case, pads, documents):
    assert_attends_as_the_loop(case, placed("rope", pads, causal=False, documents=documents))


@pytest.mark.parametrize("case", CROSSING, ids=[case.id for case in CROSSING])
@pytest.mark.parametrize("pads", [None, [[1, 1, 1], [1, 1, 0]], [[1, 1, 1], [0, 0, 0]]], ids=str)
def test_attention_to_a_memory_equals_the_loop(case, pads):
    module, x = case.make(), sample().requires_grad_()
    memory = normal(2, 3, D, seed=8).requires_grad_()
    context = cross_attention_context(None if pads is None else torch.tensor(pads).bool(), x.dtype)
    ours, theirs = module(x, context, memory), case.reference(module, x, context, memory)
    assert_same(ours, theirs, [x, memory, *trainable(module)], case.atol)


@pytest.mark.parametrize("case", POOLINGS, ids=[case.id for case in POOLINGS])
@pytest.mark.parametrize("pads", PADS)
def test_pooling_equals_the_loop_under_every_mask(case, pads):
    module, x = case.make(), sample().requires_grad_()
    mask = None if PADS[pads] is None else torch.tensor(PADS[pads], dtype=torch.bool)
    assert_same(module(x, mask), case.reference(module, x, mask), [x, *trainable(module)], case.atol)


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "cosine"])
@pytest.mark.parametrize("pads", PADS)
def test_plain_form_equals_fused_form(score, pads):
    plain, fused = (Case("attention", "softmax", {"score": score, "form": f}).make() for f in ("plain", "fused"))
    mask = None if PADS[pads] is None else torch.tensor(PADS[pads], dtype=torch.bool)
    alibi = create("position", {"name": "alibi"}, {"n_heads": 4})
    context = self_attention_context(alibi, torch.arange(5), mask, torch.float64)
    x = sample().requires_grad_()
    one, other = plain(x, context), fused(x, context)
    close(one, other, atol=1e-12)
    close(*(torch.autograd.grad(out.square().sum(), x)[0] for out in (one, other)), atol=1e-10)


@pytest.mark.parametrize("form", ["plain", "fused"])
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_grouped_heads_equal_repeated_heads(n_kv_heads, score, form):
    case = Case("attention", "softmax", {"score": score, "form": form, "value_dim": 3})
    grouped, full = case.make(n_kv_heads=n_kv_heads), case.make(n_kv_heads=4)
    state = grouped.state_dict()
    for name, width in (("key.weight", 4), ("value.weight", 3)):
        per_head = state[name].view(n_kv_heads, width, D)
        state[name] = per_head.repeat_interleave(4 // n_kv_heads, dim=0).flatten(0, 1)  # consecutive heads share
    full.load_state_dict(state)
    close(grouped(sample(), causal_context(sample())), full(sample(), causal_context(sample())), atol=1e-12)


# --- torch -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("eps", [1e-5, 1e-2], ids=str)
def test_layernorm_equals_torch(bias, eps):
    module = Case("norm", "layernorm", {"bias": bias, "eps": eps}).make()
    x = sample().requires_grad_()
    theirs = nn.functional.layer_norm(x, (D,), module.weight, module.bias, eps)
    assert_same(module(x), theirs, [x, *trainable(module)], 1e-13)


def into_torch(ours: nn.Module, theirs: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor]]:
    """Copy our projections into torch's, which holds query, key and value in one matrix."""
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    return [(ours.output.weight, theirs.out_proj.weight), (ours.output.bias, theirs.out_proj.bias)]


@pytest.mark.parametrize("form", ["plain", "fused"])
@pytest.mark.parametrize("pads", ["no_pads", "right_padding"])
def test_attention_equals_torch_multihead_attention(form, pads):
    ours = Case("attention", "softmax", {"bias": True, "form": form}).make(n_heads=2, n_kv_heads=2)
    theirs = nn.MultiheadAttention(D, 2, batch_first=True, dtype=torch.float64)
    pairs = into_torch(ours, theirs)
    real = torch.tensor(PADS[pads] or [[1] * 5] * 2, dtype=torch.bool)
    x, y = sample().requires_grad_(), sample().requires_grad_()
    place = create("position", {"name": "none"}, {})
    out = ours(x, self_attention_context(place, torch.arange(5), real, x.dtype))
    # torch's masks have the other polarity: True = blocked.
    upper = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, _ = theirs(y, y, y, key_padding_mask=~real, attn_mask=upper, need_weights=False)
    close(out, expected, atol=1e-12)
    probe = normal(*out.shape, seed=11)
    (out * probe).sum().backward()
    (expected * probe).sum().backward()
    for one, other in [(x, y), *pairs]:
        close(one.grad, other.grad, atol=1e-11)
    in_proj = torch.cat([part.weight.grad for part in (ours.query, ours.key, ours.value)])
    close(in_proj, theirs.in_proj_weight.grad, atol=1e-11)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_block_equals_torch_encoder_layer(placement, activation):
    from tfexp.model.block import Block

    attention = Case("attention", "softmax", {"bias": True}).make(n_heads=2, n_kv_heads=2)
    feedforward = Case("feedforward", "mlp", {"activation": activation, "bias": True}).make()
    block = Block(attention, feedforward, Case("norm_placement", placement).make(), dropout=0.0)
    theirs = nn.TransformerEncoderLayer(
        D, 2, 12, 0.0, activation, batch_first=True, norm_first=placement == "pre", dtype=torch.float64
    )
    into_torch(attention, theirs.self_attn)
    theirs.linear1.load_state_dict(feedforward.inner.state_dict())
    theirs.linear2.load_state_dict(feedforward.outer.state_dict())
    theirs.norm1.load_state_dict(block.placement.norms["attention"].state_dict())
    theirs.norm2.load_state_dict(block.placement.norms["feedforward"].state_dict())
    x = sample().requires_grad_()
    upper = torch.ones(5, 5, dtype=torch.bool).triu(1)
    ours, expected = block(x, causal_context(x)), theirs(x, src_mask=upper)
    # 12 products in a row, values up to 30
    assert_same(ours, expected, [x], 1e-10)


def test_signals_of_a_position_are_applied_to_both_sides():
    module, x = Case("attention", "softmax").make(), sample()
    context = replace(causal_context(x), signals=Signals(query=lambda q: q * 2, key=lambda k: k * 0.5))
    close(module(x, context), module(x, causal_context(x)))
    one_side = replace(context, signals=Signals(query=lambda q: q * 2))
    assert (module(x, one_side) - module(x, causal_context(x))).abs().max() > 1e-3
