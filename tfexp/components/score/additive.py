"""Additive scores."""

from typing import Annotated

from torch import Tensor

from tfexp.components.base import Linear, Score
from tfexp.registry import register
from tfexp.schema import Range


@register("score", "additive")
class Additive(Score):
    """score = v^T tanh(W_q q + W_k k): a small network instead of a product.

    Args:
        head_dim: Width K of queries and keys.
        width: Hidden width of the network; null = head_dim.

    Shapes:
        2 K width + width parameters, shared by the heads of a layer. Memory B H T S width.

    Source: Bahdanau et al., 2015, arXiv:1409.0473, section A.1.2.
    """

    dot_product = False

    def __init__(self, head_dim: int, *, width: Annotated[int | None, Range(ge=1)] = None) -> None:
        super().__init__()
        self.width = head_dim if width is None else width
        self.query = Linear(head_dim, self.width, bias=False)
        self.key = Linear(head_dim, self.width, bias=False)
        self.combine = Linear(self.width, 1, bias=False)

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        hidden = self.query(query).unsqueeze(3) + self.key(key).unsqueeze(2)  # (B, H, T, S, width)
        return self.combine(hidden.tanh()).squeeze(-1)  # (B, H, T, S)

    def flops(self, n_heads: int, head_dim: int, n_queries: int, n_keys: int) -> int:
        pairs = n_heads * n_queries * n_keys * self.width * 2
        return pairs + 2 * head_dim * self.width * n_heads * (n_queries + n_keys)
