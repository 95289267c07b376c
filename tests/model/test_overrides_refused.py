"""What overrides of one side and of slices of layers refuse, and combinations that cannot work."""

import pytest

from tests.tiny import spec
from tfexp.components.base import Attention, Head
from tfexp.errors import ConfigError, IncompatibleError, RegistryError
from tfexp.model.build import build_model
from tfexp.registry import register

PAIR = {"architecture": "encoder_decoder"}
REFUSED = {
    # --- of a side
    "key": ({**PAIR, "encoder": {"n_layer": 2}}, "model.encoder.n_layer: unknown key; did you mean 'n_layers'?"),
    "width": ({**PAIR, "decoder": {"d_model": 4}}, "model.decoder.d_model: unknown key; "),
    "value": ({"decoder": {"n_layers": 0}}, "model.decoder.n_layers: must be >= 1, got 0"),
    "choice": (
        {"decoder": {"position": "rop"}},
        "model.decoder.position: unknown position 'rop'; did you mean 'rope'?",
    ),
    "key_of_a_choice": (
        {"decoder": {"attention": {"biass": True}}},
        "model.decoder.attention.biass: unknown key; did you mean 'bias'?",
    ),
    "key_of_another_choice": (
        {"decoder": {"norm": {"name": "rmsnorm", "bias": False}}},
        "model.decoder.norm.bias: unknown key; ",
    ),
    "site": (
        {"decoder": {"dropout": {"attn": 0.1}}},
        "model.decoder.dropout.attn: unknown key; did you mean 'attention'?",
    ),
    "no_group": ({"decoder": 3}, "model.decoder: expected dict, got 3"),
    "heads": (
        {"decoder": {"n_heads": 3}},
        "model.decoder.n_heads: d_model=8 is not divisible by n_heads=3; use 2 heads or set model.decoder.head_dim",
    ),
    "kv_heads": ({"decoder": {"n_kv_heads": 3}}, "model.decoder.n_kv_heads: must divide n_heads=2, got 3"),
    "absent_encoder": (
        {"encoder": {"n_layers": 1}},
        "model.encoder: architecture=decoder has no encoder; leave it out or use encoder_decoder",
    ),
    "absent_decoder": (
        {"architecture": "encoder", "decoder": {"n_layers": 1}},
        "model.decoder: architecture=encoder has no decoder; leave it out or use encoder_decoder",
    ),
    "cross_attention_without_a_name": (
        {**PAIR, "decoder": {"cross_attention": {"bias": True}}},
        "model.decoder.cross_attention: expected the name of a attention, got {'bias': True}",
    ),
    "the_shared_part_first": (
        {"n_heads": 3, "decoder": {"n_layers": 1}},
        "model.n_heads: d_model=8 is not divisible by n_heads=3",
    ),
    # --- by slice
    "no_list": ({"layers": {"where": "0"}}, "model.layers: expected list of dict, got {'where': '0'}"),
    "no_mapping": ({"layers": ["0"]}, "model.layers: expected list of dict, got ['0']"),
    "no_place": (
        {"layers": [{"d_ff": 4}]},
        "model.layers[0]: expected {where: a layer or slice, its own keys}, got {'d_ff': 4}",
    ),
    "place_of_another_kind": ({"layers": [{"where": [0]}]}, "model.layers[0]: expected {where: a layer or slice, "),
    "no_slice": (
        {"layers": [{"where": "0"}, {"where": "first"}]},
        "model.layers[1].where: expected a layer or a slice, such as '0', '-1', '::2' or '2:', got 'first'",
    ),
    "backwards": ({"layers": [{"where": "::-1"}]}, "model.layers[0].where: expected a layer or a slice"),
    "step_zero": ({"layers": [{"where": "::0"}]}, "model.layers[0].where: expected a layer or a slice"),
    "nothing": ({"layers": [{"where": ""}]}, "model.layers[0].where: expected a layer or a slice"),
    "beyond": ({"layers": [{"where": 2}]}, "model.layers[0].where: there is no layer 2 among 2, counted from 0"),
    "before": ({"layers": [{"where": "-3"}]}, "model.layers[0].where: there is no layer -3 among 2"),
    "beyond_one_side": (
        {**PAIR, "encoder": {"n_layers": 1}, "layers": [{"where": 1}]},
        "model.layers[0].where: there is no layer 1 among 1",
    ),
    "empty_slice": ({"layers": [{"where": "2:"}]}, "model.layers[0].where: '2:' is none of the 2 decoder layers"),
    "empty_on_both_sides": (
        {**PAIR, "encoder": {"n_layers": 1}, "layers": [{"where": "5:"}]},
        "model.layers[0].where: '5:' is none of the 1 encoder layers and 2 decoder layers",
    ),
    "side": (
        {**PAIR, "layers": [{"where": "0", "side": "encodr"}]},
        "model.layers[0].side: expected encoder, decoder or null for all, got 'encodr'",
    ),
    "absent_side": (
        {"layers": [{"where": "0", "side": "encoder"}]},
        "model.layers[0].side: expected decoder or null for all, got 'encoder'",
    ),
    "depth_of_a_layer": ({"layers": [{"where": "0", "n_layers": 2}]}, "model.layers[0].n_layers: unknown key; "),
    "position_of_a_layer": ({"layers": [{"where": "0", "position": "rope"}]}, "model.layers[0].position: unknown key"),
    "heads_of_a_layer": (
        {"layers": [{"where": "0", "n_heads": 3}]},
        "model.layers[0].n_heads: d_model=8 is not divisible by n_heads=3; use 2 heads or set model.layers[0].head_dim",
    ),
    "choice_of_a_layer": (
        {"layers": [{"where": "0"}, {"where": "1", "norm": "rmsnrm"}]},
        "model.layers[1].norm: unknown norm 'rmsnrm'; did you mean 'rmsnorm'?",
    ),
}
INCOMPATIBLE = {
    "rope_and_a_head_of_another_width": (
        {"position": "rope", "layers": [{"where": "0", "n_heads": 4}]},
        "model.layers: position=rope serves every decoder layer with head_dim=4, and one of them has 2",
    ),
    "alibi_and_more_heads": (
        {"position": "alibi", "layers": [{"where": "0", "n_heads": 4}]},
        "model.layers: position=alibi serves every decoder layer with n_heads=2, and one of them has 4",
    ),
    "one_table_and_two_embeddings": (
        {**PAIR, "encoder": {"embedding": {"scale": True}}},
        "model.share_embeddings: encoder and decoder embed differently; set it to false",
    ),
}


