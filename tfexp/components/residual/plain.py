"""The residual sum."""

from torch import Tensor, nn

from tfexp.registry import register


@register("residual", "plain")
class PlainResidual(nn.Module):
    """x + update.

    Shapes:
        (B, T, D), (B, T, D) -> (B, T, D). No parameters.

    Source: He et al., 2015, arXiv:1512.03385, section 3.2.
    """

    def forward(self, x: Tensor, update: Tensor) -> Tensor:
        # torch adds tensors of unequal types on a CPU an order of magnitude slower than it casts one.
        return x + update.to(x.dtype)
