"""The typed description of a model: geometry, dropout sites, and one choice per slot."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from tfexp.components.base import FeedForward, require_divisible
from tfexp.errors import IncompatibleError
from tfexp.registry import Component, check_node, resolve
from tfexp.schema import ChoiceOf, Range

Rate = Annotated[float, Range(ge=0, lt=1)]
Count = Annotated[int, Range(ge=1)]

SLOTS_OF_A_MODEL = (
    "embedding", "position", "attention", "norm", "norm_placement", "residual", "feedforward", "head", "init",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DropoutSpec:
    """Four independent sites, each a rate in [0, 1).

    Args:
        embedding: On the sum of token embedding and position.
        attention: On the attention weights.
        residual: On each sublayer's output, before the residual sum.
        hidden: Inside the feed-forward, after the activation.
    """

    embedding: Rate = 0.0
    attention: Rate = 0.0
    residual: Rate = 0.0
    hidden: Rate = 0.0


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """What `conf/model/*.yaml` says.

    Args:
        architecture: `decoder` = causal self-attention.
        d_model: Width of the residual stream.
        n_layers: Blocks.
        n_heads: Query heads.
        n_kv_heads: Key/value heads; null = n_heads.
        head_dim: Width of a head; null = d_model / n_heads.
        d_ff: Inner width of the feed-forward; null = what its form uses by default.
        max_seq_len: Longest input, in tokens.
        vocab_size: Rows of the embedding; null = the tokenizer's.
        tie_embeddings: Head and embedding share their matrix.
        dropout: Rates per site.
        embedding, position, attention, norm, norm_placement, residual, feedforward, head, init:
            One component each.
    """

    architecture: Literal["decoder"] = "decoder"
    d_model: Count
    n_layers: Count
    n_heads: Count
    n_kv_heads: Annotated[int | None, Range(ge=1)] = None
    head_dim: Annotated[int | None, Range(ge=1)] = None
    d_ff: Annotated[int | None, Range(ge=1)] = None
    max_seq_len: Count
    vocab_size: Annotated[int | None, Range(ge=1)] = None
    tie_embeddings: bool = True
    dropout: DropoutSpec = field(default_factory=DropoutSpec)
    embedding: Annotated[Any, ChoiceOf("embedding")] = "token"
    position: Annotated[Any, ChoiceOf("position")]
    attention: Annotated[Any, ChoiceOf("attention")]
    norm: Annotated[Any, ChoiceOf("norm")]
    norm_placement: Annotated[Any, ChoiceOf("norm_placement")]
    residual: Annotated[Any, ChoiceOf("residual")] = "plain"
    feedforward: Annotated[Any, ChoiceOf("feedforward")]
    head: Annotated[Any, ChoiceOf("head")] = "lm"
    init: Annotated[Any, ChoiceOf("init")] = "gpt2"

    @classmethod
    def from_config(cls, node: Mapping[str, Any]) -> "ModelSpec":
        """Check a config node and make it a description with every size known but the vocabulary's."""
        checked = check_node(cls, node, "model")
        dropout = DropoutSpec(**checked.pop("dropout"))
        return cls(**checked, dropout=dropout).resolved()

    def resolved(self) -> "ModelSpec":
        """Fill the sizes that follow from others."""
        head_dim = self.head_dim or require_divisible(
            self.d_model,
            self.n_heads,
            f"model.n_heads: d_model={self.d_model} is not divisible by n_heads={self.n_heads}; "
            f"use {_nearest_divisor(self.d_model, self.n_heads)} heads or set model.head_dim",
        )
        n_kv_heads = self.n_kv_heads or self.n_heads
        require_divisible(
            self.n_heads, n_kv_heads, f"model.n_kv_heads: must divide n_heads={self.n_heads}, got {n_kv_heads}"
        )
        feedforward = self.component("feedforward").target
        assert isinstance(feedforward, type)
        assert issubclass(feedforward, FeedForward)
        d_ff = self.d_ff or feedforward.default_d_ff(self.d_model)
        return replace(self, head_dim=head_dim, n_kv_heads=n_kv_heads, d_ff=d_ff)

    def component(self, slot: str) -> Component:
        """What is registered under this description's choice for `slot`."""
        return resolve(slot, getattr(self, slot)["name"], f"model.{slot}")

    def check_compatible(self) -> None:
        """Refuse a combination in which a component needs what no other part gives."""
        reasons = incompatibilities({slot: self.component(slot) for slot in SLOTS_OF_A_MODEL}, self.architecture)
        if reasons:
            raise IncompatibleError(reasons[0])


NEEDS_OF_ARCHITECTURE = {"decoder": {"causal", "padding"}}


def incompatibilities(parts: Mapping[str, Component], architecture: str) -> list[str]:
    """Why these components cannot work together; empty if they can.

    A component's needs must be given by some other part; an architecture needs of its attention what
    the table above says.
    """
    reasons = []
    for slot, part in parts.items():
        given = frozenset().union(*(other.gives for name, other in parts.items() if name != slot))
        for trait in sorted(part.needs - given):
            others = ", ".join(
                f"{s}={p.name}" for s, p in parts.items() if s in ("attention", "position") and s != slot
            )
            reasons.append(f"model.{slot}: '{part.name}' needs '{trait}', which no other part gives ({others})")
    if "attention" in parts:
        attention = parts["attention"]
        for trait in sorted(NEEDS_OF_ARCHITECTURE[architecture] - attention.gives):
            reasons.append(
                f"model.attention: architecture={architecture} needs '{trait}', which '{attention.name}' does not give"
            )
    return reasons


def _nearest_divisor(whole: int, wanted: int) -> int:
    divisors = [n for n in range(1, whole + 1) if whole % n == 0]
    return min(divisors, key=lambda n: abs(n - wanted))
