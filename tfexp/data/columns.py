"""Which columns of a table hold the text, the label, the source and the target, and rows made of them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tfexp.data.corpus import Kind, Labelled, Pair, Row
from tfexp.data.parts import Place, ReadPart
from tfexp.errors import ConfigError, DataError, nearest

Name = str | int
"""A column: its name, or its position from 0 in a file without a header line."""
Columns = Name | list[Name] | None
"""One or several columns, whose texts are joined by a space."""
Record = Mapping[Any, Any]
OF_FILE = "@"  # begins the names of columns that are made of a file's name

KIND_OF_ROLES: dict[tuple[str, ...], Kind] = {
    ("text",): "documents",
    ("text", "label"): "labelled",
    ("source", "target"): "pairs",
}


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What is read from where.

    Args:
        text, label, source, target: Columns; text and label make a labelled text, source and target a
            pair, text alone a document.
        id: A column whose values must differ, in all parts together.
        label_separator: Between several labels of one text.
        lowercase: Whether texts are lower-cased; labels never are.
    """

    text: Columns = None
    label: Columns = None
    source: Columns = None
    target: Columns = None
    id: Name | None = None
    label_separator: str | None = None
    lowercase: bool = False

    def __post_init__(self) -> None:
        given = [f"data.{role}" for role in self._given]
        if tuple(self._given) not in KIND_OF_ROLES:
            raise ConfigError(
                "data.text: name the columns of text and label (labelled texts), of source and target (pairs), "
                f"or of text alone (documents); got {' and '.join(given) or 'none of them'}"
            )
        if self.label_separator == "":
            raise ConfigError("data.label_separator: an empty text separates nothing; write null for one label a row")
        self._check_positions()

    @property
    def kind(self) -> Kind:
        return KIND_OF_ROLES[tuple(self._given)]

    @property
    def by_position(self) -> bool:
        """Whether columns are positions, as in a table without header line."""
        return any(isinstance(name, int) for _, name in self.named())

    def named(self) -> list[tuple[str, Name]]:
        """Every column that is read, with the key that names it."""
        columns = [(role, name) for role, names in self._given.items() for name in names]
        return columns if self.id is None else [*columns, ("id", self.id)]

    def row(self, record: Record, place: Place) -> Row:
        """The example of one record."""
        if self.kind == "documents":
            return self._text("text", record, place)
        if self.kind == "labelled":
            return Labelled(self._text("text", record, place).strip(), self._labels(record, place))
        return Pair(self._text("source", record, place).strip(), self._text("target", record, place).strip())

    def is_blank(self, record: Record, place: Place) -> bool:
        """Whether a record has nothing in any column of an example."""
        values = [_value(record, name, role, place) for role, names in self._given.items() for name in names]
        return all(value in (None, []) or (isinstance(value, str) and not value.strip()) for value in values)

    def more_targets(self, record: Record, place: Place) -> bool:
        """Whether a record has further references besides the first."""
        values = [_value(record, name, "target", place) for name in self._given.get("target", ())]
        return any(isinstance(value, list) and len(value) > 1 for value in values)

    def _check_positions(self) -> None:
        positions = [(role, name) for role, name in self.named() if isinstance(name, int)]
        names = [(role, name) for role, name in self.named() if isinstance(name, str) and not name.startswith(OF_FILE)]
        for role, position in positions:
            if position < 0:
                raise ConfigError(f"data.{role}: positions of columns count from 0, got {position}")
            if names:
                raise ConfigError(
                    f"data.{role}: {position} is a position in a table without header line, "
                    f"but data.{names[0][0]} names the column '{names[0][1]}'; use positions or names for all"
                )

    @cached_property
    def _given(self) -> dict[str, list[Name]]:
        roles = {"text": self.text, "label": self.label, "source": self.source, "target": self.target}
        listed = {role: names if isinstance(names, list) else [names] for role, names in roles.items()}
        return {role: named for role, names in listed.items() if (named := [n for n in names if n is not None])}

    def _text(self, role: str, record: Record, place: Place) -> str:
        pieces = []
        for name in self._given[role]:
            value = _value(record, name, role, place)
            if role == "target" and isinstance(value, list):
                value = value[0] if value else ""  # several references: the first counts
            pieces.append(_as_text(value, role, name, place))
        text = " ".join(piece for piece in pieces if piece)
        return text.lower() if self.lowercase else text

    def _labels(self, record: Record, place: Place) -> tuple[str, ...]:
        names = self._given["label"]
        values = [_value(record, name, "label", place) for name in names]
        if len(values) == 1 and isinstance(values[0], list):
            labels = [_as_name(value, "label", names[0], place) for value in values[0]]
        else:
            joined = " ".join(_as_name(value, "label", name, place) for name, value in zip(names, values, strict=True))
            if self.label_separator is None and not joined.strip():
                raise DataError(f"{place}: the label is empty")
            labels = [joined] if self.label_separator is None else joined.split(self.label_separator)
        return tuple(dict.fromkeys(label.strip() for label in labels if label.strip()))


