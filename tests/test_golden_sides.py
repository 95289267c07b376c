"""Golden values of encoders and of models of two sides, each under its number (see test_golden.py)."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from tests.model.checks import future_gradients
from tests.test_golden_model import TEACHING, WITH_BIAS, size
from tests.tiny import close, ids, model, normal
from tfexp.components.base import Attention, set_recorder
from tfexp.model.block import SUBLAYERS, SUBLAYERS_WITH_CROSS
from tfexp.model.masks import self_attention_context
from tfexp.registry import create


def translator(**changes):
    return model(**{**TEACHING, "architecture": "encoder_decoder", **changes}, **WITH_BIAS)


@contextmanager
def recording(seen: list[tuple[str, torch.Tensor]]) -> Iterator[None]:
    """Every intermediate result of a pass, with its name."""
    set_recorder(lambda name, value, flops: seen.append((name, value)))
    try:
        yield
    finally:
        set_recorder(None)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_G42_a_classifier_scores_one_vector_of_each_sentence(pooling):
    made = model(**TEACHING, architecture="encoder", head="classification", n_labels=3, pooling=pooling)
    tokens = torch.tensor([[1, 2, 3], [4, 5, 0]])
    out = made(tokens, tokens != 0)
    valid_means = torch.stack([out.hidden[0].mean(0), out.hidden[1, :2].mean(0)])
    vector = out.hidden[:, 0] if pooling == "cls" else valid_means
    close(out.logits, vector @ made.head.project.weight.T + made.head.project.bias)
    assert (out.logits.shape, size(made.head)) == ((2, 3), 8 * 3 + 3)


def test_G42_the_mean_ignores_pads():
    pooling, hidden = create("pooling", {"name": "mean"}, {}), torch.tensor([[[3.0, 1.0], [1.0, 5.0], [9.0, 9.0]]])
    assert pooling(hidden, torch.tensor([[True, True, False]])).tolist() == [[2.0, 3.0]]


def test_G43_queries_come_from_the_decoder_and_keys_and_values_from_the_last_encoder_layer():
    made, source, target = translator(n_layers=2), ids(2, 5) % 10, ids(2, 3) % 10
    seen, reads = [], []
    for layer in made.decoder.layers:
        for part in (layer.cross_attention.query, layer.cross_attention.key, layer.cross_attention.value):
            part.register_forward_hook(lambda module, args, out: reads.append(args[0]))
    with recording(seen):
        out = made(source, decoder_input_ids=target)
    scores = [tuple(value.shape) for name, value in seen if name == "scores"]
    assert scores == [(2, 2, 5, 5)] * 2 + [(2, 2, 3, 3), (2, 2, 3, 5)] * 2
    assert out.hidden.shape == (2, 3, 8)
    last = made.encode(source).states
    for query, key, value in (reads[:3], reads[3:]):
        assert query.shape == (2, 3, 8)
        close(key, last)
        close(value, last)


def test_G44_the_target_alone_is_causal_and_all_valid_source_positions_are_seen():
    made, seen = translator(), []
    source = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 6, 7, 8]])
    with recording(seen):
        made(source, source != 0, decoder_input_ids=ids(2, 3) % 10)
    of_source, of_target, across = [value for name, value in seen if name == "weights"]
    assert (of_target.triu(1) == 0).all()
    assert (of_target.tril() > 0).sum() == 2 * 2 * 6
    valid = (source != 0)[:, None, None, :]
    assert torch.equal(across > 0, valid.expand(2, 2, 3, 5))
    assert torch.equal(of_source[0] > 0, torch.ones(2, 5, 5, dtype=torch.bool))


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_G45_the_order_of_a_decoder_layer(placement):
    made = translator(norm_placement=placement)
    layer, norms = made.decoder.layers[0], made.decoder.layers[0].placement.norms
    memory = made.encode(ids(2, 5) % 10)
    x, context = normal(2, 3, 8), self_attention_context(made.position, torch.arange(3), None, torch.float64)

    def across(u):
        return layer.cross_attention(u, memory.context, memory.states)

    if placement == "post":
        u = norms["attention"](x + layer.attention(x, context))
        v = norms["cross_attention"](u + across(u))
        expected = norms["feedforward"](v + layer.feedforward(v))
    else:
        u = x + layer.attention(norms["attention"](x), context)
        v = u + across(norms["cross_attention"](u))
        expected = v + layer.feedforward(norms["feedforward"](v))
    close(layer(x, context, memory), expected)
    assert tuple(norms) == SUBLAYERS_WITH_CROSS == ("attention", "cross_attention", "feedforward")


@pytest.mark.parametrize(
    ("architecture", "stacks", "n_cross"),
    [("encoder", ["encoder"], 0), ("decoder", ["decoder"], 0), ("encoder_decoder", ["encoder", "decoder"], 2)],
)
def test_G46_three_organisations(architecture, stacks, n_cross):
    made = model(architecture=architecture)
    assert [side for side in ("encoder", "decoder") if getattr(made, side) is not None] == stacks
    cross = [name for name, part in made.named_modules() if "cross" in name and isinstance(part, Attention)]
    assert cross == [f"decoder.layers.{i}.cross_attention" for i in range(n_cross)]


def test_G46_an_encoder_sees_both_ways_and_a_decoder_one():
    assert (future_gradients(model(architecture="encoder")) > 0).all()
    assert (future_gradients(model()).triu(1) == 0).all()
    assert SUBLAYERS == ("attention", "feedforward")
