"""The typed description of a model: geometry, dropout sites, and one choice per slot."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Annotated, Any, Literal

from tfexp.components.base import FeedForward, require_divisible
from tfexp.errors import ConfigError, IncompatibleError, RegistryError
from tfexp.model.overrides import STACK_KEYS, complete, complete_layers, in_slice, overlaid
from tfexp.registry import Component, check_node, resolve
from tfexp.schema import ChoiceOf, Range

Rate = Annotated[float, Range(ge=0, lt=1)]
Count = Annotated[int, Range(ge=1)]

Architecture = Literal["encoder", "decoder", "encoder_decoder"]
Side = Literal["encoder", "decoder"]
SIDES: dict[Architecture, tuple[Side, ...]] = {
    "encoder": ("encoder",), "decoder": ("decoder",), "encoder_decoder": ("encoder", "decoder"),
}  # fmt: skip
SLOTS_OF_A_LAYER = ("embedding", "position", "attention", "norm", "norm_placement", "residual", "feedforward")
SLOTS_OF_A_MODEL = (*SLOTS_OF_A_LAYER, "pooling", "head", "init")


@dataclass(frozen=True, kw_only=True)
class DropoutSpec:
    """Five independent sites, each a rate in [0, 1).

    Args:
        token: On whole tokens: their embedding becomes zero, their position stays (word dropout: Iyyer et
            al., 2015; Gal and Ghahramani, 2016, arXiv:1512.05287).
        embedding: On the sum of token embedding and position.
        attention: On the attention weights.
        residual: On each sublayer's output, before the residual sum.
        hidden: Inside the feed-forward, after the activation.
    """

    token: Rate = 0.0
    embedding: Rate = 0.0
    attention: Rate = 0.0
    residual: Rate = 0.0
    hidden: Rate = 0.0


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """What `conf/model/*.yaml` says.

    Args:
        architecture: `encoder` = every token sees all; `decoder` = causal; `encoder_decoder` = a causal
            decoder that also attends to an encoder's last layer.
        d_model: Width of the residual stream.
        n_layers: Blocks of each stack.
        n_heads: Query heads.
        n_kv_heads: Key/value heads; null = n_heads.
        head_dim: Width of a head; null = d_model / n_heads.
        d_ff: Inner width of the feed-forward; null = what its form uses by default.
        max_seq_len: Longest input, in tokens.
        vocab_size: Rows of the embedding; null = the tokenizer's.
        n_labels: Classes of a head that scores sequences; null = the data's.
        tie_embeddings: Head and (target) embedding share their matrix; false where the head scores no tokens.
        share_embeddings: Source and target of an encoder-decoder share their embedding; with
            `tie_embeddings` that is the three-way tying of Vaswani et al., section 3.4.
        dropout: Rates per site.
        embedding, position, attention, norm, norm_placement, residual, feedforward, pooling, head, init:
            One component each; pooling serves heads that score sequences.
        cross_attention: Of a decoder's layers to the encoder's output; null = as `attention`.
        encoder, decoder: Overrides of the shared choices for one side.
        layers: Overrides by slice: `{where: "::2", side: decoder, attention: {...}}`. Each changes what the
            shared choices, its side and earlier entries made of a layer; the later one wins.
    """

    architecture: Architecture = "decoder"
    d_model: Count
    n_layers: Count
    n_heads: Count
    n_kv_heads: Annotated[int | None, Range(ge=1)] = None
    head_dim: Annotated[int | None, Range(ge=1)] = None
    d_ff: Annotated[int | None, Range(ge=1)] = None
    max_seq_len: Count
    vocab_size: Annotated[int | None, Range(ge=1)] = None
    n_labels: Annotated[int | None, Range(ge=1)] = None
    tie_embeddings: bool = True
    share_embeddings: bool = True
    dropout: DropoutSpec = field(default_factory=DropoutSpec)
    embedding: Annotated[Any, ChoiceOf("embedding")] = "token"
    position: Annotated[Any, ChoiceOf("position")]
    attention: Annotated[Any, ChoiceOf("attention")]
    cross_attention: Annotated[Any, ChoiceOf("attention")] = None
    norm: Annotated[Any, ChoiceOf("norm")]
    norm_placement: Annotated[Any, ChoiceOf("norm_placement")]
    residual: Annotated[Any, ChoiceOf("residual")] = "plain"
    feedforward: Annotated[Any, ChoiceOf("feedforward")]
    pooling: Annotated[Any, ChoiceOf("pooling")] = "mean"
    head: Annotated[Any, ChoiceOf("head")] = "lm"
    init: Annotated[Any, ChoiceOf("init")] = "gpt2"
    encoder: dict[str, Any] = field(default_factory=dict)
    decoder: dict[str, Any] = field(default_factory=dict)
    layers: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def from_config(cls, node: Mapping[str, Any]) -> "ModelSpec":
        """Check a config node and make it a description with every size known but those of the data."""
        checked = check_node(cls, node, "model")
        _check_override(checked, "model")  # before any override is held against it
        stacks = {}
        for side in ("encoder", "decoder"):
            changes = checked[side]
            if side in SIDES[checked["architecture"]]:
                checked[side] = complete(checked, changes, STACK_KEYS, _check_override, f"model.{side}")
                stacks[side] = overlaid(checked, {key: checked[side][key] for key in changes})
            elif changes:
                has_none = f"architecture={checked['architecture']} has no {side}"
                raise IncompatibleError(f"model.{side}: {has_none}; leave it out or use encoder_decoder")
        checked["layers"] = complete_layers(checked["layers"], stacks, _check_override, "model.layers")
        return cls(**{**checked, "dropout": DropoutSpec(**checked["dropout"])}).resolved()

    def as_node(self) -> dict[str, Any]:
        """The same as nested dicts, as a config holds it."""
        return {name: asdict(value) if is_dataclass(value) else value for name, value in vars(self).items()}  # type: ignore[arg-type]

    def stack_spec(self, side: Side) -> "ModelSpec":
        """The description of one stack: the shared choices with those of its side."""
        return self._with(getattr(self, side))

    def layer_specs(self, side: Side) -> Iterator["ModelSpec"]:
        """The description of each layer of a stack."""
        stack = self.stack_spec(side)
        for index in range(stack.n_layers):
            layer = stack
            for i, override in enumerate(self.layers):
                here = override["side"] in (None, side)
                if here and in_slice(override["where"], index, stack.n_layers, f"model.layers[{i}]"):
                    layer = layer._with({k: v for k, v in override.items() if k not in ("where", "side")})
            yield layer

    def _with(self, changes: Mapping[str, Any]) -> "ModelSpec":
        values = dict(changes)
        if "dropout" in values:
            values["dropout"] = DropoutSpec(**values["dropout"])
        return replace(self, **values) if values else self

    def resolved(self, where: str = "model") -> "ModelSpec":
        """Fill the sizes that follow from others; `where` is this description's place in the config."""
        if self.head_dim is None and self.d_model % self.n_heads:
            raise ConfigError(
                f"{where}.n_heads: d_model={self.d_model} is not divisible by n_heads={self.n_heads}; "
                f"use {_nearest_divisor(self.d_model, self.n_heads)} heads or set {where}.head_dim"
            )
        head_dim = self.head_dim or self.d_model // self.n_heads
        n_kv_heads = self.n_kv_heads or self.n_heads
        require_divisible(
            self.n_heads, n_kv_heads, f"{where}.n_kv_heads: must divide n_heads={self.n_heads}, got {n_kv_heads}"
        )
        feedforward = self.component("feedforward").target
        assert isinstance(feedforward, type)
        assert issubclass(feedforward, FeedForward)
        d_ff = self.d_ff or feedforward.default_d_ff(self.d_model)
        tied = self.tie_embeddings and self.scores_tokens
        return replace(self, head_dim=head_dim, n_kv_heads=n_kv_heads, d_ff=d_ff, tie_embeddings=tied)

    @property
    def scores_tokens(self) -> bool:
        """Whether the head scores positions; else it scores whole sequences, and states are pooled for it."""
        head = self.component("head")
        kinds = head.gives & {"token_logits", "sequence_logits"}
        if len(kinds) != 1:
            raise RegistryError(f"head/{head.name}: give 'token_logits' or 'sequence_logits', whichever it returns")
        return "token_logits" in kinds

    def component(self, slot: str) -> Component:
        """What is registered under this description's choice for `slot`."""
        return resolve(slot, getattr(self, slot)["name"], f"model.{slot}")

    def check_compatible(self) -> None:
        """Refuse a combination in which a component needs what no other part gives."""
        shared = {slot: self.component(slot) for slot in ("pooling", "head", "init")}
        two_sided = self.architecture == "encoder_decoder"
        stacks: dict[Side, ModelSpec] = {side: self.stack_spec(side) for side in SIDES[self.architecture]}
        if two_sided and self.share_embeddings and stacks["encoder"].embedding != stacks["decoder"].embedding:
            raise IncompatibleError("model.share_embeddings: encoder and decoder embed differently; set it to false")
        for side, stack in stacks.items():
            for layer in self.layer_specs(side):
                parts = {slot: layer.component(slot) for slot in SLOTS_OF_A_LAYER} | shared
                reasons = incompatibilities(parts, side, self.architecture) + _misfits(side, stack, layer)
                if two_sided and side == "decoder":
                    reasons += _cross_incompatibilities(layer.cross_component())
                if reasons:
                    raise IncompatibleError(reasons[0])

    def cross_component(self) -> Component:
        """The attention to the encoder's output."""
        choice = self.cross_attention or self.attention
        return resolve("attention", choice["name"], "model.cross_attention")