def collect(
    name: str, records: Iterable[tuple[Place, Record | None]], roles: Roles, seen: dict[str, Place] | None = None
) -> ReadPart:
    """Make rows of records; None is a blank line.

    A record that holds nothing is one, too, of the training part; elsewhere it is a row like any other, so that the
    n-th prediction is of the n-th row.

    Args:
        name: The part.
        records: Each with its place.
        roles: What is read of them.
        seen: The ids of the parts before this one, to which those of this one are added; refuses one that is there.
    """
    part, seen = ReadPart(), {} if seen is None else seen
    for place, record in records:
        if record is None or (name == "train" and roles.is_blank(record, place)):
            part.blank += 1
            continue
        if roles.id is not None:
            _note_id(_as_name(_value(record, roles.id, "id", place), "id", roles.id, place), place, seen)
        part.rows.append(roles.row(record, place))
        part.places.append(place)
        part.more_targets += roles.more_targets(record, place)
    return part


def check_names(roles: Roles, available: Iterable[Name], table: str, hint: str = "") -> None:
    """Refuse a column that a table does not have, before any of its rows is read."""
    there = list(available)
    for role, name in roles.named():
        if name not in there and str(name).partition(".")[0] not in there:
            raise _no_column(role, name, there, table, hint)


def _note_id(value: str, place: Place, seen: dict[str, Place]) -> None:
    if value in seen:
        first = seen[value]
        raise DataError(f"{place}: the id '{value}' is that of {first.table} {first.number} too; ids must differ")
    seen[value] = place


def _value(record: Record, name: Name, role: str, place: Place) -> Any:
    """The value of a column; a dotted name goes into nested ones."""
    if name in record:
        return record[name]
    value: Any = record
    for step in str(name).split("."):
        if not isinstance(value, Mapping) or step not in value:
            raise _no_column(role, name, list(_dotted(record)), f"{place.table} {place.number}")
        value = value[step]
    return value


def _dotted(record: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """Every name that could have been asked for."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _no_column(role: str, name: Name, there: list[Any], table: str, hint: str = "") -> DataError:
    known = nearest(str(name), [str(column) for column in there], label="columns")
    return DataError(f"data.{role}: {table} has no column '{name}'; {known}{hint}")


def _as_text(value: Any, role: str, name: Name, place: Place) -> str:
    """A value as text: a list is joined by spaces, null is nothing; a number or truth value is refused."""
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(_as_text(item, role, name, place) for item in value)
    if isinstance(value, (bool, int, float)):
        held = f"holds {json.dumps(value)}, which is no text; write it as a string"
        raise DataError(f"{place}: data.{role}: column '{name}' {held}")
    if not isinstance(value, str):
        raise DataError(f"{place}: data.{role}: column '{name}' holds a {type(value).__name__}, which is no text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # JSON can write half of a character beyond U+FFFF; no encoding can
            raise DataError(f"{place}: column '{name}' holds half of a surrogate pair, which is no text") from None
    return value


def _as_name(value: Any, role: str, name: Name, place: Place) -> str:
    """A label or an id as text: one number has one name, however it is written: 1 and 1.0 are "1"."""
    if isinstance(value, list):
        return " ".join(_as_name(item, role, name, place) for item in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not value.is_integer():  # nor is NaN, nor infinity
        held = f"holds {json.dumps(value)}, which names nothing; write a text or a whole number"
        raise DataError(f"{place}: data.{role}: column '{name}' {held}")
    return str(int(value)) if isinstance(value, (int, float)) else _as_text(value, role, name, place)
