"""Overrides of one side and of slices of layers: what they mean, and that they stay what they are."""

import copy

import pytest

from tests.tiny import ids, model, spec
from tfexp.model.overrides import in_slice
from tfexp.model.spec import ModelSpec

PAIR = {"architecture": "encoder_decoder"}
SLICES = {
    "0": [0],
    "3": [3],
    "-1": [3],
    "-4": [0],
    ":": [0, 1, 2, 3],
    "::2": [0, 2],
    "1::2": [1, 3],
    "2:": [2, 3],
    ":2": [0, 1],
    "-2:": [2, 3],
    ":-1": [0, 1, 2],
    "1:3": [1, 2],
    " 1 ": [1],
    "3:1": [],
    "9:": [],
}
KEPT = {
    "nothing": {},
    "two_sides": PAIR,
    "depths": {**PAIR, "encoder": {"n_layers": 1}, "decoder": {"n_layers": "3"}},
    "head_sizes_follow": {**PAIR, "encoder": {"n_heads": 4}},
    "width_follows": {**PAIR, "d_ff": None, "decoder": {"feedforward": "glu"}},
    "choices": {**PAIR, "encoder": {"position": "alibi", "norm": {"eps": "1e-3"}, "dropout": {"residual": 0.1}}},
    "cross": {**PAIR, "decoder": {"cross_attention": {"name": "softmax", "bias": True}}},
    "slices": {"n_layers": 4, "layers": [{"where": "::2", "d_ff": 4}, {"where": -1, "attention": {"bias": True}}]},
    "slice_on_a_side": {"decoder": {"n_heads": 4}, "layers": [{"where": "0", "n_heads": 1, "d_ff": 4}]},
    "split": {"layers": [{"where": "0", "attention": {"bias": True}}, {"where": ":", "attention": {"value_dim": 3}}]},
    "classifier": {"architecture": "encoder", "head": "classification", "n_labels": 2},
}


def layers(side: str = "decoder", **changes) -> list[ModelSpec]:
    return list(spec(**changes).layer_specs(side))


@pytest.mark.parametrize(("where", "expected"), SLICES.items())
def test_a_slice_is_what_python_makes_of_it(where, expected):
    assert [i for i in range(4) if in_slice(where, i, 4, "model.layers[0]")] == expected


# --- what they mean ---------------------------------------------------------------------------------


def test_a_side_has_its_own_depth_positions_and_norms():
    made = model(**PAIR, encoder={"n_layers": 1, "position": "learned"}, decoder={"n_layers": 3, "norm": "rmsnorm"})
    assert (len(made.encoder.layers), len(made.decoder.layers)) == (1, 3)
    parameters = dict(made.named_parameters())
    assert "source_position.table.weight" in parameters
    assert [name for name in parameters if name.startswith("position")] == []
    assert "encoder.layers.0.placement.norms.attention.bias" in parameters
    assert [name for name in parameters if name.startswith("decoder") and name.endswith("bias")] == []
    assert made(ids(), decoder_input_ids=ids()).logits.shape == (2, 4, 16)


def test_some_keys_of_a_choice_change_the_shared_one_and_another_name_replaces_it():
    shared = {"norm": {"name": "layernorm", "eps": 0.5, "bias": False}, "dropout": {"residual": 0.1}}
    same = spec(**shared, decoder={"norm": {"bias": True}, "dropout": {"hidden": 0.2}}).stack_spec("decoder")
    assert (same.norm["eps"], same.norm["bias"]) == (0.5, True)
    assert (same.dropout.residual, same.dropout.hidden) == (0.1, 0.2)
    assert spec(**shared, decoder={"norm": "layernorm"}).stack_spec("decoder").norm["eps"] == 0.5
    assert spec(**shared, decoder={"norm": "rmsnorm"}).stack_spec("decoder").norm == {"name": "rmsnorm", "eps": 1e-6}


def test_later_overrides_win_and_build_on_earlier_ones():
    changes = [
        {"where": ":", "d_ff": 4, "attention": {"bias": True}},
        {"where": "1:", "d_ff": 5, "attention": {"value_dim": 3}},
        {"where": "-1", "attention": {"bias": False}},
    ]
    made = layers(n_layers=3, decoder={"attention": {"qk_norm": "rmsnorm"}}, layers=changes)
    assert [layer.d_ff for layer in made] == [4, 5, 5]
    assert [layer.attention["bias"] for layer in made] == [True, True, False]
    assert [layer.attention["value_dim"] for layer in made] == [None, 3, 3]
    assert {layer.attention["qk_norm"]["name"] for layer in made} == {"rmsnorm"}  # of the side, under all of them


