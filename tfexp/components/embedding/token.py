"""One vector per token."""

import math

from torch import Tensor, nn

from tfexp.components.base import Embedding, note
from tfexp.registry import register


@register("embedding", "token")
class TokenEmbedding(Embedding):
    """Look up a learned vector for each token id.

    Args:
        vocab_size: Rows V.
        d_model: Width D.
        scale: Multiply by sqrt(d_model), as the paper does; applied to the token part only, before
            positions are added.

    Shapes:
        (B, T) int64 -> (B, T, D). V * D parameters, which a tied head shares.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.4.
    """

    def __init__(self, vocab_size: int, d_model: int, *, scale: bool = False) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.factor = math.sqrt(d_model) if scale else 1.0

    def table(self) -> nn.Parameter:
        assert isinstance(self.token.weight, nn.Parameter)
        return self.token.weight

    def forward(self, input_ids: Tensor, positions: Tensor | None = None) -> Tensor:
        x = self.token(input_ids)
        return x if self.factor == 1.0 else note("scaled", x * self.factor)
