"""The most probable texts that a search of limited width finds."""

from collections.abc import Generator
from typing import Annotated

import torch

from tfexp.errors import ConfigError
from tfexp.generation.base import Answers, Call, Row, Strategy, Token
from tfexp.generation.beam_search import (
    EarlyStopping,
    Penalty,
    Scoring,
    Search,
    advance,
    best_candidates,
    filled,
)
from tfexp.registry import register
from tfexp.schema import Range


@register("generation", "beam")
class Beam(Strategy):
    """Keep the `n_beams` most probable beginnings at every length, and rank texts that ended by score.

    score = sum ln p / ((5 + n) / 6)^length_penalty for n tokens, the end token included. Rules change
    log-probabilities, which are then summed as they are.

    Args:
        n_beams: Beginnings that are kept; 1 follows the most probable token. Usual: 4 or 5.
        length_penalty: alpha; 0 = none, more favours longer texts. Usual: 0.6 to 1.
        penalty: `gnmt` as above; `length` divides by n^alpha, as in transformers.
        early_stopping: `never` stops when no open text can still beat the worst of `n_beams` finished ones,
            however long it gets; `false` judges open texts by their present length, as transformers does;
            `true` stops at `n_beams` finished ones.
        n_best: Texts to return for each request.

    Source: Wu et al., 2016, arXiv:1609.08144, section 7 (without coverage penalty).
    Differs: the paper prunes by score margins besides.
    """

    def __init__(
        self,
        *,
        n_beams: Annotated[int, Range(ge=1)] = 4,
        length_penalty: float = 0.6,
        penalty: Penalty = "gnmt",
        early_stopping: EarlyStopping = "never",
        n_best: Annotated[int, Range(ge=1)] = 1,
    ) -> None:
        if n_best > n_beams:
            raise ConfigError(f"generation.n_best: {n_best} texts need as many beams, got n_beams={n_beams}")
        self.n_beams, self.n_best = n_beams, n_best
        self.scoring = Scoring(penalty, length_penalty)
        self.early_stopping: EarlyStopping = early_stopping

    def check(self, vocab_size: int) -> None:
        if self.n_beams > vocab_size:
            raise ConfigError(f"generation.n_beams: {self.n_beams} is more than the vocabulary's {vocab_size} tokens")

    def run(self, call: Call) -> Generator[Token, None, Answers]:
        yield from ()  # nothing is certain before the end
        logits = call.engine.start(call.prompts)
        rows = [Row(request, prompt) for request, prompt in enumerate(call.prompts)]
        searches = [self._search(call) for _ in rows]
        totals, n_rows = torch.zeros(len(rows), device=logits.device), 1
        active = list(range(len(rows)))
        for n in range(1, call.max_new_tokens + 1):
            scores = call.rules(logits.log_softmax(dim=-1), rows)
            found = best_candidates(scores, totals, n_rows, 2 * self.n_beams)  # enough even if half of them end
            for request, candidates in zip(active, found, strict=True):
                searches[request].take(candidates, rows, call)
            active = [request for request in active if not searches[request].done(n)]
            if not active:
                break
            open_ = [searches[request].open for request in active]
            chosen = [c for some in open_ for c in filled(some, self.n_beams, some[0])]
            order = torch.tensor([c.row for c in chosen], device=logits.device)
            rows, n_rows = [advance(rows[c.row], c) for c in chosen], self.n_beams
            totals = torch.tensor([c.total for c in chosen], device=logits.device)
            call.engine.keep(order)
            logits = call.engine.step(torch.tensor([c.token for c in chosen], device=logits.device))
        return [search.finished[: self.n_best] for search in searches]

    def _search(self, call: Call) -> Search:
        return Search(self.n_beams, self.scoring, self.early_stopping, call.max_new_tokens)
