"""The table of components: one row or more for every registered one, with tiny options.

A new component needs a row here; its reference is an independent loop in `naive.py`, or None with a reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tests.components import naive, naive_attention
from tests.tiny import normal
from tfexp.components.base import AttentionContext
from tfexp.model.masks import self_attention_context
from tfexp.registry import check_choice, create

B, T, D, V, C = 2, 5, 8, 16, 3
GEOMETRY = {
    "d_model": D,
    "n_heads": 4,
    "n_kv_heads": 2,
    "head_dim": 4,  # 4 heads of 4 are wider than d_model, so that a mix-up of the two is seen
    "d_ff": 12,
    "n_layers": 3,
    "layer_index": 1,
    "max_seq_len": 16,
    "vocab_size": V,
    "n_labels": C,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "sublayers": ("attention", "feedforward"),
    "norm": partial(create, "norm", {"name": "layernorm"}, {"d_model": D}),
    "residual": partial(create, "residual", {"name": "plain"}, {"d_model": D}),
}


@dataclass(frozen=True)
class Case:
    """One way to configure one component.

    Args:
        reference: (module, *inputs of the slot) -> the same numbers, by loops; None = see `no_reference`.
        atol: For float64 values and gradients; the default fits sums of some tens of terms of size 1 to 10.
    """

    slot: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    reference: Callable[..., Tensor] | None = None
    no_reference: str = ""
    atol: float = 1e-11

    @property
    def id(self) -> str:
        return "-".join([self.slot, self.name, *(f"{k}={v}" for k, v in self.options.items())])

    def make(self, dtype: torch.dtype = torch.float64, seed: int = 0, **geometry: Any) -> Any:
        """The component with every parameter drawn at random, so that none hides at 0 or 1."""
        config = check_choice(self.slot, {"name": self.name, **self.options}, self.slot)
        made = create(self.slot, config, {**GEOMETRY, **geometry})
        if isinstance(made, nn.Module):
            for index, parameter in enumerate(made.to(dtype).parameters()):
                nn.init.normal_(parameter, std=0.7, generator=torch.Generator().manual_seed(100 * seed + index))
        return made


ACTIVATIONS = ["relu", "gelu", "gelu_tanh", "silu", "relu_squared"]
GATES = [*ACTIVATIONS, "sigmoid", "none"]
CASES = [
    Case("embedding", "token", {}, naive.token),
    Case("embedding", "token", {"scale": True}, naive.token),
    Case("embedding", "ngram", {"max_n": 3, "buckets": 11}, naive.ngram),
    Case("embedding", "ngram", {"max_n": 2, "buckets": 5, "scale": True}, naive.ngram),
    Case("position", "none", {}, naive.no_position),
    Case("position", "sinusoidal", {}, naive.sinusoidal),
    Case("position", "sinusoidal", {"layout": "halves", "base": 100.0}, naive.sinusoidal),
    Case("position", "learned", {}, naive.learned),
    Case("position", "rope", {}, naive.rope),
    Case("position", "rope", {"layout": "interleaved", "base": 50.0}, naive.rope),
    Case("position", "alibi", {}, naive.alibi),
    Case("position", "t5", {"n_buckets": 8, "max_distance": 5}, naive.t5),
    Case("position", "t5", {"bidirectional": False, "n_buckets": 4, "max_distance": 3}, naive.t5),
    Case("attention", "softmax", {}, naive_attention.attention),
    Case("attention", "softmax", {"form": "plain"}, naive_attention.attention),
    Case("attention", "softmax", {"form": "fused"}, naive_attention.attention),
    Case("attention", "softmax", {"bias": True, "value_dim": 3}, naive_attention.attention),
    Case("attention", "softmax", {"bias": True, "output_bias": False}, naive_attention.attention),
    Case("attention", "softmax", {"qk_norm": "rmsnorm", "form": "plain"}, naive_attention.attention),
    Case("attention", "softmax", {"score": "dot", "form": "fused"}, naive_attention.attention),
    Case("attention", "softmax", {"score": "cosine", "form": "plain"}, naive_attention.attention),
    Case("attention", "softmax", {"score": "cosine", "form": "fused"}, naive_attention.attention),
    Case("attention", "softmax", {"score": "additive", "value_dim": 5}, naive_attention.attention),
    Case("attention", "softmax", {"window": 1}, naive_attention.attention),
    Case("attention", "softmax", {"window": 3, "form": "fused"}, naive_attention.attention),
    Case("attention", "softmax", {"window": 9, "form": "plain"}, naive_attention.attention),
    Case("attention", "linear", {}, naive_attention.linear_attention),
    Case("attention", "linear", {"form": "recurrent", "value_dim": 3, "bias": True}, naive_attention.linear_attention),
    Case("attention", "linear", {"form": "chunked", "chunk": 2, "eps": 1e-2}, naive_attention.linear_attention),
    Case(
        "attention", "retention", {}, naive_attention.retention, atol=1e-10
    ),  # the norm divides by spreads down to 0.01
    Case("attention", "retention", {"form": "recurrent", "value_dim": 3}, naive_attention.retention, atol=1e-10),
    Case("attention", "retention", {"form": "chunked", "chunk": 2, "eps": 1e-2}, naive_attention.retention),
    Case("attention", "delta", {}, naive_attention.delta, atol=1e-10),  # so do the lengths of queries and keys
    Case("attention", "delta", {"form": "recurrent", "value_dim": 3}, naive_attention.delta, atol=1e-10),
    Case("attention", "delta", {"form": "chunked", "chunk": 2, "conv": 2}, naive_attention.delta, atol=1e-10),
    Case("attention", "delta", {"gated": False, "conv": None, "output_gate": False}, naive_attention.delta, atol=1e-10),
    Case("attention", "mla", {}, naive_attention.mla),
    Case("attention", "mla", {"q_rank": 3, "kv_rank": 5, "form": "plain"}, naive_attention.mla),
    Case("attention", "mla", {"nope_dim": 3, "rope_dim": 4, "value_dim": 5, "form": "fused"}, naive_attention.mla),
    Case("score", "dot", {}, naive.scores),
    Case("score", "scaled_dot", {}, naive.scores),
    Case("score", "scaled_dot", {"scale": 0.3}, naive.scores),
    Case("score", "additive", {}, naive.scores),
    Case("score", "additive", {"width": 3}, naive.scores),
    Case("score", "cosine", {}, naive.scores),
    Case("score", "cosine", {"scale": 2.0, "learned": False}, naive.scores),
    Case("norm", "layernorm", {}, naive.layernorm),
    Case("norm", "layernorm", {"bias": False, "eps": 1e-2}, naive.layernorm),
    Case("norm", "layernorm", {"eps_place": "sigma", "eps": 1e-2}, naive.layernorm),
    Case("norm", "rmsnorm", {}, naive.rmsnorm),
    Case("norm", "rmsnorm", {"eps": 1e-2}, naive.rmsnorm),
    Case("norm_placement", "pre", {}, naive.pre),
    Case("norm_placement", "post", {}, naive.post),
    Case("residual", "plain", {}, naive.residual),
    *(Case("feedforward", "mlp", {"activation": a, "bias": True}, naive.mlp) for a in ACTIVATIONS),
    Case("feedforward", "mlp", {}, naive.mlp),
    Case("feedforward", "none", {}, naive.nothing),
    *(Case("feedforward", "glu", {"activation": a, "bias": True}, naive.glu) for a in GATES),
    Case("feedforward", "glu", {}, naive.glu),
    Case("pooling", "cls", {}, naive.cls),
    Case("pooling", "mean", {}, naive.mean),
    Case("pooling", "max", {}, naive.largest),
    Case("pooling", "last", {}, naive.last),
    Case("pooling", "attention", {}, naive.attention_pooling),
    Case("head", "lm", {}, naive.lm),
    Case("head", "lm", {"bias": True}, naive.lm),
    Case("head", "lm", {"bias": True, "scale": True}, naive.lm),
    *(Case("head", "mlm", {"activation": a}, naive.mlm) for a in ACTIVATIONS),
    Case("head", "classification", {}, naive.classification),
    Case("head", "classification", {"hidden": True}, naive.classification),
    Case("head", "classification", {"hidden": True, "bias": False}, naive.classification),
    Case("init", "gpt2", {}, None, "random; its law is in test_properties"),
    Case("init", "xavier", {}, None, "random; its law is in test_properties"),
]
MODULES = [case for case in CASES if case.slot != "init"]


# --- what each slot is given, and how it is called ---------------------------------------------

IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
POSITIONS = torch.tensor([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]])
REAL = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)  # padding on the left, on the right


def heads(x: Tensor, n_heads: int) -> Tensor:
    """(B, T, D) -> (B, n_heads, T, K): something of a head's shape, different for each head."""
    return torch.stack([x.roll(head, dims=-1)[..., :4] for head in range(n_heads)], dim=1)


