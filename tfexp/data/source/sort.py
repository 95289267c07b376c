"""Sort a string."""

from typing import Annotated

from tfexp.data.procedural import MOST_LETTERS, Lengths, Sizes, StringTask
from tfexp.registry import register
from tfexp.schema import Range


@register("data", "sort")
class Sort(StringTask):
    """Bucket sort: the letters of a uniform random string in the order of the alphabet, `c a b a` -> `a a b c`.

    Lengths are uniform. A string trains, validates or tests by a hash of it, so no string of one part is in
    another; of the shortest strings, of which there are few, a part may have none.

    Args:
        alphabet: Letters a, b, ...; the paper uses five.
        min_length: Shortest training and validation string, in letters.
        max_length: Longest training and validation string; the paper trains up to 40.
        test_min_length: Shortest test string.
        test_max_length: Longest test string; the paper tests up to 500.
        n_train: Training strings, drawn with repetition.
        n_val: Validation strings.
        n_test: Test strings.
        data_seed: Of the strings; not the run's seed, so that all runs of a study see one data set.

    Source: Deletang et al., ICLR 2023, arXiv:2207.02098, Table 1, task bucket sort.
    Differs: a data set of fixed size, where the paper draws each batch anew; lengths 1-20 and 21-40 as for `copy`.
    """

    def __init__(
        self,
        *,
        alphabet: Annotated[int, Range(ge=2, le=MOST_LETTERS)] = 5,
        min_length: Annotated[int, Range(ge=1)] = 1,
        max_length: Annotated[int, Range(ge=1)] = 20,
        test_min_length: Annotated[int, Range(ge=1)] = 21,
        test_max_length: Annotated[int, Range(ge=1)] = 40,
        n_train: Annotated[int, Range(ge=1)] = 100_000,
        n_val: Annotated[int, Range(ge=1)] = 2_000,
        n_test: Annotated[int, Range(ge=0)] = 10_000,
        data_seed: int = 0,
    ) -> None:
        lengths = Lengths(min_length, max_length, test_min_length, test_max_length)
        super().__init__("sort", alphabet, lengths, Sizes(n_train, n_val, n_test), data_seed)

    def answer(self, ranks: list[int]) -> list[int]:
        return sorted(ranks)
