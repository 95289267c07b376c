"""The contract of each slot, and the pieces that components share.

Shape letters are those of `tfexp.batch`. Masks: True = may attend, everywhere.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from tfexp.components import onednn
from tfexp.components.state import AttentionState, StatePlan
from tfexp.errors import ConfigError

Role = Literal["hidden", "residual", "logits"]
NormFactory = Callable[[], nn.Module]
ResidualFactory = Callable[[], nn.Module]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "relu_squared"]


class Linear(nn.Linear):
    """A linear map that knows its role, so that an init recipe can treat it as its paper does.

    Args:
        role: `residual` for a sublayer's last projection, `logits` for a head, `hidden` for the rest.
    """

    def __init__(self, n_in: int, n_out: int, bias: bool, role: Role = "hidden") -> None:
        super().__init__(n_in, n_out, bias=bias)
        self.role: Role = role
        self.packed: onednn.Packed | None = None  # while decoding, see components/packing.py

    def forward(self, input: Tensor) -> Tensor:
        if self.packed is not None and self.packed.serves(input, self.weight):
            return self.packed.linear(input, self.bias)
        if onednn.applies(input, self.weight):
            return onednn.linear(input, self.weight, self.bias)
        return super().forward(input)


def in_compute_dtype(x: Tensor) -> Tensor:
    """Cast once what several linear maps will read; autocast would cast it anew for each of them."""
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return x
    return x.to(torch.get_autocast_dtype(kind))


def activate(name: Activation, x: Tensor) -> Tensor:
    """The activation functions of the field, by name.

    relu max(x, 0); gelu x Phi(x); gelu_tanh its tanh approximation (both 1606.08415);
    silu x sigmoid(x) (1702.03118); relu_squared max(x, 0)^2 (2109.08668).
    """
    if name == "relu":
        return nn.functional.relu(x)
    if name == "gelu":
        return nn.functional.gelu(x)
    if name == "gelu_tanh":
        return nn.functional.gelu(x, approximate="tanh")
    if name == "silu":
        return nn.functional.silu(x)
    return nn.functional.relu(x).square()


# --- recording: what `tfexp summary` sees -------------------------------------------------------

_recorder: Callable[[str, Tensor, int], None] | None = None


def set_recorder(recorder: Callable[[str, Tensor, int], None] | None) -> None:
    """Send every `note` to `recorder`; None switches recording off."""
    global _recorder
    _recorder = recorder


def recording() -> bool:
    return _recorder is not None


def note(name: str, value: Tensor, flops: int = 0) -> Tensor:
    """Name an intermediate result for the summary; returns it unchanged and costs nothing otherwise.

    Args:
        name: Of the result, inside its module.
        value: The result.
        flops: Operations spent on it (a multiply-add counts 2), linear maps and lookups excepted.
    """
    if _recorder is not None:
        _recorder(name, value, flops)
    return value


# --- contracts ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Signals:
    """What a position encoding sends into attention; computed once per pass, used by every layer.

    Args:
        query: Applied to queries (B, H, T, K) before the scores.
        key: Applied to keys (B, H, S, K) before the scores.
        bias: Added to the scores, broadcastable to (B, H, T, S), float.
    """

    query: Callable[[Tensor], Tensor] | None = None
    key: Callable[[Tensor], Tensor] | None = None
    bias: Tensor | None = None


class Embedding(nn.Module):
    """Turns token ids (B, T) into vectors (B, T, D)."""

    looks_back: int = 0  # how many earlier tokens the vector of a token depends on

    def forward(self, input_ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Positions (T,) or (B, T) say where each text begins, for what looks at neighbours; None = 0, 1, 2, ..."""
        raise NotImplementedError

    def table(self) -> nn.Parameter:
        """The matrix (V, D) that a tied head shares."""
        raise NotImplementedError


