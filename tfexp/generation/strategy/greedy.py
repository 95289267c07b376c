"""The most probable token."""

import torch
from torch import Tensor

from tfexp.generation.base import Strategy
from tfexp.registry import register


@register("generation", "greedy")
class Greedy(Strategy):
    """argmax of the logits; of equals, the first."""

    def choose(self, logits: Tensor, generator: torch.Generator) -> int:
        return int(logits.argmax())
