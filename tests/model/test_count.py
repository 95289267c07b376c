"""Parameters and operations against hand formulas."""

import pytest

from tests.tiny import TINY, D, V, ids, model, spec
from tfexp.components.base import set_recorder
from tfexp.errors import ConfigError
from tfexp.model.count import count_parameters, flops_per_token, forward_flops, meta_model
from tfexp.model.summary import summarise

F, N = 16, 2
NORMS = (2 * N + 1) * 2 * D
LAYER = 4 * D * D + 2 * D * F + 4 * D
CROSS = N * (4 * D * D + 2 * D)  # of a decoder that reads an encoder
BASE = V * D + N * (4 * D * D + 2 * D * F) + NORMS
CLASSIFIER = {"architecture": "encoder", "head": "classification", "n_labels": 3}
PAIR = {"architecture": "encoder_decoder"}
COUNTS = {
    "base": ({}, BASE, V * D),
    "untied": ({"tie_embeddings": False}, BASE + V * D, V * D),
    "learned_positions": ({"position": "learned"}, BASE + 16 * D, (V + 16) * D),
    "one_key_value_head": ({"n_kv_heads": 1}, BASE - N * 2 * D * 4, V * D),
    "post_norm_has_no_last_norm": ({"norm_placement": "post"}, BASE - 2 * D, V * D),
    "rmsnorm": ({"norm": "rmsnorm"}, BASE - NORMS // 2, V * D),
    "glu": ({"feedforward": "glu"}, BASE + N * D * F, V * D),
    "additive": ({"attention": {"name": "softmax", "score": "additive"}}, BASE + N * (2 * 16 + 4), V * D),
    "learned_cosine": ({"attention": {"name": "softmax", "score": "cosine"}}, BASE + N, V * D),
    "wide_values": ({"attention": {"name": "softmax", "value_dim": 6}}, BASE + N * 2 * D * (12 - 8), V * D),
    "window": ({"attention": {"name": "softmax", "window": 2}}, BASE, V * D),
    "linear": ({"attention": "linear"}, BASE, V * D),
    "retention": ({"attention": "retention"}, BASE + N * D * D, V * D),  # the gate
    # The gate; strengths, fading and its two vectors; four taps for each of 3 D channels; a norm of one head.
    "delta": ({"attention": "delta"}, BASE + N * (D * D + 2 * D * 2 + 2 * 2 + 4 * 3 * D + 4), V * D),
    # Queries of 4 + 2 a head; 16 + 2 compressed; a norm; keys and values of 4 + 4 a head; the output.
    "mla": ({"attention": "mla"}, BASE + N * (D * 12 + D * 18 + 16 + 16 * 16 - 3 * D * D), V * D),
    "head_bias": ({"head": {"name": "lm", "bias": True}}, BASE + V, V * D),
    "encoder": ({"architecture": "encoder"}, BASE, V * D),
    "mlm": ({"architecture": "encoder", "head": "mlm"}, BASE + D * D + D + 2 * D + V, V * D),
    "classifier": (CLASSIFIER, BASE + 3 * D + 3, V * D),
    "attention_pooling": ({**CLASSIFIER, "pooling": "attention"}, BASE + 3 * D + 3 + D * D + 2 * D, V * D),
    "hidden_layer": (
        {**CLASSIFIER, "head": {"name": "classification", "hidden": True}},
        BASE + 3 * D + 3 + D * D + D,
        V * D,
    ),
    "two_sides": (PAIR, 2 * BASE - V * D + CROSS, V * D),
    "two_sides_with_tables_of_their_own": ({**PAIR, "share_embeddings": False}, 2 * BASE + CROSS, 2 * V * D),
    "two_depths": ({**PAIR, "encoder": {"n_layers": 1}}, 2 * BASE - V * D + CROSS - LAYER, V * D),
    "a_wider_layer": ({"layers": [{"where": "-1", "d_ff": 20}]}, BASE + 2 * D * 4, V * D),
}


@pytest.mark.parametrize(("changes", "total", "tables"), COUNTS.values(), ids=COUNTS)
def test_parameters_equal_the_hand_formula(changes, total, tables):
    count = count_parameters(model(**changes))
    assert (count.total, count.trainable, count.non_embedding) == (total, total, total - tables)


@pytest.mark.parametrize("changes", [row[0] for row in COUNTS.values()], ids=COUNTS)
def test_a_model_without_memory_counts_the_same(changes):
    made = meta_model(spec(**changes))
    assert {p.device.type for p in made.parameters()} == {"meta"}
    assert count_parameters(made) == count_parameters(model(**changes))
    assert forward_flops(made, 4) == forward_flops(model(**changes), 4)


def test_a_frozen_parameter_is_not_trainable():
    count = count_parameters(model(attention={"name": "softmax", "score": {"name": "cosine", "learned": False}}))
    assert count.total - count.trainable == N


def test_operations_equal_the_hand_formula():
    length = 4
    linear = 2 * length * (N * (4 * D * D + 2 * D * F) + V * D)
    attention = N * 2 * 2 * length * length * D
    assert forward_flops(model(), length) == linear + attention
    assert flops_per_token(model(), length) == 3 * (linear + attention) / length


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "cosine", "additive"])
@pytest.mark.parametrize("n_kv_heads", [1, 2])
def test_operations_equal_what_a_pass_records(score, n_kv_heads):
    made = model(attention={"name": "softmax", "score": score, "value_dim": 3}, n_kv_heads=n_kv_heads)
    recorded = []
    set_recorder(lambda name, value, flops: recorded.append(flops))
    try:
        made(ids(1, 4))
    finally:
        set_recorder(None)
    extra = sum(block.attention.extra_flops(4, 4) for block in made.decoder.layers)
    assert sum(recorded) == extra


