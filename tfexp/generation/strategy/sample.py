"""Sampling from a sharpened and truncated distribution."""

from typing import Annotated

import torch
from torch import Tensor

from tfexp.generation.base import Strategy
from tfexp.registry import register
from tfexp.schema import Range


@register("generation", "sample")
class Sample(Strategy):
    """Draw from softmax(logits / temperature), restricted first to the top k, then to the top p.

    Args:
        temperature: Below 1 sharpens, above 1 flattens; 0 is refused, use generation=greedy.
        top_k: Keep the k most probable tokens; null = all.
        top_p: Keep the smallest set of most probable tokens whose mass reaches p, the token that
            crosses it included; 1 = all.

    Source: Ackley et al., 1985 (temperature); Fan et al., 2018, arXiv:1805.04833 (top k);
        Holtzman et al., 2020, arXiv:1904.09751 (top p).
    """

    def __init__(
        self,
        *,
        temperature: Annotated[float, Range(gt=0)] = 1.0,
        top_k: Annotated[int | None, Range(ge=1)] = None,
        top_p: Annotated[float, Range(gt=0, le=1)] = 1.0,
    ) -> None:
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p

    def choose(self, logits: Tensor, generator: torch.Generator) -> int:
        return int(torch.multinomial(self.probabilities(logits), 1, generator=generator))

    def probabilities(self, logits: Tensor) -> Tensor:
        """The distribution (V,) that is drawn from."""
        # The maximum is taken off first, so that a tiny temperature sharpens instead of overflowing.
        scaled = (logits.double() - logits.max()) / self.temperature
        order = scaled.sort(descending=True, stable=True)
        kept = order.values.softmax(dim=-1)
        if self.top_k is not None:
            kept[self.top_k :] = 0.0
            kept /= kept.sum()
        mass_before = kept.cumsum(dim=-1) - kept
        kept = kept.where(mass_before < self.top_p - 1e-12, 0.0)  # rounding must not add a token
        kept[0] = max(float(kept[0]), torch.finfo(kept.dtype).tiny)
        return torch.zeros_like(kept).scatter(0, order.indices, kept / kept.sum())
