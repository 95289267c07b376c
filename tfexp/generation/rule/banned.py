"""Sequences that must not come."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tfexp.generation.base import Row


@dataclass(frozen=True)
class Banned:
    """Ban the last token of each sequence wherever the others stand before it.

    Args:
        sequences: Ids, none empty.
    """

    sequences: Sequence[Sequence[int]]

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> None:
        single = [sequence[0] for sequence in self.sequences if len(sequence) == 1]
        scores[:, single] = -torch.inf
        longer = [list(sequence) for sequence in self.sequences if len(sequence) > 1]
        for line, row in zip(scores, rows if longer else (), strict=bool(longer)):
            ids = row.ids
            line[[s[-1] for s in longer if ids[len(ids) - len(s) + 1 :] == s[:-1]]] = -torch.inf
