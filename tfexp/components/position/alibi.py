"""Attention with linear biases."""

import torch
from torch import Tensor

from tfexp.components.base import Position, Signals
from tfexp.registry import register


@register("position", "alibi", needs={"score_bias"}, gives={"relative", "extrapolates"})
class ALiBi(Position):
    """Lower the attention scores linearly with distance; nothing is added to the embeddings.

    bias[h, i, j] = -slope[h] |i - j|: heads with steep slopes look near, those with flat ones far.
    For a power of two, slope[h] = 2^(-8h/H), h = 1..H; for other head counts the slopes of the next
    lower power come first, then every second slope of the next higher power.

    Args:
        n_heads: Query heads H.

    Shapes:
        signals: bias (H, T, S), or (B, H, T, S) where positions differ within the batch.
        No parameters.

    Source: Press, Smith and Lewis, ICLR 2022, arXiv:2108.12409, section 3 and the authors' code.
    Differs: the paper is causal; |i - j| serves encoders as well and is the same under a causal mask.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.register_buffer("slope", torch.tensor(slopes(n_heads)), persistent=False)
        self.slope: Tensor

    def signals(self, query_positions: Tensor, key_positions: Tensor, dtype: torch.dtype) -> Signals:
        distance = (query_positions.unsqueeze(-1) - key_positions.unsqueeze(-2)).abs()  # (T, S) or (B, T, S)
        slope = self.slope.to(dtype)[:, None, None]
        return Signals(bias=-slope * distance.unsqueeze(-3).to(dtype))  # (H, T, S) or (B, H, T, S)


def slopes(n_heads: int) -> list[float]:
    """The authors' slopes for any number of heads, steepest first within each part."""
    power = 1 << (n_heads.bit_length() - 1)  # the largest power of two up to n_heads
    first = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    more = [2.0 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return first + more[: n_heads - power]
