"""The contracts of generation: what a strategy is given, what it sees of a model, what it returns."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

Reason = Literal["end", "stop", "length", "time"]


@dataclass(frozen=True)
class Hypothesis:
    """One finished answer to a request.

    Args:
        ids: Generated tokens, without the prompt and without the end token.
        score: What the strategy ranks by, higher is better; the sum of `logprobs` unless it says otherwise.
        logprobs: ln p of each generated token, the end token included, as the strategy saw them.
        reason: `end` token, `stop` string, `length` or `time` limit.
    """

    ids: list[int]
    score: float
    logprobs: list[float]
    reason: Reason


@dataclass
class Row:
    """A text that is being written.

    Args:
        request: Which request of the call it belongs to.
        prompt: What the decoder was given, never empty.
        new: Tokens since.
        logprobs: One for each of `new`.
    """

    request: int
    prompt: Sequence[int]
    new: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def ids(self) -> list[int]:
        return [*self.prompt, *self.new]

    def finished(self, reason: Reason) -> Hypothesis:
        """The answer that this row is; an end token is the last of its tokens and is left out."""
        ids = self.new[:-1] if reason == "end" else self.new
        return Hypothesis(list(ids), sum(self.logprobs), list(self.logprobs), reason)


class Engine(Protocol):
    """What a strategy sees of a model: rows of tokens, and the scores of what follows each of them.

    Logits are float32 and may be changed by who receives them.
    """

    vocab_size: int

    @property
    def hidden(self) -> Tensor:
        """(R, T, D): the last stack's output for the tokens of the latest pass; shorter rows are padded on the left."""
        ...

    def start(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Read one prompt a row; their lengths may differ. Returns (R, V) for what follows."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Add one token to each row: (R,) -> (R, V)."""
        ...

    def extend(self, tokens: Tensor) -> Tensor:
        """Add several tokens to each row: (R, T) -> (R, T, V), the logits after each of them."""
        ...

    def forget(self, n: int) -> None:
        """Take back the last n tokens of every row, right after the `extend` that added them."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows, in this order; a row may come several times, or be left out for good."""
        ...


@dataclass(frozen=True)
class Token:
    """One token of a request, as soon as nothing can take it back."""

    request: int
    id: int


class Rules(Protocol):
    """What may not, or must, be said next: penalties, bans and forced tokens."""

    def __call__(self, scores: Tensor, rows: Sequence[Row]) -> Tensor:
        """Scores (R, V), logits or log-probabilities, of what follows each row -> the same, after the rules.

        May write into `scores`. A row may belong to any request.
        """
        ...


@dataclass
class Call:
    """Everything that a strategy needs to answer a batch of requests.

    Args:
        engine: The model.
        prompts: What the decoder reads first, one for each request, none empty.
        generators: The random stream of each request; a strategy draws for a request from its own only.
        rules: Applied to every row's scores before anything is chosen.
        end: The token that ends a text, or None.
        max_new_tokens: At most so many tokens, the end token included.
        text: Ids to text, for stop strings and for strategies that compare texts.
        stopped: Whether generated ids hold a stop string.
        out_of_time: Whether the time limit has passed; what is there then is the answer.
        draft: The engine of a smaller model with the same vocabulary, for strategies that ask for one.
    """

    engine: Engine
    prompts: Sequence[Sequence[int]]
    generators: Sequence[torch.Generator]
    rules: Rules
    end: int | None
    max_new_tokens: int
    text: Callable[[Sequence[int]], str]
    stopped: Callable[[Sequence[int]], bool] = lambda ids: False
    out_of_time: Callable[[], bool] = lambda: False
    draft: Engine | None = None

    def reason_to_end(self, new: Sequence[int]) -> Reason | None:
        """Why a row with these new tokens is finished, or None if it goes on."""
        if self.end is not None and new and new[-1] == self.end:
            return "end"
        if self.stopped(new):
            return "stop"
        if len(new) >= self.max_new_tokens:
            return "length"
        return "time" if self.out_of_time() else None


Answers = list[list[Hypothesis]]
"""For each request its hypotheses, best first; at least one."""


class Strategy:
    """How texts are chosen, given a model's scores."""

    draft: str | None = None
    """The run of a smaller model that this strategy wants as `Call.draft`, or None."""

    one_by_one: bool = False
    """Whether `run` takes one request at a time."""

    def check(self, vocab_size: int) -> None:
        """Refuse, before any work, values that make no sense for so many tokens (ConfigError)."""

    def run(self, call: Call) -> Generator[Token, None, Answers]:
        """Answer every request; yields tokens as soon as they are certain, returns all answers."""
        raise NotImplementedError
