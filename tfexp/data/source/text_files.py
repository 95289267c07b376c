"""Text files of your own."""

from glob import glob
from pathlib import Path
from typing import Annotated

from tfexp.data.corpus import Corpus, Source, read_text, split_by_name, split_tail
from tfexp.errors import DataError
from tfexp.registry import register
from tfexp.schema import NO_EFFECT, Range


@register("data", "text_files")
class TextFiles(Source):
    """Plain text, a document per file.

    Without a validation file, the last part of a single training file validates; of several files,
    some whole files do, chosen by a hash of their names. Where the files lie changes no run: their
    text does.

    Args:
        train: A path, or several; `*` and `**` are expanded.
        val: The same for validation; null = split `train`.
        test: The same for testing; null = none.
        val_fraction: Share that is split off where `val` is null.
        encoding: Of all files.
    """

    def __init__(
        self,
        *,
        train: Annotated[str | list[str], NO_EFFECT],
        val: Annotated[str | list[str] | None, NO_EFFECT] = None,
        test: Annotated[str | list[str] | None, NO_EFFECT] = None,
        val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1,
        encoding: Annotated[str, NO_EFFECT] = "utf-8",
    ) -> None:
        self.train, self.val, self.test = train, val, test
        self.val_fraction, self.encoding = val_fraction, encoding

    def read(self) -> Corpus:
        named = self._documents(self.train, "data.train")
        if self.val is not None:
            train = tuple(text for _, text in named)
            val = tuple(text for _, text in self._documents(self.val, "data.val"))
        elif len(named) == 1:
            first, last = split_tail(named[0][1], self.val_fraction)
            train, val = (first,), (last,)
        else:
            train, val = split_by_name(named, self.val_fraction)
        if not any(train) or not any(val):
            part = "validate" if any(train) else "train"
            raise DataError(f"data.train: nothing left to {part} on after splitting {len(named)} files; set data.val")
        test = tuple(text for _, text in self._documents(self.test, "data.test")) if self.test else ()
        return Corpus(train, val, test, {"files_read": len(named), "files_kept": len(named)})

    def _documents(self, patterns: str | list[str], key: str) -> list[tuple[str, str]]:
        listed = [patterns] if isinstance(patterns, str) else patterns
        paths = [path for pattern in listed for path in _expand(pattern, key)]
        return [(path.name, read_text(path, key, self.encoding)) for path in paths]


def _expand(pattern: str, key: str) -> list[Path]:
    path = Path(pattern).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        raise DataError(f"{key}: {pattern} is a folder; name files, such as {pattern.rstrip('/')}/*.txt")
    found = sorted(Path(p) for p in glob(str(path), recursive=True) if Path(p).is_file())
    if not found:
        raise DataError(f"{key}: there is no file {pattern} (looked from {Path.cwd()})")
    return found
