"""Decoding from a state against passes over everything: for all that goes together, on one side and on two."""

from itertools import product

import pytest
import torch

from tests.model.broken import ForgetsItsState
from tests.tiny import close, ids, model
from tfexp.components.state import StatePlan
from tfexp.errors import DataError
from tfexp.model.decoding import DecodingState, step
from tfexp.registry import names, register, resolve

ATOL = 1e-11  # float64 through two layers whose logits reach about 30
POSITIONS = names("position")
PLACEMENTS = names("norm_placement")
ATTENTIONS = {name: {"name": name} for name in names("attention")} | {"window": {"name": "softmax", "window": 3}}
DECODING = {
    attention: options
    for attention, options in ATTENTIONS.items()
    if resolve("attention", options["name"]).gives >= {"causal", "cacheable"}
}
CHOICES = [
    pytest.param(options, position, placement, id=f"{attention}-{position}-{placement}")
    for (attention, options), position, placement in product(DECODING.items(), POSITIONS, PLACEMENTS)
    if resolve("position", position).needs <= resolve("attention", options["name"]).gives
]
VARIANTS = {
    "grouped": {"n_heads": 4, "n_kv_heads": 2, "head_dim": 2},
    "additive": {"attention": {"name": "softmax", "score": "additive"}},
    "ngram": {"embedding": {"name": "ngram", "max_n": 3, "buckets": 11}},
    "glu_rms": {"norm": "rmsnorm", "feedforward": "glu"},
}
CHUNKS = {"one_by_one": [1] * 6, "prefill": [4, 1, 1], "chunks": [2, 3, 1], "whole": [6]}


def stepped(tiny, tokens, chunks, mask=None, memory=None, state=None):
    """Logits of all tokens, passed in pieces of these lengths."""
    state = state or DecodingState(tiny, memory)
    masks = [None] * len(chunks) if mask is None else mask.split(chunks, dim=1)
    pieces = tokens.split(chunks, dim=1)
    with torch.no_grad():
        return torch.cat([step(tiny, t, state, m).logits for t, m in zip(pieces, masks, strict=True)], dim=1)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize(("attention", "position", "placement"), CHOICES)
def test_steps_equal_one_pass(attention, position, placement, chunks):
    tiny, tokens = model(attention=attention, position=position, norm_placement=placement), ids(2, 6)
    close(stepped(tiny, tokens, chunks), tiny(tokens).logits.detach(), ATOL)


def test_a_layer_that_forgets_its_state_is_seen(scratch_registry):
    register("attention", "forgetful", gives={"causal", "padding", "cacheable"})(ForgetsItsState)
    tiny, tokens = model(attention="forgetful"), ids(2, 6)
    close(stepped(tiny, tokens, [6]), tiny(tokens).logits.detach(), ATOL)
    with pytest.raises(AssertionError, match="not close"):
        close(stepped(tiny, tokens, [4, 1, 1]), tiny(tokens).logits.detach(), ATOL)


@pytest.mark.parametrize("attention", DECODING)
def test_a_state_holds_what_its_layers_say(attention):
    tiny = model(attention=DECODING[attention])
    state = DecodingState(tiny)
    stepped(tiny, ids(2, 6), [4, 1, 1], state=state)
    assert state.numbers() == 2 * sum(layer.attention.state_numbers(6) for layer in tiny.decoder.layers)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_steps_equal_one_pass_whatever_the_parts(changes):
    tiny, tokens = model(position="rope", **changes), ids(2, 6)
    close(stepped(tiny, tokens, [3, 1, 1, 1]), tiny(tokens).logits.detach(), ATOL)


@pytest.mark.parametrize(("attention", "position", "placement"), CHOICES)
def test_h06_left_padded_prompts_equal_prompts_alone(attention, position, placement):
    tiny, tokens = model(attention=attention, position=position, norm_placement=placement), ids(2, 6)
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1, :2] = False
    both = stepped(tiny, tokens, [4, 1, 1], mask)
    close(both[0], stepped(tiny, tokens[:1], [6])[0], ATOL)
    close(both[1, 2:], stepped(tiny, tokens[1:, 2:], [4])[0], ATOL)


