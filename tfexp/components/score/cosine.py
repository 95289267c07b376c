"""Cosine-similarity scores."""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from tfexp.components.base import Score
from tfexp.registry import register
from tfexp.schema import Range


@register("score", "cosine")
class Cosine(Score):
    """score = g q.k / (|q| |k|) with one factor g per layer.

    Args:
        scale: Initial g. A cosine lies in [-1, 1], so g bounds how sharp the softmax can be.
        learned: Train g; else it stays at `scale`.

    Source: Henry et al., 2020, arXiv:2010.04245, section 3.
    Differs: the paper starts g at log2(L^2 - L) for the 97.5th percentile L of lengths.
    """

    def __init__(self, *, scale: Annotated[float, Range(gt=0)] = 10.0, learned: bool = True) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(float(scale)), requires_grad=learned)

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        query = normalize(query, dim=-1) * self.factor.to(query.dtype)
        return query, normalize(key, dim=-1), 1.0
