"""The source code of the running interpreter's standard library."""

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from tfexp.data.corpus import Corpus, Source, split_by_name
from tfexp.errors import DataError
from tfexp.registry import register
from tfexp.schema import Range

LEFT_OUT = ("site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "lib2to3", "turtledemo")


@register("data", "python_stdlib")
class PythonStdlib(Source):
    """Real text that is always there: about 11 MB of Python, a document per file.

    It differs between Python versions; the fingerprint in the record says which text it was.

    Args:
        val_fraction: Share of the files that validate, chosen by a hash of their names.
    """

    def __init__(self, *, val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1) -> None:
        self.val_fraction = val_fraction

    def read(self) -> Corpus:
        root = Path(sysconfig.get_paths()["stdlib"])
        paths = sorted(_source_files(root))
        documents, unreadable = [], 0
        for path in paths:
            try:
                text = path.read_bytes().decode("utf-8").replace("\r\n", "\n")
            except (OSError, UnicodeDecodeError):
                unreadable += 1
                continue
            if text.strip():
                documents.append((path.relative_to(root).as_posix(), text))
        train, val = split_by_name(documents, self.val_fraction)
        if not train or not val:
            raise DataError(f"data=python_stdlib: found {len(documents)} source files under {root}; too few to split")
        report = {"files_read": len(paths), "files_kept": len(documents), "files_not_utf8": unreadable}
        return Corpus(train, val, report=report)


def _source_files(root: Path) -> Iterator[Path]:
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in LEFT_OUT]
        yield from (Path(folder, name) for name in files if name.endswith(".py"))
