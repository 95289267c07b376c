"""The sample that all samples agree with most."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from tfexp.generation.base import Answers, Call, Hypothesis, Strategy, Token
from tfexp.generation.law import Epsilon, MinP, Temperature, TopK, TopP, TypicalP
from tfexp.generation.sampler import Sampler, drain
from tfexp.generation.token_loop import write_rows
from tfexp.registry import register
from tfexp.schema import Range


@register("generation", "mbr")
class MinimumBayesRisk(Strategy):
    """Draw n samples and rank each by its mean utility against the others.

    score(y) = mean over the other samples y' of u(y, y'), u a sacreBLEU sentence score of y against the
    reference y': the expected utility under the model, estimated from its samples.

    Args:
        n: Samples, each candidate and reference at once; all are returned, best first. Usual: 16 to 256.
        metric: u: `chrf` or `bleu` (0 to 100).
        temperature: As of `sample`; 1 draws from the model itself.
        top_k: As of `sample`.
        top_p: As of `sample`.
        min_p: As of `sample`.
        typical_p: As of `sample`.
        epsilon: As of `sample`. Usual for this: 0.02 (Freitag et al., 2023, arXiv:2305.09860).

    Source: Eikema and Aziz, 2020, arXiv:2005.10283, section 6; Freitag et al., 2022, arXiv:2111.09388.
    """

    def __init__(
        self,
        *,
        n: Annotated[int, Range(ge=2)] = 16,
        metric: Literal["chrf", "bleu"] = "chrf",
        temperature: Temperature = 1.0,
        top_k: TopK = None,
        top_p: TopP = 1.0,
        min_p: MinP = 0.0,
        typical_p: TypicalP = 1.0,
        epsilon: Epsilon = 0.0,
    ) -> None:
        self.n, self.metric = n, metric
        self.sampler = Sampler(temperature, top_k, top_p, min_p, typical_p, epsilon)

    def check(self, vocab_size: int) -> None:
        self.sampler.check(vocab_size)

    def run(self, call: Call) -> Generator[Token, None, Answers]:
        yield from ()  # nothing is certain before the end
        samples = drain(write_rows(call, self.sampler, self.n))
        return [self._ranked(found, [call.text(h.ids) for h in found]) for found in samples]

    def _ranked(self, found: Sequence[Hypothesis], texts: Sequence[str]) -> list[Hypothesis]:
        from sacrebleu.metrics.bleu import BLEU  # half a second that only this strategy needs
        from sacrebleu.metrics.chrf import CHRF

        scorer = CHRF() if self.metric == "chrf" else BLEU(effective_order=True)
        known: dict[tuple[str, str], float] = {}  # samples repeat each other
        for pair in {(a, b) for a in texts for b in texts}:
            known[pair] = scorer.sentence_score(pair[0], [pair[1]]).score
        ranked = []
        for k, hypothesis in enumerate(found):
            utility = sum(known[texts[k], other] for j, other in enumerate(texts) if j != k) / (len(texts) - 1)
            ranked.append(replace(hypothesis, score=utility))
        return sorted(ranked, key=lambda h: -h.score)
