"""Scaled dot-product scores."""

from typing import Annotated

from torch import Tensor

from tfexp.components.base import Score
from tfexp.registry import register
from tfexp.schema import Range


@register("score", "scaled_dot")
class ScaledDot(Score):
    """score = q.k * scale, with scale = head_dim^-0.5 so that the variance of a score is 1 if q and k
    have independent components of variance 1.

    Args:
        head_dim: Width K of queries and keys.
        scale: Factor on the dot product; null = head_dim^-0.5.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.2.1.
    """

    def __init__(self, head_dim: int, *, scale: Annotated[float | None, Range(gt=0)] = None) -> None:
        super().__init__()
        self.scale = head_dim**-0.5 if scale is None else scale

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return query, key, self.scale
