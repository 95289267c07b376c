"""The contract of a strategy."""

import torch
from torch import Tensor


class Strategy:
    """Chooses one token from the logits of one position."""

    def choose(self, logits: Tensor, generator: torch.Generator) -> int:
        """A token id from logits (V,) float32; random draws come from `generator` only."""
        raise NotImplementedError
