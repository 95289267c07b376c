"""How rows of ids become a padded batch, for each kind of example and model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from tfexp.batch import IGNORE, Batch
from tfexp.data.encoded import Part
from tfexp.data.tokenization import Special, Tokenizer
from tfexp.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of one part that fit a length.

    Args:
        part: The encoded part.
        tokenizer: Knows the special tokens.
        seq_len: Longest row, special tokens included.
        rows: Which rows of the part these are.
        lengths: Tokens of each of these rows, as it will stand in a batch: of a pair, the longer side.
        n_overlong: Rows that did not fit.
        cut_off: Of each row of the part, how many labels lie beyond `seq_len`: what it is asked and cannot say.

    Raises:
        DataError: Rows of `seq_len` tokens have room for special tokens alone, or for nothing that is predicted.
    """

    shortest: ClassVar[int] = 1  # the least `seq_len`: the special tokens of an example and one of its own

    part: Part
    tokenizer: Tokenizer
    seq_len: int
    rows: np.ndarray = field(init=False)
    lengths: np.ndarray = field(init=False)
    n_overlong: int = field(init=False)
    cut_off: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        if self.seq_len < self.shortest:
            raise DataError(
                f"data.seq_len: an example of this task needs at least {self.shortest} tokens, got {self.seq_len}"
            )
        full, first = self._full_lengths(), self._first_scored()
        if (first >= self.seq_len).all():
            raise DataError(
                f"data.seq_len: in none of {len(full)} examples is one of the first {self.seq_len} tokens to be "
                f"predicted; raise it to more than {int(first.min())}, and model.max_seq_len with it"
            )
        object.__setattr__(self, "rows", np.arange(len(full)))
        object.__setattr__(self, "lengths", np.minimum(full, self.seq_len))
        object.__setattr__(self, "n_overlong", int((full > self.seq_len).sum()))
        object.__setattr__(self, "cut_off", self._cut_off())

    def without_overlong(self) -> "Examples":
        """Only the rows that fit."""
        kept = replace(self)
        rows = np.flatnonzero(self._full_lengths() <= self.seq_len)
        object.__setattr__(kept, "rows", rows)
        object.__setattr__(kept, "lengths", self.lengths[rows])
        return kept

    def batch(self, which: np.ndarray) -> Batch:
        """A batch of these examples, by their places among `rows`."""
        rows = self.rows[which]
        return replace(self._collate(rows), cut_off=torch.from_numpy(self.cut_off[rows]))

    def n_answers_cut(self) -> int:
        """How many of the rows lose a label, or all, to the length."""
        return int((self.cut_off[self.rows] > 0).sum())

    def sides(self) -> tuple[np.ndarray, ...]:
        """Tokens of each of the rows, for each sequence that a row becomes."""
        return (self.lengths,)

    def _full_lengths(self) -> np.ndarray:
        raise NotImplementedError

    def _first_scored(self) -> np.ndarray:
        """Where in each row of the part the first prediction is made."""
        return np.zeros(len(self.part), dtype=np.int64)

    def _cut_off(self) -> np.ndarray:
        """How many labels of each row of the part lie beyond the length."""
        return np.zeros(len(self.part), dtype=np.int64)

    def _collate(self, rows: np.ndarray) -> Batch:
        raise NotImplementedError

    def _special(self, name: Special) -> int:
        index = self.tokenizer.special_id(name)
        if index is None:
            raise ConfigError(f"data.tokenizer.specials: this task needs the special token '{name}'; add it")
        return index


@dataclass(frozen=True, eq=False)
class LabelledExamples(Examples):
    """`<bos> text <eos>` and a class.

    Args:
        n_labels: Of examples with several classes at once, which become rows of zeros and ones; 0 = one class each.
    """

    n_labels: int = 0
    shortest: ClassVar[int] = 3

    def _full_lengths(self) -> np.ndarray:
        return self.part.columns["text"].lengths + 2

    def _collate(self, rows: np.ndarray) -> Batch:
        begin, end = self._special("bos"), self._special("eos")
        texts = [_enclose(begin, self.part.columns["text"][r][: self.seq_len - 2], end) for r in rows]
        ids, mask, n_tokens = pad_rows(texts, self._special("pad"))
        classes = [self.part.columns["labels"][r].astype(np.int64) for r in rows]
        if self.n_labels:
            labels = torch.zeros(len(rows), self.n_labels)
            for row, which in enumerate(classes):
                labels[row, which] = 1.0
        else:
            labels = torch.from_numpy(np.concatenate(classes))
        return Batch(ids, labels, mask, n_tokens=n_tokens)


