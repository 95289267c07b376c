"""One layer: its sublayers, wired by a norm placement."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor, nn

from tfexp.components.base import Attention, AttentionContext, FeedForward, NormPlacement
from tfexp.components.dropout import Dropout
from tfexp.components.state import AttentionState, StatePlan

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

    def rows(self, which: Tensor) -> "Memory":
        """These rows of the batch, in this order."""
        context = self.context
        chosen = replace(
            context,
            mask=None if context.mask is None else context.mask[which],
            logit_bias=None if context.logit_bias is None else context.logit_bias[which],
            blocked=None if context.blocked is None else context.blocked[which],
        )
        return Memory(self.states[which], chosen)


@dataclass(frozen=True)
class BlockState:
    """What one layer remembers while decoding; the cross state of a layer without an encoder is None."""

    attention: AttentionState
    cross_attention: AttentionState | None

    def fork(self) -> "BlockState":
        """The same memories, to go on by themselves."""
        cross = self.cross_attention
        return BlockState(self.attention.fork(), None if cross is None else cross.fork())


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

    def forward(
        self,
        state: Tensor,
        context: AttentionContext,
        memory: Memory | None = None,
        decoding: BlockState | None = None,
    ) -> Tensor:
        own = decoding.attention if decoding else None
        sublayers: dict[str, Callable[[Tensor], Tensor]] = {
            "attention": partial(self._attend, context=context, state=own)
        }
        if memory is not None:
            cross = decoding.cross_attention if decoding else None
            sublayers["cross_attention"] = partial(self._attend_across, memory=memory, state=cross)
        sublayers["feedforward"] = self._feed_forward
        return self.placement.block(state, sublayers)

    def init_state(self, plan: StatePlan) -> BlockState:
        """Empty states of this layer for decoding."""
        across = self.cross_attention
        cross = None if across is None else across.init_state(replace(plan, cross=True))
        return BlockState(self.attention.init_state(plan), cross)

    def _attend(self, x: Tensor, context: AttentionContext, state: AttentionState | None) -> Tensor:
        # Attention of one's own need not know of states; it is then not `cacheable`.
        remembered = {} if state is None else {"state": state}
        return self.dropout(self.attention(x, context, **remembered))

    def _attend_across(self, x: Tensor, memory: Memory, state: AttentionState | None) -> Tensor:
        assert self.cross_attention is not None
        remembered = {} if state is None else {"state": state}
        return self.dropout(self.cross_attention(x, memory.context, memory.states, **remembered))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.feedforward(x))
