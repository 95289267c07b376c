"""From a description to modules: geometry is injected by name, unknown keys were refused before."""

from functools import partial
from typing import Any

import torch

from tfexp.components.base import Attention, Embedding, FeedForward, Head, Init, NormPlacement, Pooling, Position
from tfexp.errors import ConfigError
from tfexp.model.block import SUBLAYERS, SUBLAYERS_WITH_CROSS, Block
from tfexp.model.init import init_parameters
from tfexp.model.spec import SIDES, ModelSpec, Side
from tfexp.model.stack import Stack
from tfexp.model.transformer import Inputs, Transformer
from tfexp.registry import create
from tfexp.streams import stream_seed


def build_model(spec: ModelSpec, seed: int = 0) -> Transformer:
    """Build and initialise a model.

    Args:
        spec: A resolved description with a vocabulary size.
        seed: Of the streams `init/<path>`.

    Raises:
        ConfigError: The combination cannot work, or a size is missing or wrong.
    """
    if spec.vocab_size is None:
        raise ConfigError("model.vocab_size: null means the tokenizer's; set it to build without data")
    if spec.n_labels is None and not spec.scores_tokens:
        raise ConfigError("model.n_labels: null means the data's; set it to build without data")
    spec.check_compatible()
    # What a constructor draws itself depends on the seed alone, and the caller's generator is left as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "init"))
        model = _assemble(spec)
    recipes: dict[str, Init] = {
        side: create("init", spec.init, geometry_of(spec.stack_spec(side))) for side in SIDES[spec.architecture]
    }
    init_parameters(model, recipes, seed)
    return model


def _assemble(spec: ModelSpec) -> Transformer:
    available = geometry_of(spec)
    sides = SIDES[spec.architecture]
    target, source = _inputs(spec.stack_spec(sides[-1])), None
    if spec.architecture == "encoder_decoder":
        source = _inputs(spec.stack_spec("encoder"))
        if spec.share_embeddings:
            source.embedding = target.embedding
    stacks = {side: _build_stack(spec, side) for side in sides}
    head: Head = create("head", spec.head, available)
    pooling: Pooling | None = None if spec.scores_tokens else create("pooling", spec.pooling, available)
    model = Transformer(spec, target, stacks, head, pooling, source)
    if spec.tie_embeddings:
        head.tie(target.embedding.table())
    return model


def geometry_of(spec: ModelSpec) -> dict[str, Any]:
    """Everything that a component's positional parameters may ask for."""
    sizes = ("d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "n_layers", "max_seq_len")
    available: dict[str, Any] = {name: getattr(spec, name) for name in (*sizes, "vocab_size", "n_labels")}
    available["attention_dropout"] = spec.dropout.attention
    available["hidden_dropout"] = spec.dropout.hidden
    available["norm"] = partial(create, "norm", spec.norm, dict(available))
    available["residual"] = partial(create, "residual", spec.residual, dict(available))
    return available


def _inputs(spec: ModelSpec) -> Inputs:
    available = geometry_of(spec)
    embedding: Embedding = create("embedding", spec.embedding, available)
    position: Position = create("position", spec.position, available)
    return Inputs(embedding, position, spec.position["name"], spec.dropout.embedding, spec.dropout.token)


def _build_stack(spec: ModelSpec, side: Side) -> Stack:
    crossing = side == "decoder" and spec.architecture == "encoder_decoder"
    layers = [_build_block(layer, index, crossing) for index, layer in enumerate(spec.layer_specs(side))]
    stack = spec.stack_spec(side)
    return Stack(layers, create("norm_placement", stack.norm_placement, {**geometry_of(stack), "sublayers": ()}))


def _build_block(spec: ModelSpec, index: int, crossing: bool) -> Block:
    available = {**geometry_of(spec), "layer_index": index}
    attention: Attention = create("attention", spec.attention, available)
    cross: Attention | None = (
        create("attention", spec.cross_attention or spec.attention, available) if crossing else None
    )
    feedforward: FeedForward = create("feedforward", spec.feedforward, available)
    sublayers = SUBLAYERS_WITH_CROSS if crossing else SUBLAYERS
    placement: NormPlacement = create("norm_placement", spec.norm_placement, {**available, "sublayers": sublayers})
    return Block(attention, feedforward, placement, spec.dropout.residual, cross)
