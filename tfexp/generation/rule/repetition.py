"""Tokens that are there already lose."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tfexp.generation.base import Row


@dataclass(frozen=True)
class RepetitionPenalty:
    """Divide positive and multiply negative scores of tokens seen in the prompt or since.

    Args:
        penalty: 1 = none. Usual: 1.2.

    Source: Keskar et al., 2019, arXiv:1909.05858, section 4.1; negative scores as transformers treats them.
    """

    penalty: float

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> None:
        for line, row in zip(scores, rows, strict=True):
            seen = torch.tensor(sorted({*row.prompt, *row.new}), device=scores.device)
            own = line[seen]
            line[seen] = torch.where(own < 0, own * self.penalty, own / self.penalty)
