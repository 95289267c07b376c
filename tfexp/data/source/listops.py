"""ListOps: nested lists of operations on digits."""

from collections.abc import Iterator
from random import Random
from typing import Annotated

from tfexp.data.corpus import Corpus, Labelled, Row, texts_of
from tfexp.data.procedural import PartName, RuleSource, Sizes, below, fill_parts, part_random
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range

OPERATORS = ("MIN", "MAX", "MED", "SM")
DIGITS = "0123456789"
NESTING = 0.25  # probability that a node is an operator
Shape = list[list[int]]  # for each depth, the number of children of each node; 0 = a digit


@register("data", "listops")
class ListOps(RuleSource):
    """ListOps of the Long Range Arena: the value of an expression in prefix form, one of ten classes.

        [MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]  ->  5

    A node above the greatest depth is an operator with probability 1/4, else a digit. Operators are uniform
    among minimum, maximum, median (its whole part) and sum modulo ten, and have 2 to `max_args` children.
    Expressions are kept if `min_length` < length < `max_length`, brackets counted; all of them, over all parts,
    are distinct.

    On a CPU: `data.min_length=50 data.max_length=200 data.max_depth=5 data.n_train=20000`.

    Args:
        max_depth: Greatest depth of a node; the root has depth 1.
        max_args: Most children of an operator.
        min_length: Expressions are longer than this, in tokens.
        max_length: Expressions are shorter than this, in tokens.
        n_train: Training expressions; about 2,500 a second are made at the default lengths.
        n_val: Validation expressions.
        n_test: Test expressions.
        data_seed: Of the expressions; not the run's seed, so that all runs of a study see one data set.

    Source: Tay et al., 2020, arXiv:2011.04006, section 2.2.1, and lra_benchmarks/data/listops.py; the task is of
        Nangia and Bowman, 2018, arXiv:1804.06028.
    Differs: the authors draw without a seed and cut the parts from an unordered set, so their sets differ from
        call to call; here each part has its stream. The brackets that binarise the authors' trees, which their
        loader drops again, are never written.
    """

    kind = "labelled"

    def __init__(
        self,
        *,
        max_depth: Annotated[int, Range(ge=2)] = 10,
        max_args: Annotated[int, Range(ge=2)] = 10,
        min_length: Annotated[int, Range(ge=0)] = 500,
        max_length: Annotated[int, Range(ge=2)] = 2_000,
        n_train: Annotated[int, Range(ge=1)] = 96_000,
        n_val: Annotated[int, Range(ge=1)] = 2_000,
        n_test: Annotated[int, Range(ge=0)] = 2_000,
        data_seed: int = 0,
    ) -> None:
        if max_length < min_length + 2:
            raise ConfigError(
                f"data.max_length: no length is between {min_length} and {max_length}; set it to >= {min_length + 2}"
            )
        longest = 1
        for _ in range(max_depth - 1):
            longest = min(2 + max_args * longest, max_length)
        if longest <= min_length:
            raise ConfigError(
                f"data.min_length: with max_depth={max_depth} and max_args={max_args} the longest expression has "
                f"{longest} tokens, which is not more than {min_length}"
            )
        self.max_depth, self.max_args = max_depth, max_args
        self.min_length, self.max_length = min_length, max_length
        self.sizes, self.data_seed = Sizes(n_train, n_val, n_test), data_seed

    def read(self) -> Corpus:
        seen: set[str] = set()

        def is_new(part: PartName, row: Row) -> bool:
            before = len(seen)
            seen.add(texts_of(row)[0])
            return len(seen) > before

        return fill_parts("listops", self.sizes, self._rows, is_new)

    def _rows(self, part: PartName) -> Iterator[Labelled | None]:
        rng = part_random(self.data_seed, "listops", part)
        while True:
            shape = self._grow(rng)
            yield None if shape is None else _write(shape, rng)

    def _grow(self, rng: Random) -> Shape | None:
        """The shape of a tree, from the root down; None as soon as it is too long, or if it stays too short."""
        draw, choices = rng.random, self.max_args - 1
        shape: Shape = []
        nodes, length = 1, 1
        while nodes:
            if len(shape) == self.max_depth - 1:
                children = [0] * nodes
            else:
                children = [2 + int(draw() * choices) if draw() < NESTING else 0 for _ in range(nodes)]
            shape.append(children)
            nodes = sum(children)
            # An operator's token was counted as its node; its closing bracket and its children come on top.
            length += len(children) - children.count(0) + nodes
            if length >= self.max_length:
                return None
        return shape if length > self.min_length else None


def _write(shape: Shape, rng: Random) -> Labelled:
    """Digits and operators for a shape, from the deepest nodes up."""
    draw = rng.random
    texts: list[str] = []
    values: list[int] = []
    for children in reversed(shape):
        deeper, deeper_values = texts, values
        values = [int(draw() * 10) for _ in children]  # an operator's is replaced by its result
        texts = [DIGITS[value] for value in values]
        start = 0
        for node, count in enumerate(children):
            if count:
                operator, end = OPERATORS[below(rng, len(OPERATORS))], start + count
                texts[node] = f"[{operator} {' '.join(deeper[start:end])} ]"
                values[node] = _apply(operator, deeper_values[start:end])
                start = end
    return Labelled(texts[0], (DIGITS[values[0]],))


def _apply(operator: str, digits: list[int]) -> int:
    if operator == "MIN":
        return min(digits)
    if operator == "MAX":
        return max(digits)
    if operator == "SM":
        return sum(digits) % 10
    ranked, middle = sorted(digits), len(digits) // 2
    return ranked[middle] if len(digits) % 2 else (ranked[middle - 1] + ranked[middle]) // 2
