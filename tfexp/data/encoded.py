"""Examples as arrays: rows of ids end to end, memory-mapped, and how a corpus becomes them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from tfexp.batch import IGNORE
from tfexp.data.corpus import UNSCORED, Corpus, Kind, Labelled, Pair, Row, Tagged
from tfexp.data.tokenization import Tokenizer, TokenizerRecipe
from tfexp.errors import DataError, nearest


@dataclass(frozen=True)
class Ragged:
    """Rows of integers of unequal length.

    Args:
        ids: All of them, end to end.
        ends: (n,) int64: where each row ends.
    """

    ids: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> np.ndarray:
        if not 0 <= row < len(self.ends):
            raise IndexError(row)
        return self.ids[self.ends[row - 1] if row else 0 : self.ends[row]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.ends, prepend=0)


@dataclass(frozen=True)
class Part:
    """One encoded part of a corpus.

    Args:
        kind: What an example is.
        columns: `text`, `labels`, `source`, `target`, as its kind has them.
        n_bytes: Length of its documents in UTF-8; 0 for other kinds.
        texts: Of pairs to evaluate on: (source, target) as they were written.
    """

    kind: Kind
    columns: dict[str, Ragged]
    n_bytes: int = 0
    texts: tuple[Pair, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def ids(self) -> np.ndarray:
        """All tokens of documents, end to end."""
        return self.columns["text"].ids


def training_texts(rows: Sequence[Row]) -> list[str]:
    """What a tokenizer is trained on."""
    texts: list[str] = []
    for row in rows:
        if isinstance(row, str):
            texts.append(row)
        elif isinstance(row, Labelled):
            texts.append(row.text)
        elif isinstance(row, Pair):
            texts += row
        else:
            texts += [row.text, " ".join(word for word in row.labels.split(" ") if word != UNSCORED)]
    return texts


def labels_of(corpus: Corpus) -> tuple[str, ...]:
    """The classes of the training part, in order: by value if all are whole numbers, else as text."""
    labels = {label for row in corpus.train if isinstance(row, Labelled) for label in row.labels}
    if all(label.removeprefix("-").isdecimal() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))  # 1 and 01 are two labels of one value
    return tuple(sorted(labels))


def encode_part(
    name: str, rows: Sequence[Any], recipe: TokenizerRecipe, tokenizer: Tokenizer, labels: Sequence[str]
) -> Part:
    """Encode the examples of one part.

    Args:
        name: `train`, `val` or `test`.
        rows: Its examples, all of one kind.
        recipe: Knows a fast way to encode.
        tokenizer: Trained.
        labels: The classes of the training part.
    """

    def encode(texts: Sequence[str]) -> Ragged:
        return ragged(recipe.encode(tokenizer, texts), tokenizer.vocab_size)

    first = rows[0]
    if isinstance(first, str):
        n_bytes = sum(len(text.encode()) for text in rows)
        return Part("documents", {"text": _with_end(recipe.encode(tokenizer, rows), tokenizer)}, n_bytes)
    if isinstance(first, Labelled):
        columns = {"text": encode([r.text for r in rows]), "labels": _class_ids(name, rows, labels)}
        return Part("labelled", columns)
    if isinstance(first, Pair):
        columns = {"source": encode([r.source for r in rows]), "target": encode([r.target for r in rows])}
        return Part("pairs", columns, texts=() if name == "train" else tuple(rows))
    text = encode([r.text for r in rows])
    return Part("tagged", {"text": text, "labels": _tag_ids(name, rows, text, tokenizer)})


def count_part(name: str, part: Part, tokenizer: Tokenizer) -> dict[str, float]:
    """What the record says of an encoded part."""
    of_text = [c for column, c in part.columns.items() if column != "labels"]
    n_tokens = sum(len(c.ids) for c in of_text)
    unknown = tokenizer.special_id("unk")
    n_unknown = 0 if unknown is None else sum(int((c.ids == unknown).sum()) for c in of_text)
    examples = "documents" if part.kind == "documents" else "examples"
    counts: dict[str, float] = {f"{name}_{examples}": len(part), f"{name}_tokens": n_tokens}
    if part.n_bytes:
        counts[f"{name}_bytes"] = part.n_bytes
    counts[f"{name}_unknown_rate"] = n_unknown / max(1, n_tokens)
    return counts


def ragged(rows: Sequence[np.ndarray], vocab_size: int) -> Ragged:
    """Rows end to end, in the smallest type that holds the vocabulary."""
    kind = np.uint16 if vocab_size <= 2**16 else np.uint32
    ids = np.concatenate(rows) if rows else np.zeros(0)
    return Ragged(ids.astype(kind), np.cumsum([len(row) for row in rows], dtype=np.int64))


def _with_end(encoded: Sequence[np.ndarray], tokenizer: Tokenizer) -> Ragged:
    """Documents, each with the end-of-sequence token after it if there is one."""
    end = tokenizer.special_id("eos")
    if end is None:
        return ragged(encoded, tokenizer.vocab_size)
    return ragged([np.append(ids, end) for ids in encoded], tokenizer.vocab_size)


def _class_ids(name: str, rows: Iterable[Labelled], labels: Sequence[str]) -> Ragged:
    index = {label: i for i, label in enumerate(labels)}
    encoded = []
    for number, row in enumerate(rows, start=1):
        for label in row.labels:
            if label not in index:
                raise DataError(
                    f"data.{name}: example {number} has the label '{label}', which the training part has not; "
                    f"{nearest(label, labels)}"
                )
        encoded.append(np.array([index[label] for label in row.labels], dtype=np.int64))
    return ragged(encoded, len(labels))


def _tag_ids(name: str, rows: Sequence[Tagged], text: Ragged, tokenizer: Tokenizer) -> Ragged:
    words = [row.labels.split(" ") for row in rows]
    ids = {UNSCORED: IGNORE}
    for word in sorted(set(chain.from_iterable(words)) - {UNSCORED}):
        pieces = tokenizer.encode(word)
        if len(pieces) != 1:
            raise DataError(f"data.{name}: the label '{word}' is {len(pieces)} tokens; use data/tokenizer=word")
        ids[word] = pieces[0]
    n_labels = np.array([len(row) for row in words])
    if (wrong := np.flatnonzero(n_labels != text.lengths)).size:
        row = int(wrong[0])
        raise DataError(
            f"data.{name}: example {row + 1} has {text.lengths[row]} tokens and {n_labels[row]} labels; "
            "use data/tokenizer=word"
        )
    flat = np.array([ids[word] for word in chain.from_iterable(words)], dtype=np.int32)
    return Ragged(flat, text.ends)
