"""Dropout, whose masks cost little on a CPU.

torch draws one random number per element on a CPU, which takes longer than a small model's matrix
products. Here 64 random bits serve four elements, so that a rate is a multiple of 2^-16.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

LEVELS = 2**16


class Dropout(nn.Module):
    """Zero each element with probability `rate` in training, and scale the rest so that the mean stays.

    out = x * m / (1 - rate), m ~ Bernoulli(1 - rate)

    Args:
        rate: In [0, 1); on a CPU rounded to a multiple of 2^-16, to 1 - 2^-16 at most.

    Source: Srivastava et al., 2014.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate) if self.training else x

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class TokenDropout(Dropout):
    """Zero whole tokens (B, T, D) in training, and scale the rest."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        return x * dropout(x.new_ones(*x.shape[:-1], 1), self.rate)  # (B, T, 1)


def dropout(x: Tensor, rate: float) -> Tensor:
    """Dropout in training, drawing from the device's global generator."""
    if rate == 0.0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, rate)
    level = min(round(rate * LEVELS), LEVELS - 1)  # something is always kept
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= level - LEVELS // 2
    return x * (kept.to(x.dtype) * (LEVELS / (LEVELS - level)))
