"""Copy a string."""

from typing import Annotated

from tfexp.data.procedural import MOST_LETTERS, Lengths, Sizes, StringTask
from tfexp.registry import register
from tfexp.schema import Range


@register("data", "copy")
class Copy(StringTask):
    """Repeat a string of uniform random letters: `c a b` -> `c a b`.

    Train on short strings, test on longer ones: a direct test of how position encodings extrapolate.
    Lengths are uniform. A string trains, validates or tests by a hash of it, so no string of one part is in
    another; of the few strings of one or two letters, about eight in ten train.

    Args:
        alphabet: Letters a, b, ...; the paper's generator uses up to 100.
        min_length: Shortest training and validation string, in letters.
        max_length: Longest training and validation string.
        test_min_length: Shortest test string.
        test_max_length: Longest test string.
        n_train: Training strings, drawn with repetition.
        n_val: Validation strings.
        n_test: Test strings.
        data_seed: Of the strings; not the run's seed, so that all runs of a study see one data set.

    Source: Kazemnejad et al., NeurIPS 2023, arXiv:2305.19466, section 3, task copy.
    Differs: letters where the paper draws tokens of a pretrained vocabulary; lengths from 1, where the authors'
        generator starts at 4; the numbers of examples are ours, 500 test strings a length.
    """

    def __init__(
        self,
        *,
        alphabet: Annotated[int, Range(ge=2, le=MOST_LETTERS)] = 26,
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
        super().__init__("copy", alphabet, lengths, Sizes(n_train, n_val, n_test), data_seed)

    def answer(self, ranks: list[int]) -> list[int]:
        return ranks
