"""Drawing each token from a law, for strategies that sample."""

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from tfexp.generation.base import Answers, Token
from tfexp.generation.law import Law, draw
from tfexp.generation.token_loop import TokenStrategy


class Sampler(TokenStrategy):
    """One token at a time by a `Law`; arguments as there."""

    def __init__(
        self,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        epsilon: float = 0.0,
    ) -> None:
        self.law = Law(temperature, top_k, top_p, min_p, typical_p, epsilon)

    def check(self, vocab_size: int) -> None:
        self.law.check(vocab_size)

    def choose(self, scores: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        return draw(self.law.probabilities(scores), generators)  # (R,)


def drain(running: Generator[Token, None, Answers]) -> Answers:
    """What a strategy returns, without what it lets out on the way."""
    while True:
        try:
            next(running)
        except StopIteration as finished:
            return finished.value
