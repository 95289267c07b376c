"""Tokens that were generated lose, by how often."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tfexp.generation.base import Row


@dataclass(frozen=True)
class FrequencyPenalty:
    """score - frequency * count - presence * (count > 0), counted over generated tokens alone.

    Args:
        frequency: For each time. Usual: 0.1 to 1.
        presence: Once. Usual: 0.1 to 1.

    Source: the reference of OpenAI's completions interface, parameters frequency_penalty and presence_penalty.
    """

    frequency: float
    presence: float

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> None:
        for line, row in zip(scores, rows, strict=True):
            if row.new:
                counts = Counter(row.new)
                tokens = torch.tensor(list(counts), device=scores.device)
                often = torch.tensor(list(counts.values()), device=scores.device, dtype=scores.dtype)
                line[tokens] -= self.frequency * often + self.presence
