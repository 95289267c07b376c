"""Text files of your own."""

from collections.abc import Iterable
from itertools import groupby
from typing import Annotated, Literal

from tfexp.data.corpus import Corpus, Source, split_by_name, split_tail
from tfexp.data.reading import find_files, read_text, split_lines, stamp_of_files
from tfexp.errors import DataError
from tfexp.registry import register
from tfexp.schema import NO_EFFECT, Range

Unit = Literal["file", "line", "paragraph"]


@register("data", "text_files")
class TextFiles(Source):
    """Plain text, a document per file, line or paragraph; files may be gzipped.

    Without a validation file, the last part of a single training file validates; of several files,
    some whole files do, chosen by a hash of their names. Where the files lie changes no run: their
    text does. A file that is named twice is read once. The record counts training documents that are
    repeated, and documents of the other parts that are in the training part too; all of them stay.

    Args:
        train: A path, or several; `*` and `**` are expanded.
        val: The same for validation; null = split `train`.
        test: The same for testing; null = none.
        val_fraction: Share that is split off where `val` is null.
        encoding: Of all files.
        unit: What one document is; lines without text are none, and paragraphs stand between them.
    """

    def __init__(
        self,
        *,
        train: Annotated[str | list[str], NO_EFFECT],
        val: Annotated[str | list[str] | None, NO_EFFECT] = None,
        test: Annotated[str | list[str] | None, NO_EFFECT] = None,
        val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1,
        encoding: Annotated[str, NO_EFFECT] = "utf-8",
        unit: Unit = "file",
    ) -> None:
        self.train, self.val, self.test = train, val, test
        self.val_fraction, self.encoding = val_fraction, encoding
        self.unit: Unit = unit

    def stamp(self) -> str | None:
        return stamp_of_files(self.train, self.val, self.test)

    def read(self) -> Corpus:
        files = self._files(self.train, "data.train")
        if self.val is not None:
            train = self._documents(text for _, text in files)
            val = self._documents(text for _, text in self._files(self.val, "data.val"))
        elif len(files) == 1:
            train, val = self._split_one(files[0][1])
        else:
            first, second = split_by_name(files, self.val_fraction)
            train, val = self._documents(first), self._documents(second)
        if not any(train) or not any(val):
            part = "validate" if any(train) else "train"
            raise DataError(f"data.train: nothing left to {part} on after splitting {len(files)} files; set data.val")
        test = self._documents(text for _, text in self._files(self.test, "data.test")) if self.test else ()
        trained = set(train)
        report = {"files_read": len(files), "files_kept": len(files), "train_rows_duplicate": len(train) - len(trained)}
        for part, documents in {"val": val, "test": test}.items():
            if documents:
                report[f"{part}_rows_in_train"] = sum(document in trained for document in documents)
        if self.unit == "line":
            report["lines_empty"] = sum(not line.strip() for _, text in files for line in split_lines(text))
        return Corpus(train, val, test, report)

    def _split_one(self, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.unit == "file":
            first, last = split_tail(text, self.val_fraction)
            return (first,), (last,)
        documents = documents_in(text, self.unit)
        cut = max(1, min(int(len(documents) * (1 - self.val_fraction)), len(documents) - 1))
        return tuple(documents[:cut]), tuple(documents[cut:])

    def _documents(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(document for text in texts for document in documents_in(text, self.unit))

    def _files(self, patterns: str | list[str], key: str) -> list[tuple[str, str]]:
        return [(path.name, read_text(path, key, self.encoding)) for path in find_files(patterns, key)]


def documents_in(text: str, unit: Unit) -> list[str]:
    """The documents of one file; line breaks inside a paragraph stay."""
    if unit == "file":
        return [text]
    lines = split_lines(text)
    if unit == "line":
        return [line for line in lines if line.strip()]
    return ["\n".join(group) for has_text, group in groupby(lines, lambda line: bool(line.strip())) if has_text]
