"""What the generated sources share: their own random streams, parts that never meet, and checks of lengths.

Draws use `Random.random()` alone: Python promises its sequence for a seed across versions, and not that of
`choice`, `randrange` or `shuffle`.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from string import ascii_lowercase
from typing import Literal, NamedTuple, TypeVar

from tfexp.data.corpus import Corpus, Pair, Row, Source, texts_of
from tfexp.errors import ConfigError, DataError
from tfexp.streams import stream_seed

PartName = Literal["train", "val", "test"]
Item = TypeVar("Item")
MOST_LETTERS = 702  # a ... z, aa ... zz
PATIENCE = 100_000  # draws in a row without a new example, after which a part counts as exhausted


class Sizes(NamedTuple):
    """How many examples each part gets, or how many tokens."""

    train: int
    val: int
    test: int


class Lengths(NamedTuple):
    """The lengths of examples, both ends included: those of training and validation, and those of testing."""

    low: int
    high: int
    test_low: int
    test_high: int

    def check(self) -> "Lengths":
        check_order("min_length", self.low, "max_length", self.high)
        check_order("test_min_length", self.test_low, "test_max_length", self.test_high)
        return self

    def draw(self, rng: Random, part: PartName) -> int:
        low, high = (self.test_low, self.test_high) if part == "test" else (self.low, self.high)
        return low + below(rng, high - low + 1)


class RuleSource(Source):
    """A source whose examples follow from its keys alone."""

    def stamp(self) -> str:
        return "rule"


class StringTask(RuleSource):
    """Uniform strings of letters and what becomes of them: the base of `copy`, `reverse` and `sort`.

    Args:
        name: The registered name, which is also that of the random streams.
        alphabet: How many letters there are.
        lengths: Of the strings, in letters.
        sizes: Strings in each part.
        data_seed: Of the strings.
    """

    kind = "pairs"

    def __init__(self, name: str, alphabet: int, lengths: Lengths, sizes: Sizes, data_seed: int) -> None:
        self.name, self.alphabet, self.lengths = name, alphabet, lengths.check()
        self.sizes, self.data_seed = sizes, data_seed

    def answer(self, ranks: list[int]) -> list[int]:
        """What becomes of a string, its letters given by their rank in the alphabet."""
        raise NotImplementedError

    def read(self) -> Corpus:
        return fill_parts(self.name, self.sizes, self._pairs)

    def _pairs(self, part: PartName) -> Iterator[Pair]:
        letter, rng = letters(self.alphabet), part_random(self.data_seed, self.name, part)
        while True:
            ranks = [below(rng, self.alphabet) for _ in range(self.lengths.draw(rng, part))]
            answer = self.answer(ranks)
            yield Pair(" ".join([letter[rank] for rank in ranks]), " ".join([letter[rank] for rank in answer]))


def letters(count: int) -> list[str]:
    """The first letters of an alphabet that goes on after z with aa, ab, ..."""
    return [*ascii_lowercase, *(first + second for first in ascii_lowercase for second in ascii_lowercase)][:count]


def below(rng: Random, count: int) -> int:
    """A whole number from 0 to `count` - 1, each as likely as another (to 2^-53)."""
    return int(rng.random() * count)


def shuffled(rng: Random, items: Sequence[Item]) -> list[Item]:
    """The items in a random order."""
    return sorted(items, key=lambda _: rng.random())


def part_random(data_seed: int, name: str, part: str) -> Random:
    """The random stream of one part of a source."""
    return Random(stream_seed(data_seed, f"data/{name}/{part}"))


def part_of(row: Row) -> PartName:
    """The part that an example belongs to, by a hash of its text: one in ten validates, one in ten tests.

    So no example is in two parts, whatever the sizes and seeds of the parts are, and where there are
    few examples of a length, most of them are still there to be learnt from.
    """
    tenth = stream_seed(0, texts_of(row)[0]) % 10
    return "val" if tenth == 0 else "test" if tenth == 1 else "train"


def belongs(part: PartName, row: Row) -> bool:
    return part_of(row) == part


def fill_parts(
    name: str,
    sizes: Sizes,
    draws: Callable[[PartName], Iterator[Row | None]],
    fits: Callable[[PartName, Row], bool] = belongs,
) -> Corpus:
    """Take from the stream of each part the first examples that fit into it.

    The held-out parts come first, so that how many examples train changes nothing in them.

    Args:
        name: The registered name, for messages.
        sizes: Examples wanted.
        draws: An endless stream for each part; None is a draw that came to nothing.
        fits: Whether an example may stand in a part.

    Raises:
        DataError: A part asks for more than there is.
    """
    wanted: dict[PartName, int] = {"val": sizes.val, "test": sizes.test, "train": sizes.train}
    parts = {part: tuple(_take(name, part, size, draws(part), fits)) for part, size in wanted.items()}
    return Corpus(parts["train"], parts["val"], parts["test"], {"examples": sum(wanted.values())})


def _take(
    name: str, part: PartName, size: int, stream: Iterator[Row | None], fits: Callable[[PartName, Row], bool]
) -> Iterator[Row]:
    taken = missed = 0
    while taken < size:
        row = next(stream)
        if row is not None and fits(part, row):
            taken, missed = taken + 1, 0
            yield row
            continue
        missed += 1
        if missed == PATIENCE:
            raise DataError(
                f"data={name}: after {taken} of {size} examples for '{part}', {PATIENCE:,} draws gave no further one; "
                "allow more lengths or symbols, or ask for fewer"
            )


def check_order(low_key: str, low: int, high_key: str, high: int) -> None:
    """Refuse a range whose ends are in the wrong order."""
    if low > high:
        raise ConfigError(f"data.{low_key}: must be at most data.{high_key}={high}, got {low}")
