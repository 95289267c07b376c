"""When a text may end, and when it must."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tfexp.generation.base import Row


@dataclass(frozen=True)
class MinLength:
    """Ban the end token before `n` new tokens.

    Args:
        n: Tokens before the end token.
        end: The end token.
    """

    n: int
    end: int

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> None:
        scores[[k for k, row in enumerate(rows) if len(row.new) < self.n], self.end] = -torch.inf


@dataclass(frozen=True)
class Forced:
    """Say `start` first, and at the last permitted place `end`; a forced token has score 0.

    Args:
        start: Ids that every text begins with.
        end: The token at the limit; None = any.
        longest: Tokens that a text may have.
    """

    start: Sequence[int]
    end: int | None
    longest: int

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> None:
        for line, row in zip(scores, rows, strict=True):
            place = len(row.new)
            forced = self.start[place] if place < len(self.start) else None
            if forced is None and place == self.longest - 1:
                forced = self.end
            if forced is not None:
                line.fill_(-torch.inf)
                line[forced] = 0.0
