"""What a description refuses, and the sizes that it fills in."""

import copy

import pytest
import torch

from tests.tiny import TINY, ids, model, spec
from tfexp.components.base import Attention, Position
from tfexp.errors import ConfigError, DataError, RegistryError
from tfexp.model.build import build_model
from tfexp.model.spec import incompatibilities
from tfexp.registry import register, resolve

REFUSED = {
    "unknown_key": ({"n_layer": 2}, "model.n_layer: unknown key; did you mean 'n_layers'?"),
    "unknown_choice": ({"position": "rop"}, "model.position: unknown position 'rop'; did you mean 'rope'?"),
    "unknown_key_of_a_choice": (
        {"norm": {"name": "rmsnorm", "ep": 1}},
        "model.norm.ep: unknown key; did you mean 'eps'",
    ),
    "zero_layers": ({"n_layers": 0}, "model.n_layers: must be >= 1, got 0"),
    "no_width": ({"d_model": None}, "model.d_model: expected int >= 1, got None"),
    "architecture": ({"architecture": "decodr"}, "got 'decodr'; did you mean 'decoder'?"),
    "dropout_of_one": ({"dropout": {"hidden": 1.0}}, "model.dropout.hidden: must be >= 0 and < 1, got 1.0"),
    "dropout_site": ({"dropout": {"attn": 0.1}}, "model.dropout.attn: unknown key; did you mean 'attention'?"),
    "dropout_none": ({"dropout": "None"}, "keys (token, embedding, attention, residual, hidden), got 'None'"),
    "heads": (
        {"n_heads": 3},
        "model.n_heads: d_model=8 is not divisible by n_heads=3; use 2 heads or set model.head_dim",
    ),
    "kv_heads": ({"n_heads": 4, "n_kv_heads": 3}, "model.n_kv_heads: must divide n_heads=4, got 3"),
    "more_kv_heads_than_heads": ({"n_kv_heads": 4}, "model.n_kv_heads: must divide n_heads=2, got 4"),
}
MASK = torch.ones(2, 4, dtype=torch.bool)
CLASSIFIER = {"architecture": "encoder", "head": "classification", "n_labels": 2}
UNREAD = {
    "target_of_a_decoder": (
        {},
        {"decoder_input_ids": ids()},
        "decoder_input_ids: a model with architecture=decoder and head=lm does not read it; leave it out",
    ),
    "mask_of_a_target_of_an_encoder": (
        {"architecture": "encoder"},
        {"decoder_attention_mask": MASK},
        "decoder_attention_mask: a model with architecture=encoder and head=lm does not read it; leave it out",
    ),
    "documents_of_two_sides": (
        {"architecture": "encoder_decoder"},
        {"decoder_input_ids": ids(), "document_ids": ids()},
        "document_ids: a model with architecture=encoder_decoder and head=lm does not read it; leave it out",
    ),
    "positions_of_a_classifier": (
        CLASSIFIER,
        {"logits_at": MASK},
        "logits_at: a model with architecture=encoder and head=classification does not read it; leave it out",
    ),
}
BUILD_REFUSED = {
    "no_vocabulary": ({"vocab_size": None}, "model.vocab_size: null means the tokenizer's; set it to build without"),
    "no_labels": (
        {"head": "classification"},
        "model.n_labels: null means the data's; set it to build without data",
    ),
    "odd_rope": ({"head_dim": 5, "position": "rope"}, "position=rope rotates pairs: head_dim must be even, got 5"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_a_description_refuses(changes, message):
    with pytest.raises(ConfigError) as error:
        spec(**changes)
    assert message in str(error.value)
    assert str(error.value).startswith("model.")


@pytest.mark.parametrize("key", ["d_model", "n_layers", "position", "attention", "feedforward"])
def test_a_missing_key_is_named(key):
    from tfexp.model.spec import ModelSpec

    with pytest.raises(ConfigError, match=rf"^model\.{key}: (a value is missing|expected the name of a)"):
        ModelSpec.from_config({k: v for k, v in TINY.items() if k != key})


@pytest.mark.parametrize(("changes", "message"), BUILD_REFUSED.values(), ids=BUILD_REFUSED)
def test_building_refuses(changes, message):
    with pytest.raises(ConfigError, match=message):
        build_model(spec(**changes))


def test_sizes_follow_from_others():
    filled = spec(d_ff=None, n_heads=4)
    assert (filled.head_dim, filled.n_kv_heads, filled.d_ff) == (2, 4, 32)
    assert spec(d_ff=None, feedforward="glu").d_ff == 24
    assert spec(head_dim=5, n_heads=3).head_dim == 5  # free of d_model


def test_a_layer_made_by_hand_refuses_kv_heads_that_do_not_divide():
    from tfexp.components.attention.softmax import SoftmaxAttention

    with pytest.raises(ConfigError, match=r"model\.n_kv_heads: must divide n_heads=4, got 3"):
        SoftmaxAttention(8, 4, 3, 2, 0.0)


class Mixer(Attention):
    """Attention without queries and keys, and without a causal form."""


class Marked(Position):
    """Needs what no attention gives."""


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (
            {"causal", "padding"},
            "model.position: 'rope' needs 'query_key', which no other part gives (attention=mixer)",
        ),
        ({"query_key", "padding"}, "model.attention: architecture=decoder needs 'causal', which 'mixer' does not give"),
        ({"query_key", "causal"}, "model.attention: architecture=decoder needs 'padding', which 'mixer' does not give"),
    ],
    ids=["query_key", "causal", "padding"],
)
def test_a_combination_that_cannot_work_is_refused_with_the_reason(scratch_registry, gives, message):
    register("attention", "mixer", gives=gives)(Mixer)
    with pytest.raises(ConfigError) as error:
        build_model(spec(attention="mixer", position="rope"))
    assert str(error.value) == message


