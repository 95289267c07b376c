"""The bookkeeping that beam searches share: scores by length, finished hypotheses, when to stop."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from tfexp.generation.base import Call, Hypothesis, Row

Penalty = Literal["gnmt", "length"]
EarlyStopping = Literal[True, False, "never"]


@dataclass(frozen=True)
class Scoring:
    """How hypotheses of different lengths compare.

    Args:
        penalty: `gnmt` divides by ((5 + n) / 6)^alpha, `length` by n^alpha; n counts the end token.
        alpha: 0 = the sum of log-probabilities itself.
    """

    penalty: Penalty
    alpha: float

    def score(self, log_probability: float, n: int) -> float:
        base = (5 + n) / 6 if self.penalty == "gnmt" else n
        return log_probability / base**self.alpha


@dataclass
class Candidate:
    """A row and a token that may follow it."""

    row: int
    token: int
    total: float
    logprob: float


@dataclass
class Search:
    """The search for one request.

    Args:
        n_beams: Hypotheses that are kept.
        scoring: Of finished ones.
        early_stopping: When enough is found, see `Beam`.
        longest: Most new tokens.
    """

    n_beams: int
    scoring: Scoring
    early_stopping: EarlyStopping
    longest: int
    finished: list[Hypothesis] = field(default_factory=list)
    open: list[Candidate] = field(default_factory=list)

    def take(self, candidates: list[Candidate], rows: list[Row], call: Call) -> None:
        """Sort candidates, best first, into those that end and those that go on.

        Only the best `n_beams` of them may end; the others are there so that enough go on.
        """
        self.open, closed = [], self.early_stopping is True and self._full
        for place, candidate in enumerate(candidates):
            if candidate.total == -torch.inf:
                continue
            row = rows[candidate.row]
            new = [*row.new, candidate.token]
            reason = call.reason_to_end(new)
            if reason is None:
                if len(self.open) < self.n_beams:
                    self.open.append(candidate)
            elif place < self.n_beams and not closed:
                ended = Row(row.request, row.prompt, new, [*row.logprobs, candidate.logprob]).finished(reason)
                score = self.scoring.score(candidate.total, len(new))
                self.finished.append(Hypothesis(ended.ids, score, ended.logprobs, reason))
        self.finished = sorted(self.finished, key=lambda h: -h.score)[: self.n_beams]

    @property
    def _full(self) -> bool:
        return len(self.finished) >= self.n_beams

    def done(self, n: int) -> bool:
        """Whether nothing that is open after n new tokens is to be followed further."""
        if not self.open or (self._full and self.early_stopping is True):
            return True
        longest = self.longest if self.early_stopping == "never" and self.scoring.alpha > 0 else n
        possible = self.scoring.score(self.open[0].total, longest)
        return self._full and possible <= self.finished[-1].score


def best_candidates(
    scores: Tensor, totals: Tensor, n_rows: int, n: int, handicap: Tensor | None = None
) -> list[list[Candidate]]:
    """The n best continuations of each request, best first.

    Args:
        scores: (R * n_rows, V) log-probabilities of what follows each row.
        totals: (R * n_rows,) of the rows so far.
        n_rows: Rows of a request.
        n: How many.
        handicap: (R, V) taken from the scores for the order alone; None = nothing.
    """
    n_words = scores.shape[1]
    sums = (scores + totals[:, None]).view(-1, n_rows * n_words)  # (R * n_rows, V) -> (R, n_rows * V)
    ranked = sums if handicap is None else sums - handicap.repeat(1, n_rows)
    places = ranked.topk(min(n, sums.shape[1]), dim=1).indices  # (R, n)
    best = sums.gather(1, places)
    own = scores.view(-1, n_rows * n_words).gather(1, places)
    found = []
    for request, lines in enumerate(zip(best.tolist(), places.tolist(), own.tolist(), strict=True)):
        candidates = []
        for total, place, logprob in zip(*lines, strict=True):
            beam, token = divmod(place, n_words)
            candidates.append(Candidate(request * n_rows + beam, token, total, logprob))
        found.append(candidates)
    return found


def advance(row: Row, candidate: Candidate) -> Row:
    """The row with this token added."""
    return Row(row.request, row.prompt, [*row.new, candidate.token], [*row.logprobs, candidate.logprob])


def filled(open_: list[Candidate], n: int, spare: Candidate) -> list[Candidate]:
    """As many candidates for every search; `spare` stands in for those that are missing and cannot be chosen."""
    return open_ + [Candidate(spare.row, spare.token, -torch.inf, 0.0)] * (n - len(open_))
