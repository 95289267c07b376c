"""What attention layers remember between passes: over everything registered, against one pass over all."""

from dataclasses import replace

import pytest
import torch

from tests.components.cases import CASES, Case, D
from tests.tiny import close, normal
from tfexp.components.base import Attention, AttentionContext
from tfexp.components.state import (
    AttentionState,
    CrossState,
    CrossSummary,
    RecurrentState,
    StatePlan,
    TokenState,
)
from tfexp.components.store import GrowingStore, Int8Store, StaticStore, WindowStore
from tfexp.model.masks import cross_attention_context, self_attention_context, step_context
from tfexp.registry import create, resolve

ATOL = 1e-10  # float64, norms over single heads
ATTENTIONS = [case for case in CASES if case.slot == "attention"]
CACHEABLE = [case for case in ATTENTIONS if "cacheable" in resolve("attention", case.name).gives]
CROSSING = [case for case in CACHEABLE if "cross" in resolve("attention", case.name).gives]
CHUNKS = {"one_by_one": [1] * 6, "prefill": [4, 1, 1], "chunks": [2, 3, 1], "whole": [6]}
ROPE = create("position", {"name": "rope"}, {"head_dim": 4})
PLANS = {"growing": StatePlan(), "static": StatePlan("static", 2)}

cacheable = pytest.mark.parametrize("case", CACHEABLE, ids=[case.id for case in CACHEABLE])
crossing = pytest.mark.parametrize("case", CROSSING, ids=[case.id for case in CROSSING])


def whole(module: Attention, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    places = torch.arange(x.shape[1]) if mask is None else (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        return module(x, self_attention_context(ROPE, places, mask, x.dtype))


class Stepper:
    """One layer fed with pieces, as a decoder feeds all of its layers."""

    def __init__(self, module: Attention, plan: StatePlan | None = None, state: AttentionState | None = None) -> None:
        self.module, self.state, self.seen, self.mask = module, state or module.init_state(plan or StatePlan()), 0, None

    def __call__(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        self.seen += x.shape[1]
        self.mask = mask if self.mask is None or mask is None else torch.cat((self.mask, mask), dim=1)
        places = torch.arange(self.seen) if self.mask is None else (self.mask.cumsum(1) - 1).clamp(min=0)
        context = step_context(ROPE, places[..., -x.shape[1] :], places, self.mask, x.dtype)
        with torch.no_grad():
            return self.module(x, context, state=self.state)

    def all(self, x: torch.Tensor, chunks: list[int], mask: torch.Tensor | None = None) -> torch.Tensor:
        masks = [None] * len(chunks) if mask is None else mask.split(chunks, dim=1)
        return torch.cat([self(*pair) for pair in zip(x.split(chunks, dim=1), masks, strict=True)], dim=1)


@cacheable
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_steps_equal_one_pass(case, chunks, plan):
    module, x = case.make(), normal(2, 6, D)
    close(Stepper(module, plan).all(x, chunks), whole(module, x), ATOL)


@cacheable
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_left_padding_changes_nothing(case, chunks):
    module, x = case.make(), normal(2, 6, D)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]]).bool()
    out = Stepper(module).all(x, chunks, mask)
    close(out[:1], whole(module, x[:1]), ATOL)
    close(out[1:, 3:], whole(module, x[1:, 3:]), ATOL)
    close(whole(module, x, mask)[1:, 3:], whole(module, x[1:, 3:]), ATOL)


WITHOUT_WINDOW = [case for case in CACHEABLE if "window" not in case.options]  # which counts padding, too


@pytest.mark.parametrize("case", WITHOUT_WINDOW, ids=[case.id for case in WITHOUT_WINDOW])
@pytest.mark.parametrize("chunks", [[3, 1, 2], [4, 2], [6]], ids=str)
def test_padding_between_two_pieces_changes_nothing(case, chunks):
    module, x = case.make(), normal(2, 6, D)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 1, 1]]).bool()
    out, kept = Stepper(module).all(x, chunks, mask), mask[1]
    close(out[:1], whole(module, x[:1]), ATOL)
    close(out[1:, kept], whole(module, x[1:, kept]), ATOL)


@cacheable
def test_a_row_of_padding_alone_stays_finite(case):
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]]).bool()
    module, x = case.make(), normal(2, 4, D)
    out = Stepper(module).all(x, [2, 1, 1], mask)
    bias = 0.0 if module.output.bias is None else module.output.bias.detach()
    close(out[1], torch.zeros(4, D, dtype=x.dtype) + bias, 1e-12)
    close(out[:1], whole(module, x[:1]), ATOL)


