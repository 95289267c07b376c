"""The most probable of several samples."""

from collections.abc import Generator
from dataclasses import replace
from typing import Annotated, Literal

from tfexp.generation.base import Answers, Call, Hypothesis, Strategy, Token
from tfexp.generation.law import Epsilon, MinP, Temperature, TopK, TopP, TypicalP
from tfexp.generation.sampler import Sampler, drain
from tfexp.generation.token_loop import write_rows
from tfexp.registry import register
from tfexp.schema import Range


@register("generation", "best_of")
class BestOf(Strategy):
    """Draw n samples and rank them by the model's own log-probability.

    Args:
        n: Samples; all are returned, best first. Usual: 4 to 64.
        by: `mean` log-probability of a token, or `sum`, which favours short texts.
        temperature: As of `sample`.
        top_k: As of `sample`.
        top_p: As of `sample`.
        min_p: As of `sample`.
        typical_p: As of `sample`.
        epsilon: As of `sample`.

    Source: Adiwardana et al., 2020, arXiv:2001.09977, section 3.2 ("sample and rank").
    """

    def __init__(
        self,
        *,
        n: Annotated[int, Range(ge=1)] = 4,
        by: Literal["mean", "sum"] = "mean",
        temperature: Temperature = 1.0,
        top_k: TopK = None,
        top_p: TopP = 1.0,
        min_p: MinP = 0.0,
        typical_p: TypicalP = 1.0,
        epsilon: Epsilon = 0.0,
    ) -> None:
        self.n, self.by = n, by
        self.sampler = Sampler(temperature, top_k, top_p, min_p, typical_p, epsilon)

    def check(self, vocab_size: int) -> None:
        self.sampler.check(vocab_size)

    def run(self, call: Call) -> Generator[Token, None, Answers]:
        yield from ()  # nothing is certain before the end
        samples = drain(write_rows(call, self.sampler, self.n))
        return [sorted(map(self._ranked, found), key=lambda h: -h.score) for found in samples]

    def _ranked(self, hypothesis: Hypothesis) -> Hypothesis:
        total = sum(hypothesis.logprobs)
        return replace(hypothesis, score=total / len(hypothesis.logprobs) if self.by == "mean" else total)
