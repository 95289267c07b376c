"""What the Python standard library says of itself."""

import ast
import inspect
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from tfexp.data.corpus import Corpus, Source, split_by_name
from tfexp.errors import DataError
from tfexp.registry import register
from tfexp.schema import Range

TESTS = {"test", "tests", "idle_test", "lib2to3", "site-packages"}
BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@register("data", "python_docs")
class PythonDocs(Source):
    """English text that is always there: docstrings of the standard library and its pages on the language.

    About 2 MB, a document per docstring or page of `help()`. Docstrings are found in the source, and no
    module is imported for them. A text that was there before is left out.

    It differs between Python versions; the fingerprint in the record says which text it was.

    Args:
        val_fraction: Share of the files and pages that validate, chosen by a hash of their names.
    """

    def __init__(self, *, val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1) -> None:
        self.val_fraction = val_fraction

    def read(self) -> Corpus:
        from pydoc_data.topics import topics

        root = Path(sysconfig.get_paths()["stdlib"])
        paths = list(_module_files(root))
        read = {path.relative_to(root).as_posix(): _docstrings(path) for path in paths}
        named = [(name, text) for name, texts in read.items() for text in texts or ()]
        named += [(f"topic {name}", inspect.cleandoc(page)) for name, page in sorted(topics.items())]
        first: dict[str, str] = {}
        for name, text in named:
            first.setdefault(text, name)
        documents = [(name, text) for text, name in first.items()]
        train, val = split_by_name(documents, self.val_fraction)
        if not train or not val:
            raise DataError(f"data=python_docs: found {len(documents)} documents under {root}; too few to split")
        report = {
            "files_read": len(paths),
            "files_not_parsed": sum(texts is None for texts in read.values()),
            "documents_read": len(named),
            "documents_kept": len(documents),
        }
        return Corpus(train, val, report=report)


def _module_files(root: Path) -> Iterator[Path]:
    """The source files of the modules that the interpreter lists as its library, less their tests."""
    for name in sorted(sys.stdlib_module_names):
        yield from (path for path in (root / f"{name}.py",) if path.is_file())
        for path in sorted((root / name).rglob("*.py")):
            if TESTS.isdisjoint(path.relative_to(root).parts):
                yield path


def _docstrings(path: Path) -> list[str] | None:
    """Docstrings of one file, in its order; None if it is no Python of this version."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the library's own escapes
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    found = [ast.get_docstring(node) for node in _statements(tree) if isinstance(node, DOCUMENTED)]
    # A docstring may write half of a surrogate pair, which is no text.
    return [text for text in found if text and text == text.encode(errors="ignore").decode()]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A module and every statement in it; `ast.walk` would also go through each expression, in twice the time."""
    yield node
    for block in BLOCKS:
        for child in getattr(node, block, ()):
            yield from _statements(child)
