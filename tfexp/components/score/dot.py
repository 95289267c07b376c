"""Plain dot-product scores."""

from torch import Tensor

from tfexp.components.base import Score
from tfexp.registry import register


@register("score", "dot")
class Dot(Score):
    """score = q.k, without a scale: its variance grows with head_dim and the softmax saturates.

    Source: Luong et al., 2015, arXiv:1508.04025, section 3.1; without scale also in T5.
    """

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return query, key, 1.0
