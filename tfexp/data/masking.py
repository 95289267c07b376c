"""Which tokens a masked language model must recover, and what it reads in their place."""

from dataclasses import dataclass

import numpy as np
import torch

from tfexp.batch import IGNORE, Batch
from tfexp.data.blocks import TrainBlocks, inside_documents
from tfexp.errors import DataError
from tfexp.streams import numpy_stream

EVAL_SEED = 0  # masks of an evaluation are the same for every seed and variant


@dataclass(frozen=True)
class Masking:
    """Choose tokens, and replace most of them.

    Of each row, `rate` of its tokens are chosen: at least one, never a special one. Of these,
    `mask_share` become the mask token, `random_share` a random token, and the rest stay.

    Args:
        rate: Share of tokens to recover, in expectation exact for each row.
        mask_share, random_share: Shares of the chosen ones.
        mask_id: The mask token.
        special_ids: Never chosen, never put in as random tokens.
        vocab_size: Of the tokenizer.
        words: (2, V) bool: a token begins a word, a token stands alone; None = tokens are chosen one by
            one, else whole words are, up to the one in which the share is reached.
        boundary: The token that begins a document, if attention is to stay inside one; None = across.
    """

    rate: float
    mask_share: float
    random_share: float
    mask_id: int
    special_ids: np.ndarray
    vocab_size: int
    words: np.ndarray | None = None
    boundary: int | None = None

    def batch(self, rows: np.ndarray, streams: list[np.random.Generator]) -> Batch:
        """Rows (B, T), -100 where nothing stands; one stream for all, or one for each row."""
        draws = [s.random((len(rows) // len(streams), 4, rows.shape[1])) for s in streams]
        choice, kind, which, rounding = np.concatenate(draws).transpose(1, 0, 2)  # each (B, T)
        valid = (rows != IGNORE) & ~np.isin(rows, self.special_ids)
        chosen = self._choose(rows, valid, choice, rounding[:, :1])
        labels = np.where(chosen, rows, IGNORE)
        ordinary = np.setdiff1d(np.arange(self.vocab_size), self.special_ids)
        inputs = np.where(chosen & (kind < self.mask_share), self.mask_id, rows)
        random = chosen & (kind >= self.mask_share) & (kind < self.mask_share + self.random_share)
        inputs = np.where(random, ordinary[(which * len(ordinary)).astype(np.int64)], inputs)
        return self.hidden(rows, inputs, labels)

    def hidden(self, rows: np.ndarray, inputs: np.ndarray, labels: np.ndarray) -> Batch:
        """Rows as they were, as they are read, and what is to be recovered: each (B, T), -100 = nothing."""
        real = torch.from_numpy(rows != IGNORE)
        mask = None if bool(real.all()) else real
        ids, targets = torch.from_numpy(inputs.astype(np.int64)), torch.from_numpy(labels.astype(np.int64))
        positions, documents = inside_documents(torch.from_numpy(rows.astype(np.int64)), self.boundary)
        return Batch(
            ids.clamp(min=0),
            targets,
            mask,
            position_ids=positions,
            document_ids=documents,
            logits_at=targets != IGNORE,
            n_tokens=int(real.sum()),
        )

    def _choose(self, rows: np.ndarray, valid: np.ndarray, draw: np.ndarray, rounding: np.ndarray) -> np.ndarray:
        if self.rate == 0:
            return np.zeros_like(valid)
        n_valid = valid.sum(axis=1, keepdims=True)
        # A row without a target would teach nothing; and a sum just below a whole number may round up to it.
        wanted = np.floor(self.rate * n_valid + rounding).clip(1, np.maximum(n_valid, 1))
        if self.words is not None:
            # All tokens of a word draw the same number, that of its first token.
            tokens = np.maximum(rows, 0)
            begins = self.words[0][tokens] | self.words[1][tokens]
            begins[:, 1:] |= self.words[1][tokens[:, :-1]]
            begins[:, 0] = True
            first = np.maximum.accumulate(np.where(begins, np.arange(rows.shape[1]), 0), axis=1)
            draw = np.take_along_axis(draw, first, axis=1)
        draw = np.where(valid, draw, 2.0)
        threshold = np.take_along_axis(np.sort(draw, axis=1), wanted.astype(np.int64) - 1, axis=1)
        return valid & (draw <= threshold)


@dataclass(frozen=True)
class MaskedTrain:
    """Training blocks with masks drawn anew for each micro-batch, whoever makes it.

    Args:
        blocks: Next-token blocks, whose inputs are used.
        masking: What is masked.
    """

    blocks: TrainBlocks
    masking: Masking

    def __getitem__(self, index: int) -> Batch:
        rows = self.blocks.rows(index)[:, :-1].astype(np.int64)  # (B, T)
        return self.masking.batch(rows, [numpy_stream(self.blocks.seed, "mask", index)])


@dataclass(frozen=True)
class MaskedEval:
    """All tokens of a part in blocks, whose masks depend on the block alone.

    Args:
        ids: The encoded part.
        seq_len: Tokens per block; the last may be shorter.
        batch_size: Blocks per batch; does not change the result.
        n_bytes: Length of the part's text.
        masking: What is masked.
    """

    ids: np.ndarray
    seq_len: int
    batch_size: int
    n_bytes: int
    masking: Masking

    def __post_init__(self) -> None:
        if not len(self.ids):
            raise DataError("data.val: an evaluation part needs at least 1 token, got 0")

    def __len__(self) -> int:
        return -(-self._n_blocks // self.batch_size)

    def __getitem__(self, index: int) -> Batch:
        if index >= len(self):
            raise IndexError(index)
        blocks = range(index * self.batch_size, min((index + 1) * self.batch_size, self._n_blocks))
        rows = np.full((len(blocks), self.seq_len), IGNORE, dtype=np.int64)
        for row, block in zip(rows, blocks, strict=True):
            piece = self.ids[block * self.seq_len : (block + 1) * self.seq_len]
            row[: len(piece)] = piece
        return self.masking.batch(rows, [numpy_stream(EVAL_SEED, "mask/eval", block) for block in blocks])

    @property
    def _n_blocks(self) -> int:
        return -(-len(self.ids) // self.seq_len)


@dataclass(frozen=True)
class OneByOne:
    """Blocks in which a single token is hidden, once for every ordinary token.

    Args:
        ids: Tokens.
        seq_len: Tokens per block.
        batch_size: Rows per batch; does not change the result.
        masking: Knows the mask token and the special ones.
    """

    ids: np.ndarray
    seq_len: int
    batch_size: int
    masking: Masking
    n_bytes: int = 0

    def __len__(self) -> int:
        return -(-len(self._places()) // self.batch_size)

    def __getitem__(self, index: int) -> Batch:
        if index >= len(self):
            raise IndexError(index)
        places = self._places()[index * self.batch_size : (index + 1) * self.batch_size]
        rows = np.full((len(places), self.seq_len), IGNORE, dtype=np.int64)
        labels = rows.copy()
        for row, label, place in zip(rows, labels, places, strict=True):
            start = place - place % self.seq_len
            piece = self.ids[start : start + self.seq_len]
            row[: len(piece)] = piece
            label[place - start] = self.ids[place]
        return self.masking.hidden(rows, np.where(labels != IGNORE, self.masking.mask_id, rows), labels)

    def _places(self) -> np.ndarray:
        return np.flatnonzero(~np.isin(self.ids, self.masking.special_ids))