LOOKING_BACK = [case for case in CACHEABLE if case.options.get("window") != 1]


@pytest.mark.parametrize("case", LOOKING_BACK, ids=[case.id for case in LOOKING_BACK])
def test_a_state_fed_with_padding_is_seen(case):
    module, x = case.make(), normal(2, 6, D)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]]).bool()
    out = Stepper(module).all(x, [4, 1, 1], torch.ones_like(mask))
    with pytest.raises(AssertionError, match="not close"):
        close(out[1:, 3:], whole(module, x[1:, 3:]), ATOL)


@cacheable
@pytest.mark.parametrize("rows", [[1, 0], [0, 0, 1], [1]], ids=["swap", "repeat", "drop"])
def test_rows_are_chosen_and_the_state_goes_on(case, rows):
    module, x, chosen = case.make(), normal(2, 6, D), torch.tensor(rows)
    stepper = Stepper(module)
    stepper(x[:, :4])
    stepper.state.reorder(chosen)
    close(stepper.all(x[chosen, 4:], [1, 1]), whole(module, x)[chosen, 4:], ATOL)


@cacheable
def test_a_fork_and_its_origin_go_their_own_ways(case):
    module, x, other = case.make(), normal(2, 6, D), normal(2, 2, D, seed=9)
    stepper = Stepper(module)
    stepper(x[:, :4])
    fork = Stepper(module, state=stepper.state.fork())
    fork.seen = 4
    turns = [(stepper(x[:, t : t + 1]), fork(other[:, t - 4 : t - 3])) for t in (4, 5)]
    close(torch.cat([turn[0] for turn in turns], 1), whole(module, x)[:, 4:], ATOL)
    close(torch.cat([turn[1] for turn in turns], 1), whole(module, torch.cat((x[:, :4], other), 1))[:, 4:], ATOL)


@cacheable
def test_a_state_is_cut_back_or_says_that_it_cannot(case):
    module, x = case.make(), normal(2, 6, D)
    stepper = Stepper(module)
    stepper(torch.cat((x[:, :3], -x[:, 3:5]), dim=1))
    if not stepper.state.truncates:
        with pytest.raises(NotImplementedError):
            stepper.state.truncate(3)
        return
    stepper.state.truncate(3)
    stepper.seen = 3
    close(stepper.all(x[:, 3:], [2, 1]), whole(module, x)[:, 3:], ATOL)


@cacheable
@pytest.mark.parametrize("length", [1, 3, 7])
@pytest.mark.parametrize("step", [1, 7], ids=["one_by_one", "whole"])
def test_a_state_holds_as_many_numbers_as_the_formula_says(case, length, step):
    module = case.make()
    stepper = Stepper(module)
    assert (stepper.state.numbers(), stepper.state.n_bytes()) == (0, 0)
    for piece in normal(2, length, D).split(step, dim=1):
        stepper(piece)
    assert stepper.state.numbers() == 2 * module.state_numbers(length)
    assert stepper.state.n_bytes() >= 8 * stepper.state.numbers()


FORMULAS = [
    ("softmax", {}, 3, 2 * 3 * 8),  # G tokens (K + Kv)
    ("softmax", {"window": 2}, 3, 2 * 2 * 8),
    ("linear", {}, 3, 2 * 4 * 5),  # G K (V + 1)
    ("linear", {"value_dim": 3}, 100, 2 * 4 * 4),
    ("retention", {}, 100, 2 * 4 * 4),  # G K V
    ("delta", {}, 100, 2 * 4 * 4 + 3 * (16 + 8 + 8)),  # and the last inputs of the convolutions
    ("delta", {"conv": None}, 100, 2 * 4 * 4),
    ("mla", {}, 3, 3 * (16 + 2)),  # tokens (r + dr)
    ("mla", {"kv_rank": 5, "rope_dim": 4}, 3, 3 * 9),
]


@pytest.mark.parametrize(("name", "options", "length", "numbers"), FORMULAS, ids=str)
def test_the_formula_is_the_papers(name, options, length, numbers):
    assert Case("attention", name, options).make().state_numbers(length) == numbers


