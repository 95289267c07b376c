"""Norm after each residual sum."""

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from tfexp.components.base import NormFactory, NormPlacement, ResidualFactory
from tfexp.registry import register


@register("norm_placement", "post")
class PostNorm(NormPlacement):
    """x <- norm(x + f(x)), as in the paper of 2017; the stack needs no further norm.

    Args:
        sublayers: Names of the block's sublayers.
        norm: Makes one norm.
        residual: Makes one residual connection.
        final_norm: End the stack with one more norm, which the paper does not have.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.1.
    """

    def __init__(
        self, sublayers: Sequence[str], norm: NormFactory, residual: ResidualFactory, *, final_norm: bool = False
    ) -> None:
        super().__init__(sublayers, norm, residual)
        self.final_norm = norm() if final_norm and not sublayers else nn.Identity()

    def block(self, state: Tensor, sublayers: Mapping[str, Callable[[Tensor], Tensor]]) -> Tensor:
        for name, sublayer in sublayers.items():
            state = self.norms[name](self.residuals[name](state, sublayer(state)))
        return state

    def exit(self, state: Tensor) -> Tensor:
        return self.final_norm(state)
