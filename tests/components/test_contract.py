"""What every component must do, over the registry."""

import inspect
import re

import pytest
import torch
from torch import nn

from tests.components.cases import CASES, MODULES, SHAPES, B, Case, D, T, V, of, run, sample
from tests.tiny import close
from tfexp.components.base import (
    Attention,
    AttentionContext,
    Embedding,
    Head,
    Init,
    NormPlacement,
    Pooling,
    Position,
    Score,
    Signals,
)
from tfexp.errors import ConfigError
from tfexp.registry import check_choice, names, resolve
from tfexp.slots import SLOTS

HALF = [torch.bfloat16, torch.float16]
# Rounding to bfloat16 is 2^-9 relative, float16 2^-12; values of size up to 30 pass through three products.
HALF_RTOL = {torch.bfloat16: 0.1, torch.float16: 0.02}
WITH_DROPOUT = {"attention": "attention_dropout", "feedforward": "hidden_dropout"}
OF_MODELS = [slot for slot, declared in SLOTS.items() if declared.package.startswith("tfexp.components.")]
REGISTERED = [(slot, name) for slot in OF_MODELS for name in names(slot)]

rows = pytest.mark.parametrize("case", MODULES, ids=[case.id for case in MODULES])
DROPPING = [c for c in MODULES if WITH_DROPOUT.get(c.slot) in resolve(c.slot, c.name).injected]
with_dropout = pytest.mark.parametrize("case", DROPPING, ids=[c.id for c in DROPPING])


def require_row(slot: str, name: str) -> None:
    if not any((case.slot, case.name) == (slot, name) for case in CASES):
        raise AssertionError(f"{slot}/{name}: add a row here: tests/components/cases.py")


@pytest.mark.parametrize(("slot", "name"), REGISTERED, ids=["-".join(pair) for pair in REGISTERED])
def test_every_component_has_a_row(slot, name):
    require_row(slot, name)


def test_a_missing_row_is_seen():
    with pytest.raises(AssertionError, match="norm/new: add a row here"):
        require_row("norm", "new")


@pytest.mark.parametrize(("slot", "name"), REGISTERED, ids=["-".join(pair) for pair in REGISTERED])
def test_a_component_documents_its_source_and_its_keys(slot, name):
    component = resolve(slot, name)
    text = inspect.getdoc(component.target) or ""
    assert "Source: " in text
    assert [f.name for f in component.fields if f"{f.name}: " not in text] == []


@pytest.mark.parametrize(("slot", "name"), REGISTERED, ids=["-".join(pair) for pair in REGISTERED])
def test_the_default_config_is_a_valid_choice(slot, name):
    config = resolve(slot, name).default_config()
    checked = check_choice(slot, config, slot)
    assert checked.keys() == config.keys()
    assert check_choice(slot, checked, slot) == checked


@rows
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF], ids=str)
def test_shape_and_dtype(case, dtype):
    module, x = case.make(dtype), sample(dtype)
    out = run(case, module, x)
    assert out.shape == of(case, SHAPES, (B, T, D))
    assert out.dtype == dtype
    assert out.isfinite().all()


@rows
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_h18_half_precision_is_near_the_full_one(case, dtype):
    # Both see the same rounded parameters and inputs.
    half = run(case, case.make(dtype), sample(dtype)).double()
    full = run(case, case.make(dtype).double(), sample(dtype).double())
    scale = full.abs().max().item()
    close(half, full, atol=HALF_RTOL[dtype] * scale)


@rows
def test_gradients_are_finite_and_reach_every_parameter(case):
    module, x = case.make(), sample().requires_grad_()
    out = run(case, module, x)
    wanted = [p for p in module.parameters() if p.requires_grad] + ([] if case.slot == "embedding" else [x])
    gradients = torch.autograd.grad((out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum(), wanted)
    for gradient in gradients:
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0 or (out == 0).all()  # a sublayer that adds nothing passes nothing back


@rows
def test_batch_mates_change_nothing(case):
    module, x = case.make(), sample()
    # Another batch size may sum in another order: rounding in float64.
    close(run(case, module, x)[:1], run(case, module, x[:1]), atol=1e-13)


@rows
def test_state_dict_round_trip(case):
    one, other, x = case.make(seed=0), case.make(seed=1), sample()
    before = run(case, one, x)
    assert other.load_state_dict(one.state_dict(), strict=True)
    assert torch.equal(run(case, other, x), before)


class Forgetful(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D, dtype=torch.float64))
        self.hidden = torch.tensor(value)  # state that a checkpoint misses

    def forward(self, x):
        return x * self.weight * self.hidden


