"""Labelled texts, pairs or documents in tables of your own."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from tfexp.data.columns import OF_FILE, Columns, Name, Record, Roles, collect
from tfexp.data.corpus import Corpus, Source
from tfexp.data.parts import Place, ReadPart, assemble
from tfexp.data.reading import find_files, read_text, stamp_of_files
from tfexp.data.tables import Format, format_of, records_of
from tfexp.errors import ConfigError, nearest
from tfexp.registry import register
from tfexp.schema import NO_EFFECT, Range


@register("data", "table_files")
class TableFiles(Source):
    r"""Rows of .tsv, .csv or .jsonl files, or lines that a pattern takes apart; each may be gzipped.

    Which columns are named decides what an example is: `text` and `label` a labelled text, `source` and
    `target` a pair, `text` alone a document. A column is the name in the header line, the JSON key (dotted
    if nested) or the group of the pattern; in a table without header line, its position from 0. Further
    columns: `@file`, `@suffix` and `@folder`, the name of the row's file, its last part, its folder.

        TREC             pattern='(?P<label>\w+):\S+ (?P<text>.+)' encoding=latin-1 text=text label=label
        SST              pattern='(?P<label>\d) (?P<text>.+)' text=text label=label
        AG News          format=csv text=[1,2] label=0
        SMS Spam         format=tsv text=1 label=0
        SCAN             pattern='IN: (?P<source>.+) OUT: (?P<target>.+)' source=source target=target
        SciTLDR          format=jsonl source=source target=target
        Rotten Tomatoes  train=[rt-polarity.neg,rt-polarity.pos] format=lines text=0 label=@suffix encoding=latin-1

    A text is a string: a number in JSON is none, and null is an empty one. A label may be a number, and 1.0 is 1.
    Texts of labelled rows and pairs lose white space at their ends. A row without text, source or target does
    not train, and the record counts it. Without `val`, rows validate by the hash of their text.

    Args:
        train: A path, or several; `*` and `**` are expanded.
        val: The same for validation; null = split `train`.
        test: The same for testing; null = none.
        val_fraction: Share that is split off where `val` is null.
        encoding: Of all files.
        format: auto = by the name's last part, or lines if there is a pattern.
        pattern: Regular expression with named groups that fits each whole line; null = the line is column 0.
        text: Column of the text, or several that are joined by a space.
        label: Column of the label; a JSON list is several labels.
        source: Column of what is given; a JSON list is joined by spaces.
        target: Column of what it becomes; of a JSON list, which holds several references, the first counts.
        id: Column whose values must differ, in all parts together; null = not checked.
        label_separator: Between several labels in one column; null = one label a row.
        lowercase: Whether texts are lower-cased.

    Source: RFC 4180, section 2, for csv, as Python's csv module reads it; tsv has no quoting at all.
    """

    def __init__(
        self,
        *,
        train: Annotated[str | list[str], NO_EFFECT],
        val: Annotated[str | list[str] | None, NO_EFFECT] = None,
        test: Annotated[str | list[str] | None, NO_EFFECT] = None,
        val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1,
        encoding: Annotated[str, NO_EFFECT] = "utf-8",
        format: Literal["auto", "tsv", "csv", "jsonl", "lines"] = "auto",
        pattern: str | None = None,
        text: Columns = None,
        label: Columns = None,
        source: Columns = None,
        target: Columns = None,
        id: Annotated[Name | None, NO_EFFECT] = None,
        label_separator: str | None = None,
        lowercase: bool = False,
    ) -> None:
        self.train, self.val, self.test = train, val, test
        self.val_fraction, self.encoding = val_fraction, encoding
        self.format: Literal[Format, "auto"] = format
        self.roles = Roles(
            text=text,
            label=label,
            source=source,
            target=target,
            id=id,
            label_separator=label_separator,
            lowercase=lowercase,
        )
        self.kind = self.roles.kind
        self.pattern = None if pattern is None else _compiled(pattern, format, self.roles)

    def stamp(self) -> str | None:
        return stamp_of_files(self.train, self.val, self.test)

    def read(self) -> Corpus:
        seen: dict[str, Place] = {}
        train = self._part("train", self.train, seen)
        val = None if self.val is None else self._part("val", self.val, seen)
        test = None if self.test is None else self._part("test", self.test, seen)
        return assemble(train, val, test, self.val_fraction)

    def _part(self, name: str, patterns: str | list[str], seen: dict[str, Place]) -> ReadPart:
        return collect(name, self._records(f"data.{name}", patterns), self.roles, seen)

    def _records(self, key: str, patterns: str | list[str]) -> Iterator[tuple[Place, Record | None]]:
        for path in find_files(patterns, key):
            kind = self._format(path)
            yield from records_of(path, read_text(path, key, self.encoding), kind, key, self.roles, self.pattern)

    def _format(self, path: Path) -> Format:
        if self.format != "auto":
            return self.format
        return format_of(path) if self.pattern is None else "lines"


def _compiled(pattern: str, format: str, roles: Roles) -> re.Pattern[str]:
    if format not in ("auto", "lines"):
        raise ConfigError(f"data.pattern: takes lines apart, but data.format is {format}; set data.format=lines")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"data.pattern: no regular expression: {error}; got {pattern!r}") from error
    for role, name in roles.named():
        if name not in compiled.groupindex and not str(name).startswith(OF_FILE):
            hint = nearest(str(name), compiled.groupindex, label="groups")
            raise ConfigError(f"data.{role}: the pattern has no group '{name}'; {hint}")
    return compiled