CROSSING = [name for name, o in DECODING.items() if "cross" in resolve("attention", o["name"]).gives]


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("cross", CROSSING)
@pytest.mark.parametrize("attention", DECODING)
def test_an_encoder_decoder_steps_as_it_passes(attention, cross, chunks):
    parts = {"decoder": {"attention": DECODING[attention]}, "cross_attention": DECODING[cross]}
    tiny = model(architecture="encoder_decoder", position="rope", **parts)
    source, tokens = ids(2, 5, seed=3), ids(2, 6)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    with torch.no_grad():
        memory = tiny.encode(source, mask)
    expected = tiny(source, mask, decoder_input_ids=tokens).logits.detach()
    close(stepped(tiny, tokens, chunks, memory=memory), expected, ATOL)


def test_h03_two_new_tokens_see_all_that_came_before():
    tiny, tokens = model(position="alibi"), ids(1, 5)
    close(stepped(tiny, tokens, [3, 2])[:, 3:], tiny(tokens).logits[:, 3:].detach(), ATOL)


def test_G55_shapes_of_the_cache():
    tiny = model(n_layers=2)
    state = DecodingState(tiny)
    step(tiny, ids(2, 3), state)
    assert state.blocks[0].attention.tensors[0].shape == (2, 2, 3, 4)
    step(tiny, ids(2, 1), state)
    assert state.blocks[0].attention.tensors[1].shape == (2, 2, 4, 4)


def test_G56_size_of_the_cache():
    tiny = model(dtype=torch.float32)
    state = DecodingState(tiny)
    step(tiny, ids(2, 3), state)
    assert (state.numbers(), state.n_bytes()) == (2 * 2 * 2 * 3 * 8, 768)
    step(tiny, ids(2, 1), state)
    assert (state.numbers(), state.n_bytes()) == (256, 1024)


def test_G57_a_step_projects_the_new_token_only():
    tiny, rows = model(), []
    for name, module in tiny.named_modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda m, inputs, out, name=name: rows.append((name, inputs[0].shape[1])))
    state = DecodingState(tiny)
    step(tiny, ids(2, 3), state)
    assert {n for _, n in rows} == {3}
    rows.clear()
    logits = step(tiny, ids(2, 1, seed=9), state).logits
    assert {n for _, n in rows} == {1}
    assert len(rows) == len({name for name, _ in rows})  # each map once
    close(logits[:, -1].detach(), tiny(torch.cat((ids(2, 3), ids(2, 1, seed=9)), 1)).logits[:, -1].detach(), ATOL)


def test_G57_keys_of_an_encoder_are_computed_once():
    tiny, calls = model(architecture="encoder_decoder"), []
    tiny.decoder.layers[0].cross_attention.key.register_forward_hook(lambda *call: calls.append(1))
    memory = tiny.encode(ids(2, 5))
    stepped(tiny, ids(2, 6), [1] * 6, memory=memory)
    assert len(calls) == 1


def test_G58_an_edited_prefix_needs_its_state_cut_back():
    tiny, tokens = model(position="rope"), ids(1, 6)
    edited = tokens.clone()
    edited[0, 2] = (edited[0, 2] + 1) % 16
    state = DecodingState(tiny)
    stepped(tiny, tokens[:, :5], [5], state=state)
    stale = DecodingState(tiny)
    stepped(tiny, tokens[:, :5], [5], state=stale)
    state.truncate(2)
    fresh = stepped(tiny, edited[:, 2:], [4], state=state)
    close(fresh, tiny(edited).logits[:, 2:].detach(), ATOL)
    with pytest.raises(AssertionError):  # what was kept of the old prefix is seen
        close(stepped(tiny, edited[:, 5:], [1], state=stale), fresh[:, -1:], ATOL)


