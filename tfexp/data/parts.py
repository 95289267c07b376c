"""From rows as they were read to a corpus: empty rows, splitting off, labels, what occurs twice."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tfexp.data.corpus import Corpus, Labelled, Row, split_by_name, texts_of
from tfexp.errors import DataError, nearest


class Place(NamedTuple):
    """Where a row stands; printed as `data.train: a.tsv, line 3`."""

    key: str
    table: str
    number: int

    def __str__(self) -> str:
        return f"{self.key}: {self.table} {self.number}"


@dataclass
class ReadPart:
    """The rows of one part, in the order read.

    Args:
        rows: Examples, also those without text.
        places: Where each of them stands.
        blank: Lines that hold nothing at all and are no rows.
        more_targets: Rows with further references; the first counts.
    """

    rows: list[Row] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    blank: int = 0
    more_targets: int = 0


def assemble(train: ReadPart, val: ReadPart | None, test: ReadPart | None, val_fraction: float) -> Corpus:
    """Make a corpus of what was read.

    - A row whose text (or source, or target) is empty is dropped from the training part. In the other parts
      it stays, so that the n-th prediction is of the n-th row; a document without text is dropped everywhere.
    - Without `val`, a row validates by the hash of its text, so rows of one text never stand on both sides.
      If a label would be missing in the training part, all rows of its text go back there.
    - A label that the training part does not have is refused.

    Report, of the parts as they were read, before anything is split off: `<part>_rows_read`, `_kept` and
    `_empty`; `train_rows_duplicate`, exact repeats, which stay; `val_rows_in_train` and `test_rows_in_train`,
    which stay too.
    """
    report: dict[str, int] = {}
    train_rows, _ = _kept("train", train, report)
    if not train_rows:
        raise DataError(f"data.train: none of {report['train_rows_read']} rows holds an example")
    report["train_rows_duplicate"] = len(train_rows) - len(set(train_rows))
    val_rows = [] if val is None else _checked("val", val, train_rows, report)
    test_rows = [] if test is None else _checked("test", test, train_rows, report)
    if val is None:
        train_rows, val_rows = _split_off(train_rows, val_fraction)
        report["val_rows_split_off"] = len(val_rows)
    return Corpus(tuple(train_rows), tuple(val_rows), tuple(test_rows), report)


def _kept(name: str, part: ReadPart, report: dict[str, int]) -> tuple[list[Row], list[Place]]:
    empty = [_is_empty(row) for row in part.rows]
    kept = [i for i, row in enumerate(part.rows) if not empty[i] or (name != "train" and not isinstance(row, str))]
    report[f"{name}_rows_read"] = len(part.rows) + part.blank
    report[f"{name}_rows_kept"] = len(kept)
    report[f"{name}_rows_empty"] = sum(empty) + part.blank
    if part.more_targets:
        report[f"{name}_rows_with_more_targets"] = part.more_targets
    return [part.rows[i] for i in kept], [part.places[i] for i in kept]


def _checked(name: str, part: ReadPart, train: Sequence[Row], report: dict[str, int]) -> list[Row]:
    """The rows of a part of its own; refuses an empty one and labels that were never trained."""
    rows, places = _kept(name, part, report)
    if not rows:
        raise DataError(f"data.{name}: none of {report[f'{name}_rows_read']} rows holds an example")
    trained = set(train)
    report[f"{name}_rows_in_train"] = sum(row in trained for row in rows)
    known = {label for row in train for label in _labels(row)}
    for row, place in zip(rows, places, strict=True):
        for label in _labels(row):
            if label not in known:
                hint = nearest(label, known, label="labels there")
                raise DataError(f"{place}: the label '{label}' is not in the training part; {hint}")
    return rows


def _split_off(rows: Sequence[Row], fraction: float) -> tuple[list[Row], list[Row]]:
    train, val = split_by_name(((_name(row), row) for row in rows), fraction)
    known = {label for row in train for label in _labels(row)}
    going_back = {_name(row) for row in val if not known.issuperset(_labels(row))}
    strays = [row for row in val if _name(row) in going_back]
    val = [row for row in val if _name(row) not in going_back]
    if not train or not val:
        raise DataError(f"data.train: {len(rows)} rows are too few to split off some that validate; set data.val")
    return [*train, *strays], val


def _name(row: Row) -> str:
    """What decides the part of a row: its text, not its label."""
    return row.text if isinstance(row, Labelled) else "\n".join(texts_of(row))


def _is_empty(row: Row) -> bool:
    return not row.text.strip() if isinstance(row, Labelled) else not all(text.strip() for text in texts_of(row))


def _labels(row: Row) -> tuple[str, ...]:
    return row.labels if isinstance(row, Labelled) else ()
