"""No n-gram twice."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tfexp.generation.base import Row


@dataclass(frozen=True)
class NoRepeat:
    """Ban tokens that would complete a sequence of n tokens that is there already, prompt included.

    Args:
        n: Tokens of a sequence. Usual: 3.

    Source: Paulus et al., 2017, arXiv:1705.04304, section 2.5.
    """

    n: int

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> None:
        for line, row in zip(scores, rows, strict=True):
            ids = row.ids
            start = ids[len(ids) - self.n + 1 :] if self.n > 1 else []
            if len(ids) < self.n:
                continue
            grams = (ids[k : k + self.n] for k in range(len(ids) - self.n + 1))
            banned = [gram[-1] for gram in grams if gram[:-1] == start]
            line[banned] = -torch.inf