class PairExamples(Examples):
    """For an encoder-decoder: `source <eos>`; `<bos> target` in, `target <eos>` out."""

    shortest: ClassVar[int] = 2

    def sides(self) -> tuple[np.ndarray, ...]:
        columns = self.part.columns
        return tuple(np.minimum(columns[c].lengths[self.rows] + 1, self.seq_len) for c in ("source", "target"))

    def _full_lengths(self) -> np.ndarray:
        columns = self.part.columns
        return np.maximum(columns["source"].lengths, columns["target"].lengths) + 1

    def _cut_off(self) -> np.ndarray:
        return np.maximum(self.part.columns["target"].lengths + 1 - self.seq_len, 0)

    def _collate(self, rows: np.ndarray) -> Batch:
        begin, end, pad = self._special("bos"), self._special("eos"), self._special("pad")
        source, mask, n_source = self.sources(rows)
        whole = [np.append(self.part.columns["target"][r].astype(np.int64), end)[: self.seq_len] for r in rows]
        inputs, _, n_target = pad_rows([np.concatenate(([begin], t[:-1])) for t in whole], pad)
        labels, _, _ = pad_rows(whole, IGNORE)
        # The decoder needs no mask: padding is on the right, and no real token sees what comes after it.
        at = labels != IGNORE
        return Batch(source, labels, mask, decoder_input_ids=inputs, logits_at=at, n_tokens=n_source + n_target)

    def sources(self, rows: Sequence[int] | np.ndarray) -> tuple[Tensor, Tensor | None, int]:
        """Source ids, their mask, and how many tokens are real."""
        return pad_rows([self.source(row) for row in rows], self._special("pad"))

    def source(self, row: int) -> np.ndarray:
        """`source <eos>` of a row of the part."""
        ids = self.part.columns["source"][row][: self.seq_len - 1].astype(np.int64)
        return np.append(ids, self._special("eos"))


class PromptExamples(Examples):
    """For a decoder: `source <bos> target <eos>`, of which the target and its end are scored."""

    def _full_lengths(self) -> np.ndarray:
        return self.part.columns["source"].lengths + self.part.columns["target"].lengths + 1

    def _first_scored(self) -> np.ndarray:
        return self.part.columns["source"].lengths

    def _cut_off(self) -> np.ndarray:
        n_labels = self.part.columns["target"].lengths + 1
        return np.clip(self._full_lengths() - self.seq_len, 0, n_labels)

    def _collate(self, rows: np.ndarray) -> Batch:
        begin, end = self._special("bos"), self._special("eos")
        inputs, labels = [], []
        for r in rows:
            source, target = (self.part.columns[c][r].astype(np.int64) for c in ("source", "target"))
            inputs.append(np.concatenate((source, [begin], target))[: self.seq_len])
            labels.append(np.concatenate((np.full(len(source), IGNORE), target, [end]))[: self.seq_len])
        return _sparse(inputs, labels, self._special("pad"))


class TaggedExamples(Examples):
    """Tokens, and at some of them what to predict there."""

    def _full_lengths(self) -> np.ndarray:
        return self.part.columns["text"].lengths

    def _first_scored(self) -> np.ndarray:
        rows, places = self._scored()
        rows, at = np.unique(rows, return_index=True)
        first = np.full(len(self.part), np.iinfo(np.int64).max)
        first[rows] = places[at]
        return first

    def _cut_off(self) -> np.ndarray:
        rows, places = self._scored()
        return np.bincount(rows[places >= self.seq_len], minlength=len(self.part))

    def _scored(self) -> tuple[np.ndarray, np.ndarray]:
        """Every prediction that is asked for: its row, and its place there."""
        labels = self.part.columns["labels"]
        places = np.flatnonzero(labels.ids != IGNORE)  # of all rows, end to end
        rows = np.searchsorted(labels.ends, places, side="right")
        return rows, places - (labels.ends - labels.lengths)[rows]

    def _collate(self, rows: np.ndarray) -> Batch:
        text, labels = ([self.part.columns[c][r][: self.seq_len] for r in rows] for c in ("text", "labels"))
        return _sparse(text, labels, self._special("pad"))


def select(examples: Examples, overlong: Literal["truncate", "drop"]) -> Examples:
    """Training examples, without those that are too long where they are to be dropped."""
    kept = examples.without_overlong() if overlong == "drop" else examples
    if not len(kept.rows):
        raise DataError(
            f"data.seq_len: none of the {len(examples.rows)} training examples fits {examples.seq_len} tokens "
            f"(the shortest has {int(examples._full_lengths().min())}); raise it or set data.overlong=truncate"
        )
    return kept


def pad_rows(rows: Sequence[np.ndarray], fill: int) -> tuple[Tensor, Tensor | None, int]:
    """Rows on a common length, padded on the right: ids (B, T), mask (B, T) or None, number of real tokens."""
    lengths = np.array([len(row) for row in rows])
    padded = np.full((len(rows), max(1, int(lengths.max()))), fill, dtype=np.int64)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    full = bool((lengths == padded.shape[1]).all())
    mask = None if full else torch.from_numpy(np.arange(padded.shape[1]) < lengths[:, None])
    return torch.from_numpy(padded), mask, int(lengths.sum())


def _enclose(begin: int, text: np.ndarray, end: int) -> np.ndarray:
    return np.concatenate(([begin], text, [end])).astype(np.int64)


def _sparse(rows: Sequence[np.ndarray], labels: Sequence[np.ndarray], pad: int) -> Batch:
    """A batch of a decoder in which some positions are scored."""
    ids, mask, n_tokens = pad_rows(rows, pad)
    padded, _, _ = pad_rows(labels, IGNORE)
    return Batch(ids, padded, mask, logits_at=padded != IGNORE, n_tokens=n_tokens)
