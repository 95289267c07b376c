"""One layer: its sublayers, wired by a norm placement."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from tfexp.components.base import Attention, AttentionContext, FeedForward, NormPlacement
from tfexp.components.dropout import Dropout

SUBLAYERS = ("attention", "feedforward")
SUBLAYERS_WITH_CROSS = ("attention", "cross_attention", "feedforward")


@dataclass(frozen=True)
class Memory:
    """What a decoder layer reads of the encoder.

    Args:
        states: (B, S, D), the encoder's last layer.
        context: Who may attend to which of them.
    """

    states: Tensor
    context: AttentionContext


class Block(nn.Module):
    """Self-attention, in a decoder with an encoder cross-attention, then feed-forward.

    Norms and residuals are the placement's business.

    Args:
        attention: Mixes positions.
        feedforward: Transforms each position.
        placement: Wires the sublayers, named `attention`, `cross_attention` and `feedforward`.
        dropout: Rate on each sublayer's output, before the residual sum.
        cross_attention: Queries from here, keys and values from the encoder; None = no such sublayer.
    """

    def __init__(
        self,
        attention: Attention,
        feedforward: FeedForward,
        placement: NormPlacement,
        dropout: float,
        cross_attention: Attention | None = None,
    ) -> None:
        super().__init__()
        self.attention, self.feedforward, self.placement = attention, feedforward, placement
        self.cross_attention = cross_attention
        self.dropout = Dropout(dropout)

    def forward(self, state: Tensor, context: AttentionContext, memory: Memory | None = None) -> Tensor:
        sublayers: dict[str, Callable[[Tensor], Tensor]] = {"attention": partial(self._attend, context=context)}
        if memory is not None:
            sublayers["cross_attention"] = partial(self._attend_across, memory=memory)
        sublayers["feedforward"] = self._feed_forward
        return self.placement.block(state, sublayers)

    def _attend(self, x: Tensor, context: AttentionContext) -> Tensor:
        return self.dropout(self.attention(x, context))

    def _attend_across(self, x: Tensor, memory: Memory) -> Tensor:
        assert self.cross_attention is not None
        return self.dropout(self.cross_attention(x, memory.context, memory.states))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.feedforward(x))
