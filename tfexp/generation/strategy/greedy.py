"""The most probable token."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfexp.generation.token_loop import TokenStrategy
from tfexp.registry import register


@register("generation", "greedy")
class Greedy(TokenStrategy):
    """argmax of the logits; of equals, the first."""

    def choose(self, scores: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        return scores.argmax(dim=-1)  # (R,)