@cacheable
def test_a_state_in_half_precision_is_summed_in_full(case):
    module, x = case.make(torch.bfloat16), normal(2, 6, D).bfloat16()
    stepper = Stepper(module)
    out = stepper.all(x, [4, 1, 1])
    assert out.dtype == torch.bfloat16
    if isinstance(stepper.state, RecurrentState):
        assert stepper.state.tensors[0].dtype == torch.float32


@cacheable
def test_eight_bits_err_by_what_they_round(case):
    module, x = case.make(torch.float32), normal(2, 6, D).float()
    out = Stepper(module, StatePlan("int8")).all(x, [1] * 6)
    expected = whole(module, x)
    scale = expected.abs().max().item()
    close(out, expected, 0.1 * scale)  # 1/254 of the largest entry, through a softmax of scores up to 10
    state = module.init_state(StatePlan("int8"))
    rounds = isinstance(state, TokenState) and isinstance(state.store, Int8Store)
    assert rounds != torch.equal(out, Stepper(module).all(x, [1] * 6))


# --- encoders --------------------------------------------------------------------------------------


@crossing
@pytest.mark.parametrize("rows", [[1, 0], [0, 0, 1], [1]], ids=["swap", "repeat", "drop"])
def test_an_encoder_is_read_once_and_its_rows_follow(case, rows):
    module, x, memory, chosen = case.make(), normal(2, 4, D), normal(2, 5, D, seed=4), torch.tensor(rows)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
    state = module.init_state(StatePlan(cross=True))
    with torch.no_grad():
        expected = module(x, cross_attention_context(mask, x.dtype), memory)
        context = cross_attention_context(mask, x.dtype)
        close(module(x[:, :2], context, memory, state), expected[:, :2], ATOL)
        state.reorder(chosen)
        state.truncate(0)  # the target is cut back, the source is not
        context = cross_attention_context(mask[chosen], x.dtype)
        gone = torch.full_like(memory[chosen], torch.nan)  # not read again
        close(module(x[chosen, 2:], context, gone, state), expected[chosen, 2:], ATOL)
    assert state.truncates


# --- the kinds by themselves -----------------------------------------------------------------------


def test_a_plan_chooses_the_store():
    kinds = {
        StatePlan(): GrowingStore,
        StatePlan("static", 8): StaticStore,
        StatePlan("int8"): Int8Store,
        StatePlan("int8", cross=True): GrowingStore,
    }
    assert [type(plan.store()) for plan in kinds] == list(kinds.values())
    assert {type(plan.store(window=3)) for plan in kinds} == {WindowStore}


def test_a_token_state_is_its_store():
    state = TokenState(GrowingStore())
    (held,) = state.append(normal(2, 2, 3, 4))
    assert (state.length, state.truncates, state.numbers()) == (3, True, 48)
    assert state.tensors[0] is held
    assert not TokenState(WindowStore(2)).truncates


def test_a_recurrent_state_shares_nothing_that_changes():
    state = RecurrentState()
    assert (state.numbers(), state.n_bytes(), state.truncates) == (0, 0, False)
    state.update(torch.ones(2, 3), torch.zeros(2, 1))
    fork = state.fork()
    state.update(torch.full((2, 3), 5.0), torch.zeros(2, 1))
    fork.reorder(torch.tensor([1]))
    assert fork.tensors[0].tolist() == [[1.0, 1.0, 1.0]]
    assert (state.numbers(), state.n_bytes(), len(state.tensors[0])) == (8, 32, 2)
    assert isinstance(CrossSummary().fork(), CrossSummary)
    assert isinstance(CrossState(GrowingStore()).fork(), CrossState)


UNFILLED = {
    "reorder": lambda state: state.reorder(torch.tensor([0])),
    "truncate": lambda state: state.truncate(0),
    "fork": lambda state: state.fork(),
    "numbers": lambda state: state.numbers(),
    "n_bytes": lambda state: state.n_bytes(),
    "init_state": lambda state: Attention().init_state(StatePlan()),
    "state_numbers": lambda state: Attention().state_numbers(3),
}


@pytest.mark.parametrize("call", UNFILLED.values(), ids=UNFILLED)
def test_a_state_that_leaves_the_contract_open_says_so(call):
    with pytest.raises(NotImplementedError):
        call(AttentionState())


def test_a_context_keeps_what_was_derived_for_itself():
    context = AttentionContext()
    context.derived["window"] = context
    assert replace(context, causal=True).derived == {}