ATTENTIONS = {
    "linear": 2 * 2 * 4 * 5 * 4 * 2,  # 2 heads, K (V + 1), 4 tokens, written and read
    "retention": 2 * 2 * 4 * 4 * 4 * 2,
    "delta": 2 * 2 * 4 * 4 * 4 * 3,  # read before it is written, too
    "mla": 2 * 2 * (4 + 2 + 4) * 4 * 4,
}


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_operations_of_an_attention_equal_the_hand_formula_and_what_a_pass_records(attention):
    made, recorded = model(attention=attention), []
    set_recorder(lambda name, value, flops: recorded.append(flops))
    try:
        made(ids(3, 4))
    finally:
        set_recorder(None)
    assert made.decoder.layers[0].attention.extra_flops(4, 4) == ATTENTIONS[attention]
    assert sum(recorded) == 3 * N * ATTENTIONS[attention]


def test_operations_of_two_sides_equal_the_hand_formula():
    length, made = 4, model(**PAIR)
    linear = 2 * length * (2 * N * (4 * D * D + 2 * D * F) + N * 4 * D * D + V * D)
    attention = 3 * N * 2 * 2 * length * length * D
    assert forward_flops(made, length) == linear + attention
    assert flops_per_token(made, length) == 3 * (linear + attention) / (2 * length)


def test_a_pooled_head_runs_once_per_sequence():
    plain, head = forward_flops(model(architecture="encoder"), 4), model(**CLASSIFIER)
    assert forward_flops(head, 4) == plain - 2 * 4 * V * D + 2 * 3 * D


@pytest.mark.parametrize("changes", [row[0] for row in COUNTS.values()], ids=COUNTS)
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_the_rows_of_a_summary_sum_to_the_whole(changes, score):
    described = spec(**{"attention": {"name": "softmax", "score": score}, **changes})
    summary = summarise(described, batch=3, length=5)
    made = model(**{"attention": {"name": "softmax", "score": score}, **changes})
    assert sum(row.flops for row in summary.operations) == summary.forward_flops == 3 * forward_flops(made, 5)
    assert sum(row.parameters for row in summary.operations) == summary.parameters.total == count_parameters(made).total