REFUSED_ATTENTIONS = {
    "alibi_without_scores": (
        {"position": "alibi", "attention": "linear"},
        "model.position: 'alibi' needs 'score_bias', which no other part gives (attention=linear)",
    ),
    "retention_both_ways": (
        {"architecture": "encoder", "attention": "retention"},
        "model.attention: architecture=encoder needs 'bidirectional', which 'retention' does not give",
    ),
    "delta_across": (
        {"architecture": "encoder_decoder", "cross_attention": "delta"},
        "model.cross_attention: a decoder that reads an encoder needs 'cross', which 'delta' does not give",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED_ATTENTIONS.values(), ids=REFUSED_ATTENTIONS)
def test_an_attention_that_cannot_do_it_is_refused_with_the_reason(changes, message):
    with pytest.raises(ConfigError) as error:
        build_model(spec(**changes))
    assert str(error.value) == message


def test_a_part_does_not_satisfy_its_own_need(scratch_registry):
    register("position", "marked", needs={"relative"}, gives={"relative"})(Marked)
    parts = {"position": resolve("position", "marked"), "attention": resolve("attention", "softmax")}
    assert incompatibilities(parts, "decoder") == [
        "model.position: 'marked' needs 'relative', which no other part gives (attention=softmax)"
    ]


# --- lengths --------------------------------------------------------------------------------------


def test_h10_a_sequence_longer_than_the_table_is_refused_with_both_numbers():
    with pytest.raises(DataError, match="input of 17 tokens is longer than the 16 positions of position=learned"):
        model(position="learned")(ids(1, 17))


def test_h10_the_full_length_exactly_works():
    assert model(position="learned")(ids(1, 16)).logits.shape == (1, 16, 16)


@pytest.mark.parametrize("place", [16, 1000])
def test_h10_an_explicit_position_beyond_the_table_is_refused(place):
    with pytest.raises(DataError, match=f"input of {place + 1} tokens is longer than the 16 positions"):
        model(position="learned")(ids(1, 4), position_ids=torch.tensor([[0, 1, 2, place]]))


def test_h10_a_negative_position_does_not_wrap_around():
    with pytest.raises(DataError, match="position_ids: -1 is not one of the positions 0 to 15 of position=learned"):
        model(position="learned")(ids(1, 4), position_ids=torch.tensor([[-1, 0, 1, 2]]))


@pytest.mark.parametrize("position", ["none", "sinusoidal", "rope", "alibi"])
def test_other_positions_go_beyond_the_trained_length(position):
    assert "extrapolates" in resolve("position", position).gives
    assert model(position=position)(ids(1, 40)).logits.isfinite().all()


@pytest.mark.parametrize("side", ["source", "target"])
def test_h10_each_side_names_the_position_that_is_too_short(side):
    made = model(architecture="encoder_decoder", encoder={"position": "learned"}, decoder={"position": "learned"})
    tokens = {"source": (ids(1, 17), ids(1, 4)), "target": (ids(1, 4), ids(1, 17))}[side]
    with pytest.raises(DataError, match="input of 17 tokens is longer than the 16 positions of position=learned"):
        made(tokens[0], decoder_input_ids=tokens[1])


def test_a_copy_of_a_model_knows_its_positions():
    made = model(architecture="encoder_decoder", position="learned")
    twin = copy.deepcopy(made)
    assert torch.equal(twin(ids(), decoder_input_ids=ids()).logits, made(ids(), decoder_input_ids=ids()).logits)
    with pytest.raises(DataError, match="of position=learned"):
        twin(ids(1, 17), decoder_input_ids=ids())


# --- arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("changes", "arguments", "message"), UNREAD.values(), ids=UNREAD)
def test_an_argument_that_would_be_ignored_is_refused(changes, arguments, message):
    with pytest.raises(DataError) as error:
        model(**changes)(ids(), **arguments)
    assert str(error.value) == message


@pytest.mark.parametrize("arguments", [{}, {"decoder_attention_mask": MASK}], ids=["nothing", "mask_alone"])
def test_an_encoder_decoder_needs_a_target(arguments):
    with pytest.raises(DataError, match=r"^decoder_input_ids: an encoder-decoder needs the target so far"):
        model(architecture="encoder_decoder")(ids(), **arguments)


def test_a_registry_error_is_not_a_config_error():
    assert not issubclass(RegistryError, ConfigError)