def test_an_override_is_for_one_side_or_for_both():
    both = [{"where": "0", "d_ff": 4}, {"where": "0", "side": "encoder", "d_ff": 6}, {"where": 1, "side": "decoder"}]
    made = spec(**PAIR, layers=both)
    assert [[layer.d_ff for layer in made.layer_specs(side)] for side in ("encoder", "decoder")] == [[6, 16], [4, 16]]


def test_a_layer_has_its_own_heads_bias_and_width():
    changes = [{"where": "-1", "n_heads": 4, "d_ff": 12, "attention": {"bias": True}, "feedforward": "glu"}]
    first, last = model(layers=changes).decoder.layers
    assert (first.attention.n_heads, last.attention.n_heads) == (2, 4)
    assert (first.attention.head_dim, last.attention.head_dim) == (4, 2)
    assert first.attention.query.bias is None
    assert last.attention.query.bias is not None
    assert [layer.feedforward.inner.weight.shape[0] for layer in (first, last)] == [16, 12]
    assert not hasattr(first.feedforward, "gate")
    assert hasattr(last.feedforward, "gate")


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "rope", "alibi"])
def test_layers_that_differ_in_what_a_position_does_not_need_work_with_it(position):
    changes = [{"where": "0", "n_kv_heads": 1, "attention": {"value_dim": 3}}, {"where": "1", "norm": "rmsnorm"}]
    assert model(position=position, layers=changes)(ids()).logits.isfinite().all()


def test_sizes_that_were_left_open_follow_the_override():
    wide = spec(**PAIR, encoder={"n_heads": 4}, d_ff=None, decoder={"feedforward": "glu"})
    encoder, decoder = wide.stack_spec("encoder"), wide.stack_spec("decoder")
    assert (encoder.n_heads, encoder.head_dim, encoder.n_kv_heads, encoder.d_ff) == (4, 2, 4, 32)
    assert (decoder.n_heads, decoder.head_dim, decoder.n_kv_heads, decoder.d_ff) == (2, 4, 2, 24)


def test_sizes_that_were_given_stay():
    given = spec(n_kv_heads=1, head_dim=3, d_ff=10, decoder={"n_heads": 4, "feedforward": "glu"}).stack_spec("decoder")
    assert (given.n_heads, given.head_dim, given.n_kv_heads, given.d_ff) == (4, 3, 1, 10)


def test_a_size_given_by_the_side_stays_in_its_layers():
    changes = {"decoder": {"n_kv_heads": 1}, "layers": [{"where": ":", "n_heads": 4}]}
    both = spec(**PAIR, **changes)
    assert [layer.n_kv_heads for layer in both.layer_specs("encoder")] == [4, 4]
    assert [layer.n_kv_heads for layer in both.layer_specs("decoder")] == [1, 1]


def test_a_cross_attention_follows_the_attention_unless_it_is_given():
    follows = model(**PAIR, attention={"name": "softmax", "bias": True}).decoder.layers[0].cross_attention
    own = model(**PAIR, cross_attention={"name": "softmax", "bias": True}).decoder.layers[0]
    assert follows.query.bias is not None
    assert own.cross_attention.query.bias is not None
    assert own.attention.query.bias is None


# --- frozen ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", KEPT.values(), ids=KEPT)
def test_a_description_stays_what_it_is_when_it_is_read_again(changes):
    once = spec(**changes)
    node = copy.deepcopy(once.as_node())
    again = ModelSpec.from_config(once.as_node())
    assert again == once
    assert again.as_node() == node == once.as_node()


def test_what_is_written_holds_every_default_and_every_size():
    node = spec(**KEPT["head_sizes_follow"], layers=[{"where": -1, "side": "decoder", "feedforward": "glu"}]).as_node()
    assert node["encoder"] == {"n_heads": 4, "head_dim": 2, "n_kv_heads": 4}
    glu = {"name": "glu", "activation": "silu", "bias": False}
    assert node["layers"] == [{"where": "-1", "side": "decoder", "feedforward": glu}]


def test_an_override_that_means_one_thing_stays_one_and_else_is_one_per_layer():
    one, two = spec(**KEPT["slices"]).layers
    assert (one, two["where"]) == ({"where": "::2", "side": None, "d_ff": 4}, "-1")
    assert [entry["where"] for entry in spec(**KEPT["split"]).layers] == ["0", "0", "1"]
    assert [layer.attention["bias"] for layer in layers(**KEPT["split"])] == [True, False]
    assert [layer.attention["value_dim"] for layer in layers(**KEPT["split"])] == [3, 3]


def test_the_same_model_in_other_words_is_the_same_description():
    terse = spec(**PAIR, encoder={"position": "rope", "dropout": {"residual": 0.1}})
    wordy = {"name": "rope", "layout": "half_split", "base": 1e4}
    rates = {"embedding": 0, "attention": 0, "residual": 0.1, "hidden": 0}
    assert spec(**PAIR, encoder={"position": wordy, "dropout": rates}) == terse
