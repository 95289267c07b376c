"""What a source yields: examples in parts, a fingerprint of them, and a report of the reading."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, NamedTuple, TypeVar

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
        """SHA-256 over every field of every example of every part, in order.

        Parts, rows and fields each say how long they are and rows their kind, so that no two corpora are the
        same bytes.
        """
        digest = sha256()
        for name, rows in self.parts().items():
            digest.update(f"{name}:{len(rows)};".encode())
            for row in rows:
                fields = [text.encode() for text in texts_of(row)]
                pieces = [b"%d:%b" % (len(field), field) for field in fields]
                digest.update(b"%b:%d;%b" % (KIND_OF_ROW[type(row)].encode(), len(fields), b"".join(pieces)))
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

    def stamp(self) -> str | None:
        """A text that changes whenever what `read` gives may change, so that it need not be read again.

        A source that is a rule gives a constant: its keys and tfexp's code are taken into account anyway.
        None = not known, read every time.
        """
        return None

    def read(self) -> Corpus:
        """All examples; raises DataError naming file and line for what cannot be used."""
        raise NotImplementedError


Example = TypeVar("Example")


def split_tail(text: str, fraction: float) -> tuple[str, str]:
    """Cut off the last `fraction` of a text, in characters, where nanoGPT cuts it."""
    cut = int(len(text) * (1 - fraction))
    return text[:cut], text[cut:]


def in_fraction(name: str, fraction: float) -> bool:
    """Whether a document belongs to the part that holds `fraction` of all, decided by its name alone."""
    return _place(name) < fraction * 2**64


def split_by_name(
    examples: Iterable[tuple[str, Example]], fraction: float
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Split named examples into a training and a validation part, each in the order given.

    An example's part is decided by its name alone, so it stays there when others come or go; only where
    a part would be empty, the example that is nearest to it by the same rule changes sides.
    """
    named = list(examples)
    chosen = {name for name, _ in named if in_fraction(name, fraction)}
    by_place = sorted({name for name, _ in named}, key=_place)
    if len(by_place) > 1 and not chosen:
        chosen = {by_place[0]}
    if len(by_place) > 1 and len(chosen) == len(by_place):
        chosen.remove(by_place[-1])
    train = tuple(example for name, example in named if name not in chosen)
    return train, tuple(example for name, example in named if name in chosen)


def _place(name: str) -> int:
    """Where a name stands among 2^64 places: as good as at random, and the same on every machine."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "little")