def test_G59_states_of_two_prompts_are_never_shared():
    tiny, first, second = model(position="rope"), ids(1, 6), ids(1, 6, seed=4)
    states = [DecodingState(tiny), DecodingState(tiny)]
    turns = [
        [
            stepped(tiny, tokens[:, k : k + 1], [1], state=state)
            for tokens, state in zip((first, second), states, strict=True)
        ]
        for k in range(6)
    ]
    close(torch.cat([turn[0] for turn in turns], 1), tiny(first).logits.detach(), ATOL)
    close(torch.cat([turn[1] for turn in turns], 1), tiny(second).logits.detach(), ATOL)


@pytest.mark.parametrize("rows", [[1, 0], [0, 0, 1], [1]], ids=["swap", "fork", "drop"])
@pytest.mark.parametrize("sided", [False, True], ids=["decoder", "encoder_decoder"])
@pytest.mark.parametrize("attention", DECODING)
def test_rows_can_be_swapped_repeated_and_dropped(attention, rows, sided):
    changes = {"architecture": "encoder_decoder", "encoder": {"attention": "softmax"}} if sided else {}
    changes |= {"attention": DECODING[attention], "cross_attention": "linear" if attention == "linear" else "softmax"}
    tiny, tokens, source = model(position="learned", **changes), ids(2, 6), ids(2, 4, seed=3)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    memory = tiny.encode(source, mask) if sided else None
    expected = tiny(source, mask, decoder_input_ids=tokens) if sided else tiny(tokens)
    state = DecodingState(tiny, memory)
    stepped(tiny, tokens[:, :4], [4], state=state)
    chosen = torch.tensor(rows)
    state.reorder(chosen)
    close(stepped(tiny, tokens[chosen, 4:], [1, 1], state=state), expected.logits[chosen, 4:].detach(), ATOL)


def test_h10_more_tokens_than_positions_are_refused_in_the_middle_of_decoding():
    tiny = model(position="learned")
    state = DecodingState(tiny)
    step(tiny, ids(1, 16), state)
    with pytest.raises(DataError, match="input of 17 tokens is longer than the 16 positions of position=learned"):
        step(tiny, ids(1, 1), state)


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        ("encoder", "decoding: architecture=encoder has no decoder"),
        ("encoder_decoder", "decoding: architecture=encoder_decoder and the memory of an encoder do not go together"),
    ],
)
def test_a_model_that_cannot_decode_is_refused(architecture, message):
    with pytest.raises(DataError, match=message):
        DecodingState(model(architecture=architecture))


# --- what is refused changes nothing --------------------------------------------------------------


def held(state: DecodingState) -> tuple:
    layers = [b.attention.length for b in state.blocks]
    return state.length, layers, [n for b in state.blocks for t in b.attention.tensors for n in t.flatten().tolist()]


@pytest.mark.parametrize("storage", ["growing", "static", "int8"])
def test_a_refused_step_leaves_the_state_as_it_was(storage, monkeypatch):
    net = model(position="learned", max_seq_len=4)
    state = DecodingState(net, plan=StatePlan(storage, 4))
    refusals = {
        "input of 5 tokens is longer than the 4 positions": lambda: step(net, ids(2, 2), state),
        "3 rows of new tokens for 2 rows that were read": lambda: step(net, ids(3, 1), state),
        r"attention_mask: has shape \(2, 2\), the tokens have \(2, 1\)": lambda: step(
            net, ids(2, 1), state, torch.ones(2, 2)
        ),
        "index out of range": lambda: step(net, torch.full((2, 1), 99), state),
        "stopped": lambda: step(net, ids(2, 1), state),
    }
    step(net, ids(2, 3), state)
    before = held(state)

    def stop(x):
        raise KeyboardInterrupt("stopped")

    for message, refused in refusals.items():
        if message == "stopped":  # between two layers, of which the first has read the token
            monkeypatch.setattr(net.decoder.layers[1].feedforward, "forward", stop)
        with pytest.raises((DataError, IndexError, KeyboardInterrupt), match=message):
            refused()
        assert held(state) == before
    monkeypatch.undo()
    tokens = torch.cat((ids(2, 3), ids(2, 1)), dim=1)
    if storage != "int8":
        close(step(net, ids(2, 1), state).logits[:, 0], net(tokens).logits[:, -1], 1e-11)