class Position(nn.Module):
    """Where a token stands. Acts on the embeddings, on queries and keys, or on the scores.

    A subclass overrides `embed`, `signals` or both. Positions are always given explicitly, so left
    padding, packing and cached decoding are the same case.
    """

    max_positions: int | None = None  # positions from this one on are refused; None = no limit

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Token embeddings (B, T, D) with positions (T,) or (B, T) marked on them."""
        return x

    def signals(self, query_positions: Tensor, key_positions: Tensor, dtype: torch.dtype) -> Signals:
        """What attention is to apply; positions (T,) or (B, T) and (S,) or (B, S)."""
        return Signals()


@dataclass(frozen=True)
class AttentionContext:
    """What every attention layer of one pass shares.

    Args:
        signals: From the position encoding.
        mask: (T, S) or (B, 1, T, S) bool, True = may attend; None = everything may. T may be 1 for all rows.
        logit_bias: Float, broadcastable to (B, H, T, S): the position's bias, -inf where not allowed.
        causal: `logit_bias` is exactly the causal triangle, so a kernel's own causal form may serve.
        blocked: (B, 1, T, 1) bool, True = the row may attend to nothing and must give zeros.
        real: (B, T) bool, True = this pass's position holds a real token; None = all do. What does not look at
            keys one by one (recurrent forms) leaves the others out by it.
        starts: (B, T) or (T,) bool, True = a document begins here and sees nothing earlier; None = at the row's
            beginning only.
        left_to_right: No query sees a key that comes after it: what does not look at keys one by one cannot
            read it off the mask.
        derived: Contexts that layers made of this one, by what they made of it, for the next layer to use.
    """

    signals: Signals = Signals()
    mask: Tensor | None = None
    logit_bias: Tensor | None = None
    causal: bool = False
    blocked: Tensor | None = None
    real: Tensor | None = None
    starts: Tensor | None = None
    left_to_right: bool = False
    derived: "dict[Hashable, AttentionContext]" = field(default_factory=dict, init=False, repr=False, compare=False)


class Attention(nn.Module):
    """Mixes information between positions; owns its projections and its use of the mask."""

    def forward(
        self,
        x: Tensor,
        context: AttentionContext,
        memory: Tensor | None = None,
        state: AttentionState | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D).

        Args:
            x: Where queries come from; with a state, only the new tokens.
            context: Of these queries and of all keys.
            memory: (B, S, D), where keys and values come from; None = from x.
            state: From `init_state`: what earlier passes left, to which this one adds; None = nothing is kept.
        """
        raise NotImplementedError

    def init_state(self, plan: StatePlan) -> AttentionState:
        """An empty state for decoding."""
        raise NotImplementedError

    def state_numbers(self, n_tokens: int) -> int:
        """The numbers that a state holds for one row after so many tokens: the paper's formula."""
        raise NotImplementedError

    def extra_flops(self, n_queries: int, n_keys: int) -> int:
        """Forward operations per sequence beyond the linear maps, full (not halved) causal count."""
        return 0


class Score(nn.Module):
    """How well a query fits a key."""

    dot_product = True  # scores are scale * q.k after `transform`, so a fused kernel may serve

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        """Queries, keys and the scale of their dot product."""
        raise NotImplementedError

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, H, T, K), (B, H, S, K) -> (B, H, T, S)."""
        query, key, scale = self.transform(query, key)
        return query @ key.transpose(-2, -1) * scale

    def flops(self, n_heads: int, head_dim: int, n_queries: int, n_keys: int) -> int:
        return 2 * n_heads * head_dim * n_queries * n_keys


class FeedForward(nn.Module):
    """Transforms each position on its own: (B, T, D) -> (B, T, D)."""

    @classmethod
    def default_d_ff(cls, d_model: int) -> int:
        """The inner width that this form uses when config gives none."""
        return 4 * d_model


class NormPlacement(nn.Module):
    """Wires sublayers with norms and residuals, and may carry several streams through the stack.

    One instance is built per block, with the names of its sublayers, and serves `block`; one per
    stack, with none, and serves `enter` and `exit`.

    Args:
        sublayers: Names of the block's sublayers, in order; empty for the ends of the stack.
        norm: Makes one norm.
        residual: Makes one residual connection.
    """

    def __init__(self, sublayers: Sequence[str], norm: NormFactory, residual: ResidualFactory) -> None:
        super().__init__()
        self.norms = nn.ModuleDict({name: norm() for name in sublayers})
        self.residuals = nn.ModuleDict({name: residual() for name in sublayers})

    def enter(self, x: Tensor) -> Tensor:
        """The state that the first block receives."""
        return x

    def block(self, state: Tensor, sublayers: Mapping[str, Callable[[Tensor], Tensor]]) -> Tensor:
        """Pass the state through one block's sublayers."""
        raise NotImplementedError

    def exit(self, state: Tensor) -> Tensor:
        """What the stack returns."""
        return state


class Pooling(nn.Module):
    """Turns the states of a sequence (B, T, D) into one vector (B, D)."""

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Pool over valid positions.

        Args:
            hidden: (B, T, D).
            mask: (B, T) bool, True = a real token; None = all are.

        Returns:
            (B, D); zeros for a row without a real token.
        """
        raise NotImplementedError


class Head(nn.Module):
    """Turns hidden states into logits: (..., D) -> (..., V), or pooled (B, D) -> (B, n_labels).

    Which of the two it does, it declares: `gives={"token_logits"}` or `gives={"sequence_logits"}`.
    """

    def tie(self, weight: nn.Parameter) -> None:
        """Use the token embedding's matrix (V, D) as this head's own: one parameter under two names."""
        raise NotImplementedError


class Init:
    """Draws initial values. Biases are zero; norms keep what their constructor gave."""

    def linear(self, weight: Tensor, role: Role, generator: torch.Generator) -> None:
        raise NotImplementedError

    def embedding(self, weight: Tensor, generator: torch.Generator) -> None:
        raise NotImplementedError


def require_divisible(whole: int, part: int, message: str) -> int:
    """`whole / part`, refused with `message` where it is not a whole number."""
    if whole % part:
        raise ConfigError(message)
    return whole // part