def test_a_summary_of_two_sides_shows_each_operation_with_its_shape():
    rows = {row.path: row.shape for row in summarise(spec(**PAIR, n_layers=1), batch=2, length=5).operations}
    parts = ["query", "key", "value", "scores", "weights", "heads", "concat", "output"]
    inside = [part if part in ("query", "key", "value", "output") else f": {part}" for part in parts]
    names = [f".{part}" if not part.startswith(":") else part for part in inside]
    assert [path for path in rows if "cross_attention" in path and "norms" not in path] == [
        f"decoder.layers.0.cross_attention{name}" for name in names
    ]
    assert rows["decoder.layers.0.cross_attention: scores"] == (2, 2, 5, 5)
    assert rows["encoder.layers.0.feedforward.inner"] == (2, 5, F)
    assert rows["encoder.ends.final_norm"] == rows["decoder.ends.final_norm"] == (2, 5, D)
    assert rows["head.project"] == (2, 5, V)


def test_a_summary_of_a_classifier_shows_its_pooling_and_two_classes_if_none_are_known():
    described = spec(**{**CLASSIFIER, "n_labels": None, "vocab_size": None}, pooling="attention")
    summary = summarise(described, batch=2, length=5)
    rows = {row.path: row for row in summary.operations}
    assert rows["pooling.transform"].shape == (2, 5, D)
    assert (rows["head.project"].shape, rows["head.project"].flops) == ((2, 2), 2 * 2 * 2 * D)
    assert rows["embedding.token"].parameters == 1024 * D


@pytest.mark.parametrize(("batch", "length"), [(0, 4), (1, 0), (1, 17)])
def test_a_summary_of_no_batch_or_of_too_long_a_sequence_is_refused(batch, length):
    message = rf"^summary: batch must be at least 1 and length 1 to 16, got {batch}, {length}$"
    with pytest.raises(ConfigError, match=message):
        summarise(spec(), batch, length)


def test_the_names_of_the_parameters_of_two_sides_are_stable():
    made = model(**PAIR, position="learned", n_layers=1, share_embeddings=False, tie_embeddings=False)
    names = [name for name, _ in made.named_parameters()]
    sublayers = ("attention", "cross_attention", "feedforward")
    maps = [f"cross_attention.{part}.weight" for part in ("query", "key", "value", "output")]
    norm = [f"placement.norms.cross_attention.{kind}" for kind in ("weight", "bias")]
    assert {name.removeprefix("decoder.layers.0.") for name in names if "cross" in name} == {*maps, *norm}
    assert {name.split(".")[0] for name in names} == {
        *("embedding", "position", "source_embedding", "source_position", "encoder", "decoder", "head")
    }
    assert [name for name in names if "norms" in name and "encoder.layers" in name] == [
        f"encoder.layers.0.placement.norms.{part}.{kind}"
        for part in sublayers
        if "cross" not in part
        for kind in ("weight", "bias")
    ]


def test_the_names_of_the_parameters_are_stable():
    # Checkpoints and the streams of initial values hang on these names.
    names = [name for name, _ in model(position="learned", n_layers=1).named_parameters()]
    assert names == [
        "embedding.token.weight",
        "position.table.weight",
        "decoder.layers.0.attention.query.weight",
        "decoder.layers.0.attention.key.weight",
        "decoder.layers.0.attention.value.weight",
        "decoder.layers.0.attention.output.weight",
        "decoder.layers.0.feedforward.inner.weight",
        "decoder.layers.0.feedforward.outer.weight",
        "decoder.layers.0.placement.norms.attention.weight",
        "decoder.layers.0.placement.norms.attention.bias",
        "decoder.layers.0.placement.norms.feedforward.weight",
        "decoder.layers.0.placement.norms.feedforward.bias",
        "decoder.ends.final_norm.weight",
        "decoder.ends.final_norm.bias",
    ]


def test_a_tiny_description_is_what_these_formulas_assume():
    assert (TINY["d_model"], TINY["d_ff"], TINY["n_layers"], TINY["vocab_size"]) == (D, F, N, V)
