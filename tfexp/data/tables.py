"""The records of table files: tab-separated, CSV, JSON lines, or lines that a pattern takes apart."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

from tfexp.data.columns import Name, Record, Roles, check_names
from tfexp.data.parts import Place
from tfexp.data.reading import split_lines, stray_return
from tfexp.errors import DataError

Format = Literal["tsv", "csv", "jsonl", "lines"]
FORMAT_OF_SUFFIX: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "lines",
}
LONGEST_CELL = 2**31 - 1  # characters; Python's own limit of 131,072 refuses long documents
NO_HEADER = " For a file without a header line give positions, counted from 0."


def format_of(path: Path) -> Format:
    """The format that a file's name tells, `.gz` aside."""
    suffix = _name_and_suffix(path)[1]
    if suffix.lower() not in FORMAT_OF_SUFFIX:
        choices = ", ".join(get_args(Format))
        raise DataError(f"data.format: the name of {path} does not tell its format; choose one of {choices}")
    return FORMAT_OF_SUFFIX[suffix.lower()]


def records_of(
    path: Path, text: str, kind: Format, key: str, roles: Roles, pattern: re.Pattern[str] | None
) -> Iterator[tuple[Place, Record | None]]:
    """The records of one file, each with its place; None is a blank line.

    Besides its own columns each record has `@file`, `@suffix` and `@folder`, for sets that keep a class in
    a file or folder of its own.

    Args:
        path: The file, for messages and for the columns that are made of its name.
        text: What it holds.
        kind: How to take it apart.
        key: The config key that named it.
        roles: Which columns will be read.
        pattern: For `lines`: its named groups are the columns; without one the line is column 0.
    """
    name, suffix = _name_and_suffix(path)
    of_file = {"@file": name, "@suffix": suffix.removeprefix("."), "@folder": path.absolute().parent.name}
    if kind == "jsonl":
        records = _objects(path, text, key)
    elif kind == "lines":
        records = _matches(path, text, key, pattern)
    else:
        cells = _csv_cells(path, text, key) if kind == "csv" else _tsv_cells(text)
        records = _table(path, cells, key, roles, list(of_file))
    for number, record in records:
        yield Place(key, f"{path}, line", number), None if record is None else {**record, **of_file}


def _table(
    path: Path, cells: Iterable[tuple[int, list[str]]], key: str, roles: Roles, of_file: list[str]
) -> Iterator[tuple[int, Record | None]]:
    columns: list[Name] = []
    first, header = 0, not roles.by_position
    for number, row in cells:
        # A row of separators alone is a row; before the header line it is neither.
        if row in ([], [""]) or (header and not columns and not any(row)):
            yield number, None
            continue
        if not columns:
            first = number
            columns += row if header else range(len(row))
            _check_header(path, columns, key, first)
            check_names(roles, [*columns, *of_file], str(path), NO_HEADER if header else "")
            if header:
                continue
        if len(row) != len(columns):
            raise DataError(
                f"{key}: {path}, line {number}: {len(row)} columns, but line {first} has {len(columns)}; "
                f"give each row the same number, or choose another data.format{stray_return(*row)}"
            )
        yield number, dict(zip(columns, row, strict=True))


def _check_header(path: Path, columns: list[Name], key: str, line: int) -> None:
    for name in columns:
        if columns.count(name) > 1:
            raise DataError(f"{key}: {path}, line {line}: the header line has the column '{name}' twice")


def _tsv_cells(text: str) -> Iterator[tuple[int, list[str]]]:
    """Cells between tabs; a quotation mark is a character like any other."""
    for number, line in enumerate(split_lines(text), start=1):
        yield number, line.split("\t")


def _csv_cells(path: Path, text: str, key: str) -> Iterator[tuple[int, list[str]]]:
    """Cells after RFC 4180, section 2: quoted ones may hold commas, newlines and doubled quotation marks."""
    limit = csv.field_size_limit(LONGEST_CELL)
    number = 1
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        cells = []
        for row in reader:
            cells.append((number, row))
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{key}: {path}: the row that starts in line {number} is no CSV: {error}") from error
    finally:
        csv.field_size_limit(limit)
    yield from cells


def _objects(path: Path, text: str, key: str) -> Iterator[tuple[int, Record | None]]:
    for number, line in enumerate(split_lines(text), start=1):
        if not line.strip():
            yield number, None
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError(f"{key}: {path}, line {number}: not JSON: {error}{stray_return(line)}") from error
        if not isinstance(record, dict):
            raise DataError(f"{key}: {path}, line {number}: expected an object {{...}}, got {line[:40]}")
        yield number, record


def _matches(path: Path, text: str, key: str, pattern: re.Pattern[str] | None) -> Iterator[tuple[int, Record | None]]:
    for number, line in enumerate(split_lines(text), start=1):
        if not line.strip():
            yield number, None
            continue
        if pattern is None:
            yield number, {0: line}
            continue
        match = pattern.fullmatch(line)
        if match is None:
            said = f"does not fit data.pattern as a whole: {line[:60]!r}{stray_return(line)}"
            raise DataError(f"{key}: {path}, line {number}: {said}")
        yield number, match.groupdict("")


def _name_and_suffix(path: Path) -> tuple[str, str]:
    plain = Path(path.name.removesuffix(".gz"))
    return plain.name, plain.suffix