NEEDS_OF_SIDE: dict[Side, set[str]] = {"encoder": {"bidirectional", "padding"}, "decoder": {"causal", "padding"}}


def incompatibilities(parts: Mapping[str, Component], side: Side, architecture: str | None = None) -> list[str]:
    """Why these components cannot work together; empty if they can.

    A component's needs must be given by some other part; a side needs of its attention what the table
    above says.
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
        for trait in sorted(NEEDS_OF_SIDE[side] - attention.gives):
            reasons.append(
                f"model.attention: architecture={architecture or side} needs '{trait}', "
                f"which '{attention.name}' does not give"
            )
    return reasons


def _misfits(side: Side, stack: ModelSpec, layer: ModelSpec) -> list[str]:
    """Sizes that a stack's position counts on, once for all layers, and this layer does not have."""
    position = stack.component("position")
    return [
        f"model.layers: position={position.name} serves every {side} layer with {size}={getattr(stack, size)}, "
        f"and one of them has {getattr(layer, size)}"
        for size in ("n_heads", "n_kv_heads", "head_dim")
        if size in position.injected and getattr(layer, size) != getattr(stack, size)
    ]


def _cross_incompatibilities(attention: Component) -> list[str]:
    return [
        f"model.cross_attention: a decoder that reads an encoder needs '{trait}', "
        f"which '{attention.name}' does not give"
        for trait in sorted({"cross", "padding"} - attention.gives)
    ]


def _check_override(merged: Mapping[str, Any], where: str) -> dict[str, Any]:
    checked = check_node(ModelSpec, {**merged, "encoder": {}, "decoder": {}, "layers": []}, where)
    return ModelSpec(**{**checked, "dropout": DropoutSpec(**checked["dropout"])}).resolved(where).as_node()


def _nearest_divisor(whole: int, wanted: int) -> int:
    divisors = [n for n in range(1, whole + 1) if whole % n == 0]
    return min(divisors, key=lambda n: abs(n - wanted))