def causal_context(x: Tensor) -> AttentionContext:
    position = create("position", {"name": "none"}, GEOMETRY)
    return self_attention_context(position, torch.arange(x.shape[1]), None, x.dtype)


def act_on_everything(position: Any, x: Tensor) -> Tensor:
    """A position's three effects in one row per sample: on embeddings, on queries and keys, on scores."""
    places = POSITIONS[: len(x), : x.shape[1]]
    signals = position.signals(places, places, x.dtype)
    query = heads(x, 4) if signals.query is None else signals.query(heads(x, 4))
    key = heads(x, 2) if signals.key is None else signals.key(heads(x, 2))
    bias = x.new_zeros(len(x), 4, x.shape[1], x.shape[1]) if signals.bias is None else signals.bias
    return torch.cat([part.flatten(1) for part in (position.embed(x, places), query, key, bias)], dim=1)


SUBLAYERS = {"attention": lambda x: torch.tanh(x) * 0.5, "feedforward": lambda x: x.flip(-1) * 0.25}

INPUTS: dict[str, Callable[[Tensor], tuple[Any, ...]]] = {
    "embedding": lambda x: (IDS[: len(x)],),
    "attention": lambda x: (x, causal_context(x)),
    "score": lambda x: (heads(x, 4), heads(x.flip(1), 4)),
    "residual": lambda x: (x, x.flip(-1)),
    "pooling": lambda x: (x, REAL[: len(x)]),
    "head-classification": lambda x: (x[:, 1],),
}
CALLS: dict[str, Callable[..., Tensor]] = {
    "position": act_on_everything,
    "score": lambda score, query, key: score.logits(query, key),
    "norm_placement": lambda place, x: place.exit(place.block(place.enter(x), SUBLAYERS)),
}
SHAPES = {
    "position": (B, T * D + 4 * T * 4 + 2 * T * 4 + 4 * T * T),
    "score": (B, 4, T, T),
    "pooling": (B, D),
    "head": (B, T, V),
    "head-classification": (B, C),
}
"""What differs between slots, or between components of one slot, which are then named `slot-name`."""


def of(case: Case, table: dict[str, Any], otherwise: Any) -> Any:
    """The entry for this component, for its slot, or neither."""
    return table.get(f"{case.slot}-{case.name}", table.get(case.slot, otherwise))


def inputs(case: Case, x: Tensor) -> tuple[Any, ...]:
    return of(case, INPUTS, lambda x: (x,))(x)


def run(case: Case, module: Any, x: Tensor) -> Tensor:
    """Call a module as its slot's contract says, on inputs made from x (B, T, D)."""
    call = of(case, CALLS, lambda module, *args: module(*args))
    return call(module, *inputs(case, x))


def sample(dtype: torch.dtype = torch.float64, seed: int = 5) -> Tensor:
    return normal(B, T, D, seed=seed).to(dtype)
