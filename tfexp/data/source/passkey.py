"""Passkey retrieval, in tokens."""

from collections.abc import Iterator
from typing import Annotated

from tfexp.data.corpus import Corpus, Pair
from tfexp.data.procedural import Lengths, PartName, RuleSource, Sizes, below, fill_parts, part_random
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range

MARKER, QUESTION = "key", "?"
FILLER = tuple(f"w{i}" for i in range(19))  # as many as the words of the paper's plain sentences


@register("data", "passkey")
class Passkey(RuleSource):
    """Passkey retrieval: a number at a random place in plain filler, asked for at the end.

        source  w0 w1 w2 key 3 0 7 w0 w1 w2 w3 w4 ?      target  3 0 7

    Lengths are uniform, the place is too. It separates windows, landmarks and positions at lengths beyond
    those of training. A sequence trains, validates or tests by a hash of it, so no sequence of one part is in
    another; the same number may be.

    Args:
        n_values: The number is uniform in 1 .. n_values, written as decimal digits, a token each.
        min_length: Shortest training and validation source, in tokens, all included.
        max_length: Longest training and validation source.
        test_min_length: Shortest test source.
        test_max_length: Longest test source; a model needs room for the answer on top.
        n_train: Training sequences; on a CPU 20,000 do.
        n_val: Validation sequences.
        n_test: Test sequences.
        data_seed: Of the sequences; not the run's seed, so that all runs of a study see one data set.

    Source: Mohtashami and Jaggi, NeurIPS 2023, arXiv:2305.16300, section 4.2; layout as in the authors'
        llama/run_test.py: the filler before and after the number is cut from one repetition, from its start.
    Differs: a token version to train from scratch: 19 filler tokens in a run stand for the 19 words of the
        paper's sentences, `key` and `?` for its two sentences about the number; lengths and sizes are ours.
    """

    kind = "pairs"

    def __init__(
        self,
        *,
        n_values: Annotated[int, Range(ge=1)] = 50_000,
        min_length: Annotated[int, Range(ge=3)] = 64,
        max_length: Annotated[int, Range(ge=3)] = 256,
        test_min_length: Annotated[int, Range(ge=3)] = 257,
        test_max_length: Annotated[int, Range(ge=3)] = 1024,
        n_train: Annotated[int, Range(ge=1)] = 50_000,
        n_val: Annotated[int, Range(ge=1)] = 1_000,
        n_test: Annotated[int, Range(ge=0)] = 2_000,
        data_seed: int = 0,
    ) -> None:
        self.lengths = Lengths(min_length, max_length, test_min_length, test_max_length).check()
        needed = len(str(n_values)) + 2
        for key, length in (("min_length", min_length), ("test_min_length", test_min_length)):
            if length < needed:
                raise ConfigError(
                    f"data.{key}: the number up to {n_values}, its marker and the question need {needed} tokens, "
                    f"got {length}"
                )
        self.n_values, self.sizes, self.data_seed = n_values, Sizes(n_train, n_val, n_test), data_seed

    def read(self) -> Corpus:
        return fill_parts("passkey", self.sizes, self._pairs)

    def _pairs(self, part: PartName) -> Iterator[Pair]:
        rng = part_random(self.data_seed, "passkey", part)
        longest = max(self.lengths.high, self.lengths.test_high)
        filler = [FILLER[i % len(FILLER)] for i in range(longest)]
        while True:
            length, digits = self.lengths.draw(rng, part), str(1 + below(rng, self.n_values))
            n_filler = length - len(digits) - 2
            before = below(rng, n_filler + 1)
            tokens = [*filler[:before], MARKER, *digits, *filler[: n_filler - before], QUESTION]
            yield Pair(" ".join(tokens), " ".join(digits))
