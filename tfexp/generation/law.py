"""The distribution that sampling draws from, and a draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from tfexp.errors import ConfigError
from tfexp.generation.truncation.epsilon import epsilon
from tfexp.generation.truncation.min_p import min_p
from tfexp.generation.truncation.top_k import top_k
from tfexp.generation.truncation.top_p import top_p
from tfexp.generation.truncation.typical import typical
from tfexp.schema import Range

Temperature = Annotated[float, Range(gt=0)]
TopK = Annotated[int | None, Range(ge=1)]
TopP = Annotated[float, Range(gt=0, le=1)]
MinP = Annotated[float, Range(ge=0, le=1)]
TypicalP = Annotated[float, Range(gt=0, le=1)]
Epsilon = Annotated[float, Range(ge=0, lt=1)]


@dataclass(frozen=True)
class Law:
    """softmax(scores / temperature), truncated in transformers' order.

    Args:
        temperature: Below 1 sharpens, above 1 flattens.
        top_k: Keep the k most probable tokens, then
        top_p: of these the nucleus of this mass, then
        min_p: what has this share of the largest probability, then
        typical_p: the most typical tokens of this mass, then
        epsilon: what is at least this probable.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    epsilon: float = 0.0

    def check(self, vocab_size: int) -> None:
        if self.top_k is not None and self.top_k > vocab_size:
            raise ConfigError(f"generation.top_k: {self.top_k} is more than the vocabulary's {vocab_size} tokens")

    def probabilities(self, scores: Tensor) -> Tensor:
        """(R, V) -> (R, V) float64; -inf scores get 0."""
        # The maximum is taken off first, so that a tiny temperature sharpens instead of overflowing.
        scaled = (scores.double() - scores.amax(dim=-1, keepdim=True)) / self.temperature
        p = scaled.softmax(dim=-1)
        if self.top_k is not None:
            p = _kept(p, top_k(p, self.top_k))
        if self.top_p < 1:
            p = _kept(p, top_p(p, self.top_p))
        if self.min_p > 0:
            p = _kept(p, min_p(p, self.min_p))
        if self.typical_p < 1:
            p = _kept(p, typical(p, self.typical_p))
        return _kept(p, epsilon(p, self.epsilon)) if self.epsilon > 0 else p


def draw(p: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """One token from each row of (R, V) float64: (R,), each by one uniform number of its own generator."""
    uniform = torch.cat([torch.rand(1, dtype=torch.float64, generator=g) for g in generators]).to(p.device)
    mass = p.cumsum(dim=-1)
    # The first token whose cumulated mass exceeds the number: never one of probability 0.
    return torch.searchsorted(mass, uniform[:, None] * mass[:, -1:], right=True).squeeze(1).clamp(max=p.shape[-1] - 1)


def _kept(p: Tensor, kept: Tensor) -> Tensor:
    p = p.where(kept, 0.0)
    return p / p.sum(dim=-1, keepdim=True)
