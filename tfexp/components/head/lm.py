"""Logits over the vocabulary."""

from torch import Tensor, nn

from tfexp.components.base import Head, Linear, note
from tfexp.registry import register


@register("head", "lm", gives={"token_logits"})
class LMHead(Head):
    """logits = h W^T + b at every position, one score per token of the vocabulary.

    With `model.tie_embeddings` W is the token embedding itself; b is the head's own in any case.

    Args:
        d_model: Width D.
        vocab_size: V.
        bias: Train a bias over the vocabulary.
        scale: Multiply h by d_model^-0.5 first, as T5 does where the head is tied.

    Shapes:
        (B, T, D) -> (B, T, V). V D parameters, none of its own if tied.

    Source: Press and Wolf, 2017, arXiv:1608.05859 (tying); scale: the code of Raffel et al., 2020, arXiv:1910.10683.
    """

    def __init__(self, d_model: int, vocab_size: int, *, bias: bool = False, scale: bool = False) -> None:
        super().__init__()
        self.factor = d_model**-0.5 if scale else 1.0
        self.project = Linear(d_model, vocab_size, bias, role="logits")

    def tie(self, weight: nn.Parameter) -> None:
        self.project.weight = weight

    def forward(self, hidden: Tensor) -> Tensor:
        return self.project(hidden if self.factor == 1.0 else note("scaled", hidden * self.factor))
