"""What a model costs: parameters and operations, counted from its modules."""

from dataclasses import dataclass

import torch
from torch import nn

from tfexp.components.base import Attention, Score
from tfexp.model.build import build_model
from tfexp.model.spec import ModelSpec
from tfexp.model.transformer import Transformer


@dataclass(frozen=True)
class ParameterCount:
    """Parameters, each counted once even if it has two names.

    Args:
        total: All of them.
        trainable: Those that training updates.
        non_embedding: All but the tables of tokens and positions (and a head tied to one).
    """

    total: int
    trainable: int
    non_embedding: int


def count_parameters(model: nn.Module) -> ParameterCount:
    """Count the parameters of a model, also on the meta device."""
    tables = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    sizes = [(id(p), p.numel(), p.requires_grad) for p in model.parameters()]
    return ParameterCount(
        total=sum(n for _, n, _ in sizes),
        trainable=sum(n for _, n, train in sizes if train),
        non_embedding=sum(n for key, n, _ in sizes if key not in tables),
    )


def forward_flops(model: Transformer, length: int) -> int:
    """Operations of one forward pass over one sequence: 2 per multiply-add of every matrix product.

    Counts linear maps and what attention layers state beyond them; the causal half is not
    subtracted, as in PaLM's appendix B. Norms, activations and lookups are left out. Of an
    encoder-decoder source and target both have this length; a pooled head runs once per sequence.
    """
    pooled = set() if model.pooling is None else {id(m) for m in model.head.modules()}
    linear = sum(2 * m.weight.numel() * (1 if id(m) in pooled else length) for m in _linears_outside_scores(model))
    return linear + sum(m.extra_flops(length, length) for m in model.modules() if isinstance(m, Attention))


def flops_per_token(model: Transformer, length: int) -> float:
    """Operations of one training step per token: forward and, at twice its cost, backward."""
    sides = 1 if model.source_embedding is None else 2
    return 3 * forward_flops(model, length) / (sides * length)


def meta_model(spec: ModelSpec) -> Transformer:
    """The model without memory for its parameters: for counting, whatever its size."""
    with torch.device("meta"):
        return build_model(spec)


def _linears_outside_scores(model: nn.Module) -> list[nn.Linear]:
    # A score's own maps run per head and pair, and are part of the attention's extra_flops.
    inside = {id(m) for s in model.modules() if isinstance(s, Score) for m in s.modules()}
    return [m for m in model.modules() if isinstance(m, nn.Linear) and id(m) not in inside]
