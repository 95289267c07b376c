"""What a source yields: examples in parts, a fingerprint of them, and a report of the reading."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from tfexp.errors import DataError

Kind = Literal["documents", "labelled", "pairs", "tagged"]
"""What one example of a source is: a text, a text with labels, two texts, a text with a label per token."""


class Labelled(NamedTuple):
    """A text and its class, or its classes."""

    text: str
    labels: tuple[str, ...]


class Pair(NamedTuple):
    """A text and what it becomes: a translation, a summary, an answer."""

    source: str
    target: str


class Tagged(NamedTuple):
    """Tokens between spaces, and for each token the one to predict there; `UNSCORED` = none.

    `Tagged("a 1 b 2 a", "_ _ _ _ 1")`: after the second `a`, predict `1`.
    """

    text: str
    labels: str


UNSCORED = "_"
Row = str | Labelled | Pair | Tagged
KIND_OF_ROW: dict[type, Kind] = {str: "documents", Labelled: "labelled", Pair: "pairs", Tagged: "tagged"}


@dataclass(frozen=True)
class Corpus:
    """Examples of one kind, split.

    Args:
        train, val, test: Examples of each part; `test` may be empty.
        report: What was read, kept and dropped, by name.
    """

    train: tuple[Row, ...]
    val: tuple[Row, ...]
    test: tuple[Row, ...] = ()
    report: dict[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        return KIND_OF_ROW[type(self.train[0])]

    def fingerprint(self) -> str:
        """SHA-256 over every field of every example of every part, in order."""
        digest = sha256()
        for name, rows in self.parts().items():
            digest.update(f"{name}:{len(rows)};".encode())
            for row in rows:
                for text in texts_of(row):
                    data = text.encode()
                    digest.update(f"{len(data)}:".encode() + data)
        return digest.hexdigest()

    def parts(self) -> dict[str, tuple[Row, ...]]:
        return {"train": self.train, "val": self.val, "test": self.test}


def texts_of(row: Row) -> tuple[str, ...]:
    """Every text that an example holds."""
    if isinstance(row, str):
        return (row,)
    if isinstance(row, Labelled):
        return (row.text, *row.labels)
    return tuple(row)


class Source:
    """The contract of the slot `data`: its constructor is cheap, `read` does the work.

    `kind` is known before anything is read, so that a task can refuse what it cannot use.
    """

    kind: Kind = "documents"

    def read(self) -> Corpus:
        """All examples; raises DataError naming file and line for what cannot be used."""
        raise NotImplementedError


def read_text(path: Path, key: str, encoding: str = "utf-8") -> str:
    """Read one text file, or say which file, line and byte cannot be read.

    Windows line ends become newlines. Nothing is ever replaced silently.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{key}: cannot read {path}: {error.strerror or error}") from error
    if not data.strip():
        raise DataError(f"{key}: {path} is empty")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{key}: {path}, line {line}: byte 0x{data[error.start]:02x} is not {encoding}; "
            "convert the file or set data.encoding"
        ) from error
    except LookupError as error:
        raise DataError(f"data.encoding: Python knows no encoding '{encoding}'") from error
    return text.replace("\r\n", "\n")


def split_tail(text: str, fraction: float) -> tuple[str, str]:
    """Cut off the last `fraction` of a text, in characters, where nanoGPT cuts it."""
    cut = int(len(text) * (1 - fraction))
    return text[:cut], text[cut:]


def in_fraction(name: str, fraction: float) -> bool:
    """Whether a document belongs to the part that holds `fraction` of all, decided by its name alone."""
    return _place(name) < fraction * 2**64


def split_by_name(documents: Iterable[tuple[str, str]], fraction: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split named documents into a training and a validation part, each in the order given.

    A document's part is decided by its name alone, so it stays there when others come or go; only where
    a part would be empty, the document that is nearest to it by the same rule changes sides.
    """
    named = list(documents)
    chosen = {name for name, _ in named if in_fraction(name, fraction)}
    by_place = sorted({name for name, _ in named}, key=_place)
    if len(by_place) > 1 and not chosen:
        chosen = {by_place[0]}
    if len(by_place) > 1 and len(chosen) == len(by_place):
        chosen.remove(by_place[-1])
    train = tuple(text for name, text in named if name not in chosen)
    return train, tuple(text for name, text in named if name in chosen)


def _place(name: str) -> int:
    """Where a name stands among 2^64 places: as good as at random, and the same on every machine."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "little")
