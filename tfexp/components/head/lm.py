"""Logits over the vocabulary."""

from torch import Tensor, nn

from tfexp.components.base import Head, Linear
from tfexp.registry import register


@register("head", "lm", gives={"token_logits"})
class LMHead(Head):
    """logits = h W^T + b at every position, one score per token of the vocabulary.

    With `model.tie_embeddings` W is the token embedding itself.

    Args:
        d_model: Width D.
        vocab_size: V.
        bias: Train a bias over the vocabulary.

    Shapes:
        (B, T, D) -> (B, T, V). V D parameters, none of its own if tied.

    Source: Press and Wolf, 2017, arXiv:1608.05859 (tying).
    """

    def __init__(self, d_model: int, vocab_size: int, *, bias: bool = False) -> None:
        super().__init__()
        self.project = Linear(d_model, vocab_size, bias, role="logits")

    def tie(self, weight: nn.Parameter) -> None:
        self.project.weight = weight

    def forward(self, hidden: Tensor) -> Tensor:
        return self.project(hidden)
