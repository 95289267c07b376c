"""A stack of blocks between the two ends of a norm placement."""

from collections.abc import Iterable

from torch import Tensor, nn

from tfexp.components.base import AttentionContext, NormPlacement
from tfexp.model.block import Block, Memory


class Stack(nn.Module):
    """Enter, every block in turn, exit.

    Args:
        layers: The blocks.
        ends: Serves `enter` and `exit`.
    """

    def __init__(self, layers: Iterable[Block], ends: NormPlacement) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.ends = ends

    def forward(self, x: Tensor, context: AttentionContext, memory: Memory | None = None) -> Tensor:
        state = self.ends.enter(x)
        for block in self.layers:
            state = block(state, context, memory)
        return self.ends.exit(state)
