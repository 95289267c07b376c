"""Beam search in groups that avoid each other's words."""

from collections.abc import Generator
from typing import Annotated

import torch
from torch import Tensor

from tfexp.errors import ConfigError
from tfexp.generation.base import Answers, Call, Row, Strategy, Token
from tfexp.generation.beam_search import (
    Candidate,
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


@register("generation", "diverse_beam")
class DiverseBeam(Strategy):
    """Split the beams into groups; at each step a group prefers tokens that earlier groups did not choose.

    Group g ranks continuations by sum ln p - diversity times how often groups 1 .. g-1 chose the token at
    this step (Hamming diversity). Scores of texts are those of plain beam search.

    Args:
        n_beams: Beams in all; a multiple of `n_groups`.
        n_groups: Groups; 1 is beam search.
        diversity: What one earlier choice of a token costs it, in nats. Usual: 0.2 to 0.8.
        length_penalty: alpha, as of `beam`.
        penalty: `gnmt` or `length`, as of `beam`.
        early_stopping: `never`, false or true, as of `beam`, in each group.
        n_best: Texts to return for each request, the best of all groups.

    Source: Vijayakumar et al., 2018, arXiv:1610.02424, section 4.
    """

    def __init__(
        self,
        *,
        n_beams: Annotated[int, Range(ge=1)] = 4,
        n_groups: Annotated[int, Range(ge=1)] = 2,
        diversity: Annotated[float, Range(ge=0)] = 0.5,
        length_penalty: float = 0.6,
        penalty: Penalty = "gnmt",
        early_stopping: EarlyStopping = "never",
        n_best: Annotated[int, Range(ge=1)] = 1,
    ) -> None:
        if n_beams % n_groups:
            raise ConfigError(f"generation.n_groups: must divide n_beams={n_beams}, got {n_groups}")
        if n_best > n_beams:
            raise ConfigError(f"generation.n_best: {n_best} texts need as many beams, got n_beams={n_beams}")
        self.n_beams, self.n_groups, self.diversity, self.n_best = n_beams, n_groups, diversity, n_best
        self.width = n_beams // n_groups
        self.scoring = Scoring(penalty, length_penalty)
        self.early_stopping: EarlyStopping = early_stopping

    def check(self, vocab_size: int) -> None:
        if self.n_beams > vocab_size:
            raise ConfigError(f"generation.n_beams: {self.n_beams} is more than the vocabulary's {vocab_size} tokens")

    def run(self, call: Call) -> Generator[Token, None, Answers]:
        yield from ()  # nothing is certain before the end
        first = call.engine.start(call.prompts)
        active = list(range(len(call.prompts)))
        searches = [self._searches(call) for _ in active]
        rows = [Row(request, call.prompts[request]) for request in active for _ in range(self.n_beams)]
        copies = torch.tensor([row.request for row in rows], device=first.device)
        call.engine.keep(copies)
        logits = first[copies]  # (R * n_beams, V)
        # All beams of a group start alike: one of them is enough.
        start = [0.0 if k % self.width == 0 else -torch.inf for k in range(self.n_beams)]
        totals = torch.tensor(start * len(active), device=first.device)
        for n in range(1, call.max_new_tokens + 1):
            scores = call.rules(logits.log_softmax(dim=-1), rows)
            self._take(call, [searches[request] for request in active], scores, totals, rows)
            going = [k for k, r in enumerate(active) if not all(search.done(n) for search in searches[r])]
            if not going:
                break
            chosen = [c for k in going for search in searches[active[k]] for c in self._open(search, n, k)]
            active = [active[k] for k in going]
            rows = [advance(rows[c.row], c) for c in chosen]
            totals = torch.tensor([c.total for c in chosen], device=first.device)
            call.engine.keep(torch.tensor([c.row for c in chosen], device=first.device))
            logits = call.engine.step(torch.tensor([c.token for c in chosen], device=first.device))
        found = [[h for search in groups for h in search.finished] for groups in searches]
        return [sorted(hypotheses, key=lambda h: -h.score)[: self.n_best] for hypotheses in found]

    def _searches(self, call: Call) -> list[Search]:
        longest = call.max_new_tokens
        return [Search(self.width, self.scoring, self.early_stopping, longest) for _ in range(self.n_groups)]

    def _take(self, call: Call, searches: list[list[Search]], scores: Tensor, totals: Tensor, rows: list[Row]) -> None:
        """One step of every group, in order."""
        n_words = scores.shape[1]
        taken = torch.zeros(len(searches), n_words, device=scores.device)  # how often a token was chosen
        grouped = torch.arange(len(rows), device=scores.device).view(-1, self.n_groups, self.width)
        for group in range(self.n_groups):
            own = grouped[:, group].flatten()  # (R * width,)
            handicap = self.diversity * taken
            found = best_candidates(scores[own], totals[own], self.width, 2 * self.width, handicap)
            places = own.tolist()
            for request, candidates in enumerate(found):
                moved = [Candidate(places[c.row], c.token, c.total, c.logprob) for c in candidates]
                search = searches[request][group]
                search.take(moved, rows, call)
                for candidate in search.open:
                    taken[request, candidate.token] += 1

    def _open(self, search: Search, n: int, place: int) -> list[Candidate]:
        """What goes on; a group that is done keeps its rows, which cannot be chosen any more."""
        open_ = [] if search.done(n) else search.open
        return filled(open_, self.width, Candidate(place * self.n_beams, 0, 0.0, 0.0))
