"""Norm before each sublayer."""

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from tfexp.components.base import NormFactory, NormPlacement, ResidualFactory
from tfexp.registry import register


@register("norm_placement", "pre")
class PreNorm(NormPlacement):
    """x <- x + f(norm(x)), and one norm after the last block.

    The residual path is an identity, so gradients reach every depth at the same scale and training
    works without a warm-up.

    Args:
        sublayers: Names of the block's sublayers.
        norm: Makes one norm.
        residual: Makes one residual connection.
        final_norm: End the stack with a norm.

    Source: Xiong et al., 2020, arXiv:2002.04745, section 3.
    """

    def __init__(
        self, sublayers: Sequence[str], norm: NormFactory, residual: ResidualFactory, *, final_norm: bool = True
    ) -> None:
        super().__init__(sublayers, norm, residual)
        self.final_norm = norm() if final_norm and not sublayers else nn.Identity()

    def block(self, state: Tensor, sublayers: Mapping[str, Callable[[Tensor], Tensor]]) -> Tensor:
        for name, sublayer in sublayers.items():
            state = self.residuals[name](state, sublayer(self.norms[name](state)))
        return state

    def exit(self, state: Tensor) -> Tensor:
        return self.final_norm(state)
