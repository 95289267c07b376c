"""Pairs in two files: line i of one becomes line i of the other."""

from typing import Annotated

from tfexp.data.corpus import Corpus, Pair, Source
from tfexp.data.parts import Place, ReadPart, assemble
from tfexp.data.reading import find_files, read_text, split_lines, stamp_of_files
from tfexp.errors import ConfigError, DataError
from tfexp.registry import register
from tfexp.schema import NO_EFFECT, Range


@register("data", "parallel_files")
class ParallelFiles(Source):
    """Two plain text files, each perhaps gzipped, in which lines of one number belong together.

    Lines end at newlines only, and lose white space at their ends. Pairs of which a side is empty do not
    train; the record counts them. In `val` and `test` they stay, so that outputs keep their line.

    Args:
        train: Source file and target file.
        val: The same for validation; null = split `train` by the hash of each pair.
        test: The same for testing; null = none.
        val_fraction: Share of the pairs that is split off where `val` is null.
        encoding: Of all files.
    """

    kind = "pairs"

    def __init__(
        self,
        *,
        train: Annotated[list[str], NO_EFFECT],
        val: Annotated[list[str] | None, NO_EFFECT] = None,
        test: Annotated[list[str] | None, NO_EFFECT] = None,
        val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1,
        encoding: Annotated[str, NO_EFFECT] = "utf-8",
    ) -> None:
        self.train, self.val, self.test = train, val, test
        self.val_fraction, self.encoding = val_fraction, encoding
        for key, paths in (("train", train), ("val", val), ("test", test)):
            if paths is not None and len(paths) != 2:
                raise ConfigError(f"data.{key}: expected [source file, target file], got {len(paths)} paths")

    def stamp(self) -> str | None:
        return stamp_of_files(self.train, self.val, self.test)

    def read(self) -> Corpus:
        train = self._part("data.train", self.train)
        val = None if self.val is None else self._part("data.val", self.val)
        test = None if self.test is None else self._part("data.test", self.test)
        return assemble(train, val, test, self.val_fraction)

    def _part(self, key: str, paths: list[str]) -> ReadPart:
        (source_path, sources), (target_path, targets) = (self._lines(key, path) for path in paths)
        if len(sources) != len(targets):
            raise DataError(
                f"{key}: {source_path} has {len(sources)} lines, {target_path} has {len(targets)}; "
                "line i of one must belong to line i of the other"
            )
        rows = [Pair(source.strip(), target.strip()) for source, target in zip(sources, targets, strict=True)]
        places = [Place(key, f"{source_path}, line", number) for number in range(1, len(rows) + 1)]
        return ReadPart(list(rows), places)

    def _lines(self, key: str, path: str) -> tuple[str, list[str]]:
        found = find_files(path, key)
        if len(found) > 1:
            raise DataError(f"{key}: {path} names {len(found)} files; name one, since lines of two files are paired")
        return str(found[0]), split_lines(read_text(found[0], key, self.encoding))
