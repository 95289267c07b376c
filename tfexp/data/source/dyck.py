"""Dyck-(k,m): nested brackets of bounded depth."""

import math
import sys
from collections.abc import Iterator
from random import Random
from typing import Annotated

from tfexp.data.corpus import Corpus
from tfexp.data.procedural import RuleSource, Sizes, below, check_order, part_random
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range

Table = list[list[float]]  # [brackets written so far][brackets open]


@register("data", "dyck")
class Dyck(RuleSource):
    """Dyck-(k,m): well nested brackets of k types, at most m of them open at a time, `(0 (3 )3 )0 (1 )1`.

    The generator is a stack automaton: with an empty stack it ends or opens, with a full one it closes, else it
    opens or closes; of two choices each has probability 1/2, and the type of an opened bracket is uniform. A
    string is a document. Which type closes next is certain from the stack, all else is chance: `entropy()` is
    what the best model pays per token.

    Strings are drawn as the automaton draws them, given that their length lies between the two ends. A quarter
    of them have two brackets, so training and validation share short strings, of which there are few; by
    default, test strings are longer than any training string.

    Args:
        n_types: k.
        max_depth: m.
        min_length: Shortest training and validation string, in brackets.
        max_length: Longest training and validation string.
        test_min_length: Shortest test string.
        test_max_length: Longest test string.
        train_tokens: Brackets in the training part, to the end of a string; on a CPU 200,000 do.
        val_tokens: Brackets in the validation part.
        test_tokens: Brackets in the test part; 0 = none.
        data_seed: Of the strings; not the run's seed, so that all runs of a study see one data set.

    Source: Yao et al., ACL 2021, arXiv:2105.11115, experiments, with the settings of the authors' configs for k = 8,
        m = 10; the automaton is of Hewitt et al., EMNLP 2020, arXiv:2010.07515.
    Differs: no string is drawn and dropped for its length. What is drawn is exactly what would be kept: choices
        are weighted by the probability to end within the lengths.
    """

    def __init__(
        self,
        *,
        n_types: Annotated[int, Range(ge=1)] = 8,
        max_depth: Annotated[int, Range(ge=1)] = 10,
        min_length: Annotated[int, Range(ge=1)] = 1,
        max_length: Annotated[int, Range(ge=2)] = 700,
        test_min_length: Annotated[int, Range(ge=1)] = 701,
        test_max_length: Annotated[int, Range(ge=2)] = 1_400,
        train_tokens: Annotated[int, Range(ge=1)] = 2_000_000,
        val_tokens: Annotated[int, Range(ge=1)] = 200_000,
        test_tokens: Annotated[int, Range(ge=0)] = 1_000_000,
        data_seed: int = 0,
    ) -> None:
        check_order("min_length", min_length, "max_length", max_length)
        check_order("test_min_length", test_min_length, "test_max_length", test_max_length)
        self.n_types, self.max_depth, self.data_seed = n_types, max_depth, data_seed
        self.lengths = {"min_length": (min_length, max_length), "test_min_length": (test_min_length, test_max_length)}
        self.tokens = Sizes(train_tokens, val_tokens, test_tokens)

    def read(self) -> Corpus:
        n_train, n_val, n_test = self.tokens
        short = self._opening("min_length")
        long = self._opening("test_min_length") if n_test else []  # refused before anything is drawn
        train, val, test = (
            tuple(self._strings(part, tokens, opening))
            for part, tokens, opening in (("train", n_train, short), ("val", n_val, short), ("test", n_test, long))
        )
        return Corpus(train, val, test, {"examples": len(train) + len(val) + len(test)})

    def entropy(self) -> float:
        """Nats per token of the training strings, their end counted as a token: no model can have a lower loss.

        Exact, by the chain rule: the sum over the automaton's states of how often a string visits one and of
        what is left to chance there, by the mean number of tokens.
        """
        visits = [1.0, *[0.0] * self.max_depth]
        nats = tokens = 0.0
        for row in self._opening("min_length"):
            following = [0.0] * (self.max_depth + 1)
            for depth, (visit, opens) in enumerate(zip(visits, row, strict=True)):
                tokens += visit
                nats += visit * (opens * math.log(self.n_types) - sum(p * math.log(p) for p in (opens, 1 - opens) if p))
                if opens:
                    following[depth + 1] += visit * opens
                if depth:
                    following[depth - 1] += visit * (1 - opens)
            visits = following
        return nats / tokens

    def _strings(self, part: str, tokens: int, opening: Table) -> Iterator[str]:
        rng = part_random(self.data_seed, "dyck", part)
        written = 0
        while written < tokens:
            brackets = self._string(rng, opening)
            written += len(brackets)
            yield " ".join(brackets)

    def _string(self, rng: Random, opening: Table) -> list[str]:
        brackets: list[str] = []
        stack: list[int] = []
        for row in opening:
            if rng.random() < row[len(stack)]:
                stack.append(below(rng, self.n_types))
                brackets.append(f"({stack[-1]}")
            elif stack:
                brackets.append(f"){stack.pop()}")
            else:
                break
        return brackets

    def _opening(self, key: str) -> Table:
        """The probability to open a bracket in each state, given that the string's length will be right."""
        low, high = self.lengths[key]
        full = self.max_depth
        right = [0.0] * (full + 1)  # for each depth, the probability to end at a right length; here beyond all lengths
        table: Table = []
        for length in range(high, -1, -1):
            opens = [0.5 * deeper for deeper in right[1:]] + [0.0]
            ends = 0.5 if length >= low else 0.0
            closes = [ends, *(0.5 * shallower for shallower in right[: full - 1]), right[full - 1]]
            right = [o + c for o, c in zip(opens, closes, strict=True)]
            table.append([o / total if total else 0.0 for o, total in zip(opens, right, strict=True)])
        if right[0] < sys.float_info.min:
            raise ConfigError(
                f"data.{key}: no string of {low} to {high} brackets can be drawn with data.max_depth={full}; "
                "allow an even length, shorter strings or deeper ones"
            )
        return table[::-1]
