"""A stack of blocks between the two ends of a norm placement."""

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from tfexp.components.base import AttentionContext, NormPlacement
from tfexp.model.block import Block, BlockState, Memory


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

    def forward(
        self,
        x: Tensor,
        context: AttentionContext,
        memory: Memory | None = None,
        decoding: Sequence[BlockState] | None = None,
    ) -> Tensor:
        state = self.ends.enter(x)
        for block, remembered in zip(self.layers, decoding or [None] * len(self.layers), strict=True):
            state = block(state, context, memory, remembered)
        return self.ends.exit(state)
