"""Two linear maps with an activation between."""

from torch import Tensor

from tfexp.components.base import Activation, FeedForward, Linear, activate, note
from tfexp.components.dropout import Dropout
from tfexp.registry import register


@register("feedforward", "mlp")
class MLP(FeedForward):
    """y = act(x W_1 + b_1) W_2 + b_2, the same at every position.

    Args:
        d_model: Width D.
        d_ff: Inner width F; 4 D if config gives none.
        hidden_dropout: Rate after the activation.
        activation: relu in the paper of 2017, gelu in BERT, gelu_tanh in GPT-2, silu, relu_squared.
        bias: Biases in both maps.

    Shapes:
        (B, T, D) -> (B, T, D). 2 D F parameters, with biases F + D more.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.3.
    """

    def __init__(
        self, d_model: int, d_ff: int, hidden_dropout: float, *, activation: Activation = "gelu", bias: bool = False
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        self.dropout = Dropout(hidden_dropout)
        self.inner = Linear(d_model, d_ff, bias)
        self.outer = Linear(d_ff, d_model, bias, role="residual")

    def forward(self, x: Tensor) -> Tensor:
        hidden = note(self.activation, activate(self.activation, self.inner(x)))
        return self.outer(self.dropout(hidden))