def test_state_outside_the_state_dict_is_seen():
    one, other = Forgetful(1.0), Forgetful(2.0)
    other.load_state_dict(one.state_dict(), strict=True)
    with pytest.raises(AssertionError):
        assert torch.equal(one(sample()), other(sample()))


@rows
def test_same_parameters_give_the_same_numbers_twice(case):
    assert torch.equal(run(case, case.make(), sample()), run(case, case.make(), sample()))


@with_dropout
def test_h11_dropout_acts_in_training_only(case):
    module, plain = (case.make(**{WITH_DROPOUT[case.slot]: rate}) for rate in (0.5, 0.0))
    x = sample()
    expected = run(case, plain, x)
    torch.manual_seed(1)
    first, second = run(case, module, x), run(case, module, x)
    assert not torch.equal(first, second)
    module.eval()
    assert torch.equal(run(case, module, x), expected)
    assert torch.equal(run(case, module, x), run(case, module, x))


@pytest.mark.parametrize("score", names("score"))
@pytest.mark.parametrize("form", ["plain", "fused"])
def test_h11_attention_dropout_keeps_the_mean(score, form):
    case = next(c for c in MODULES if c.slot == "attention")
    options = {**case.options, "score": score, "form": form}
    module = type(case)(case.slot, case.name, options).make(attention_dropout=0.5)
    x = sample()[:1].expand(4000, -1, -1)
    drawn, expected = run(case, module, x), run(case, module.eval(), x[:1])
    # Six standard errors of a mean of 4000 draws, at each place by its own spread.
    assert ((drawn.mean(0) - expected[0]).abs() <= 6 * drawn.std(0) / 4000**0.5 + 1e-12).all()


def test_h11_dropout_of_a_classifier_acts_in_training_only():
    case, x = Case("head", "classification", {"dropout": 0.5}), sample()
    module, plain = case.make(), Case("head", "classification").make()
    torch.manual_seed(1)
    assert not torch.equal(run(case, module, x), run(case, module, x))
    assert torch.equal(run(case, module.eval(), x), run(case, plain, x))


@pytest.mark.parametrize("name", names("head"))
def test_a_head_scores_what_it_declares_and_can_be_tied_if_that_is_tokens(name):
    case, table = Case("head", name), nn.Parameter(torch.ones(V, D, dtype=torch.float64))
    (declared,) = resolve("head", name).gives
    if declared == "token_logits":
        module = case.make()
        module.tie(table)
        assert module.project.weight is table
        assert run(case, module, sample()).shape == (B, T, V)
    else:
        message = f"model.tie_embeddings: head={name} scores classes, not tokens; set it to false"
        with pytest.raises(ConfigError, match=re.escape(message)):
            case.make().tie(table)


UNFILLED = {
    "embedding.table": lambda: Embedding().table(),
    "attention": lambda: Attention()(sample(), AttentionContext()),
    "score": lambda: Score().logits(sample(), sample()),
    "norm_placement": lambda: NormPlacement((), nn.Identity, nn.Identity).block(sample(), {}),
    "pooling": lambda: Pooling()(sample(), None),
    "head.tie": lambda: Head().tie(nn.Parameter(torch.ones(2, 2))),
    "init.linear": lambda: Init().linear(torch.ones(2, 2), "hidden", torch.Generator()),
    "init.embedding": lambda: Init().embedding(torch.ones(2, 2), torch.Generator()),
}


@pytest.mark.parametrize("call", UNFILLED.values(), ids=UNFILLED)
def test_a_contract_that_a_component_leaves_open_says_so(call):
    with pytest.raises(NotImplementedError):
        call()


def test_a_position_that_overrides_nothing_does_nothing():
    x, places = sample(), torch.arange(T)
    assert Position().embed(x, places) is x
    assert Position().signals(places, places, x.dtype) == Signals()
    assert Attention().extra_flops(3, 3) == 0