class Mixer(Attention):
    """Attention that gives what a test says."""


class Silent(Head):
    """A head that does not say what it scores."""


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_an_override_is_refused(changes, message):
    with pytest.raises(ConfigError) as error:
        spec(**changes)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(("changes", "message"), INCOMPATIBLE.values(), ids=INCOMPATIBLE)
def test_a_combination_that_cannot_work_is_refused_before_it_is_built(changes, message):
    with pytest.raises(IncompatibleError) as error:
        build_model(spec(**changes))
    assert str(error.value) == message


def test_an_absent_side_is_a_combination_that_a_study_leaves_out():
    with pytest.raises(IncompatibleError):
        spec(encoder={"n_layers": 1})


@pytest.mark.parametrize("trait", ["cross", "padding"])
def test_a_cross_attention_must_be_able_to_read_a_memory(scratch_registry, trait):
    register("attention", "mixer", gives={"cross", "padding"} - {trait})(Mixer)
    with pytest.raises(IncompatibleError) as error:
        build_model(spec(**PAIR, cross_attention="mixer"))
    reason = f"a decoder that reads an encoder needs '{trait}', which 'mixer' does not give"
    assert str(error.value) == f"model.cross_attention: {reason}"
    spec(cross_attention="mixer").check_compatible()  # a decoder alone reads none


@pytest.mark.parametrize(("side", "trait"), [("encoder", "bidirectional"), ("decoder", "causal")])
def test_each_side_needs_its_own_kind_of_attention(scratch_registry, side, trait):
    gives = {"causal", "bidirectional", "padding", "cross", "query_key"} - {trait}
    register("attention", "mixer", gives=gives)(Mixer)
    with pytest.raises(IncompatibleError) as error:
        build_model(spec(**PAIR, **{side: {"attention": "mixer"}}))
    reason = f"architecture=encoder_decoder needs '{trait}', which 'mixer' does not give"
    assert str(error.value) == f"model.attention: {reason}"
    other = "decoder" if side == "encoder" else "encoder"
    spec(**PAIR, **{other: {"attention": "mixer"}}, cross_attention="softmax").check_compatible()


def test_one_layer_may_break_a_combination(scratch_registry):
    register("attention", "mixer", gives={"causal", "padding"})(Mixer)
    with pytest.raises(IncompatibleError, match=r"^model\.position: 'rope' needs 'query_key'"):
        build_model(spec(position="rope", layers=[{"where": "-1", "attention": "mixer"}]))
    spec(position="none", layers=[{"where": "-1", "attention": "mixer"}]).check_compatible()


@pytest.mark.parametrize("gives", [set(), {"token_logits", "sequence_logits"}], ids=["neither", "both"])
def test_a_head_must_say_what_it_scores(scratch_registry, gives):
    register("head", "silent", gives=gives)(Silent)
    with pytest.raises(RegistryError) as error:
        spec(head="silent")
    assert str(error.value) == "head/silent: give 'token_logits' or 'sequence_logits', whichever it returns"
