"""One layer: its sublayers, wired by a norm placement."""

from functools import partial

from torch import Tensor, nn

from tfexp.components.base import Attention, AttentionContext, FeedForward, NormPlacement


class Block(nn.Module):
    """Self-attention, then feed-forward; norms and residuals are the placement's business.

    Args:
        attention: Mixes positions.
        feedforward: Transforms each position.
        placement: Wires the two sublayers, named `attention` and `feedforward`.
        dropout: Rate on each sublayer's output, before the residual sum.
    """

    def __init__(
        self, attention: Attention, feedforward: FeedForward, placement: NormPlacement, dropout: float
    ) -> None:
        super().__init__()
        self.attention, self.feedforward, self.placement = attention, feedforward, placement
        self.dropout = nn.Dropout(dropout)

    def forward(self, state: Tensor, context: AttentionContext) -> Tensor:
        sublayers = {
            "attention": partial(self._attend, context=context),
            "feedforward": self._feed_forward,
        }
        return self.placement.block(state, sublayers)

    def _attend(self, x: Tensor, context: AttentionContext) -> Tensor:
        return self.dropout(self.attention(x, context))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.feedforward(x))


SUBLAYERS = ("attention", "feedforward")
