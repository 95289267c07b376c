"""No position encoding."""

from tfexp.components.base import Position
from tfexp.registry import register


@register("position", "none", gives={"extrapolates"})
class NoPosition(Position):
    """Add nothing: the causal mask alone breaks the symmetry between positions.

    With bidirectional attention the model is then blind to order.

    Source: Kazemnejad et al., NeurIPS 2023, arXiv:2305.19466.
    """
