"""Parameters and operations against hand formulas."""

import pytest

from tests.tiny import TINY, D, V, ids, model, spec
from tfexp.components.base import set_recorder
from tfexp.model.count import count_parameters, flops_per_token, forward_flops, meta_model

F, N = 16, 2
NORMS = (2 * N + 1) * 2 * D
BASE = V * D + N * (4 * D * D + 2 * D * F) + NORMS
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
    "head_bias": ({"head": {"name": "lm", "bias": True}}, BASE + V, V * D),
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
