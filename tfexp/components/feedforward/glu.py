"""Gated linear units."""

from typing import Literal

from torch import Tensor

from tfexp.components.base import Activation, FeedForward, Linear, activate, in_compute_dtype, note
from tfexp.components.dropout import Dropout
from tfexp.registry import register


@register("feedforward", "glu")
class GLU(FeedForward):
    """y = (act(x W) * (x V)) W_2: the activation of one map gates another.

    Args:
        d_model: Width D.
        d_ff: Inner width F; if config gives none, 8/3 D rounded up to a multiple of 8, so that the
            parameters equal those of an MLP with 4 D.
        hidden_dropout: Rate after the product.
        activation: silu is SwiGLU, gelu GEGLU, relu ReGLU, sigmoid the first GLU, none bilinear.
        bias: Biases in all three maps.

    Shapes:
        (B, T, D) -> (B, T, D). 3 D F parameters.

    Source: Shazeer, 2020, arXiv:2002.05202, section 2; Dauphin et al., 2017, arXiv:1612.08083.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        hidden_dropout: float,
        *,
        activation: Activation | Literal["sigmoid", "none"] = "silu",
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.activation: Activation | Literal["sigmoid", "none"] = activation
        self.dropout = Dropout(hidden_dropout)
        self.gate = Linear(d_model, d_ff, bias)
        self.inner = Linear(d_model, d_ff, bias)
        self.outer = Linear(d_ff, d_model, bias, role="residual")

    @classmethod
    def default_d_ff(cls, d_model: int) -> int:
        return -(-8 * d_model // 24) * 8

    def forward(self, x: Tensor) -> Tensor:
        x = in_compute_dtype(x)
        gate = self.gate(x)
        if self.activation == "sigmoid":
            gate = gate.sigmoid()
        elif self.activation != "none":
            gate = activate(self.activation, gate)
        hidden = note("gated", gate * self.inner(x))
        return self.outer(self.dropout(hidden))
