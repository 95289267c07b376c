"""BERT's head for masked tokens."""

from torch import Tensor, nn

from tfexp.components.base import Activation, Head, Linear, NormFactory, activate
from tfexp.registry import register


@register("head", "mlm", gives={"token_logits"})
class MLMHead(Head):
    """logits = norm(act(h W + b)) E^T + c: a transform before the (tied) decoder, and a bias per token.

    Args:
        d_model: Width D.
        vocab_size: V.
        norm: Makes one norm.
        activation: Of the transform; `gelu` in BERT.

    Shapes:
        (..., D) -> (..., V). D^2 + D, a norm and V parameters of its own; V D more if not tied.

    Source: Devlin et al., 2019, arXiv:1810.04805, and the authors' code (`get_masked_lm_output`).
    """

    def __init__(self, d_model: int, vocab_size: int, norm: NormFactory, *, activation: Activation = "gelu") -> None:
        super().__init__()
        self.transform = Linear(d_model, d_model, bias=True)
        self.activation: Activation = activation
        self.norm = norm()
        self.project = Linear(d_model, vocab_size, bias=True, role="logits")

    def tie(self, weight: nn.Parameter) -> None:
        self.project.weight = weight

    def forward(self, hidden: Tensor) -> Tensor:
        return self.project(self.norm(activate(self.activation, self.transform(hidden))))
