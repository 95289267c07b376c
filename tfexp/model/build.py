"""From a description to modules: geometry is injected by name, unknown keys were refused before."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from tfexp.components.base import Attention, Embedding, FeedForward, Head, Init, NormPlacement, Position
from tfexp.errors import ConfigError
from tfexp.model.block import SUBLAYERS, Block
from tfexp.model.init import init_parameters
from tfexp.model.spec import ModelSpec
from tfexp.model.stack import Stack
from tfexp.model.transformer import Transformer
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
    spec.check_compatible()
    # What a constructor draws itself depends on the seed alone, and the caller's generator is left as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "init"))
        model = _assemble(spec)
    recipe: Init = create("init", spec.init, geometry_of(spec))
    init_parameters(model, recipe, seed)
    return model


def _assemble(spec: ModelSpec) -> Transformer:
    available = geometry_of(spec)
    embedding: Embedding = create("embedding", spec.embedding, available)
    position: Position = create("position", spec.position, available)
    layers = [_build_block(spec, {**available, "layer_index": index}) for index in range(spec.n_layers)]
    ends: NormPlacement = create("norm_placement", spec.norm_placement, {**available, "sublayers": ()})
    head: Head = create("head", spec.head, available)
    model = Transformer(spec, embedding, position, Stack(layers, ends), head, spec.dropout.embedding)
    if spec.tie_embeddings:
        head.tie(embedding.table())
    return model


def geometry_of(spec: ModelSpec) -> dict[str, Any]:
    """Everything that a component's positional parameters may ask for."""
    sizes = ("d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "n_layers", "max_seq_len", "vocab_size")
    available: dict[str, Any] = {name: getattr(spec, name) for name in sizes}
    available["attention_dropout"] = spec.dropout.attention
    available["hidden_dropout"] = spec.dropout.hidden
    available["norm"] = partial(create, "norm", spec.norm, dict(available))
    available["residual"] = partial(create, "residual", spec.residual, dict(available))
    return available


def _build_block(spec: ModelSpec, available: Mapping[str, Any]) -> Block:
    attention: Attention = create("attention", spec.attention, available)
    feedforward: FeedForward = create("feedforward", spec.feedforward, available)
    placement: NormPlacement = create("norm_placement", spec.norm_placement, {**available, "sublayers": SUBLAYERS})
    return Block(attention, feedforward, placement, spec.dropout.residual)
