"""Blocks of tokens as batches: a batch is a function of (seed, index) and nothing else."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tfexp.batch import IGNORE, Batch
from tfexp.errors import DataError
from tfexp.streams import numpy_stream


@dataclass(frozen=True)
class TrainBlocks:
    """Training batches of next-token blocks; `blocks[k]` is micro-batch k of the run, whoever asks.

    Args:
        ids: The encoded training part, one after another.
        seq_len: Tokens per example.
        batch_size: Examples per batch.
        seed: Of the streams `batch` and `order`.
        sampling: `blocks` or `windows`, see `DataSpec`.
        boundary: The token that begins a document, if attention is to stay inside one; None = across.
    """

    ids: np.ndarray
    seq_len: int
    batch_size: int
    seed: int
    sampling: Literal["blocks", "windows"]
    boundary: int | None = None

    def __post_init__(self) -> None:
        if len(self.ids) < self.seq_len + 1:
            raise DataError(
                f"data.seq_len: a block of {self.seq_len} needs {self.seq_len + 1} tokens, "
                f"but the training part has {len(self.ids)}"
            )

    def __getitem__(self, index: int) -> Batch:
        return next_token_batch(self.rows(index), self.boundary)

    def rows(self, index: int) -> np.ndarray:
        """Tokens of micro-batch `index`, one more than an example has inputs: (B, T+1)."""
        starts = self._windows(index) if self.sampling == "windows" else self._blocks(index)
        return np.stack([self.ids[s : s + self.seq_len + 1] for s in starts])

    def _windows(self, index: int) -> np.ndarray:
        stream = numpy_stream(self.seed, "batch", index)
        return stream.integers(0, len(self.ids) - self.seq_len, self.batch_size)

    def _blocks(self, index: int) -> np.ndarray:
        examples = np.arange(index * self.batch_size, (index + 1) * self.batch_size)
        # One block less than would fit, so that the drawn start can shift the grid.
        per_epoch = max(1, (len(self.ids) - 1) // self.seq_len - 1)
        starts = np.empty(self.batch_size, dtype=np.int64)
        for epoch in np.unique(examples // per_epoch):
            room = min(self.seq_len, len(self.ids) - self.seq_len * per_epoch)
            shift, order = _epoch(self.seed, int(epoch), room, per_epoch)
            mine = examples // per_epoch == epoch
            starts[mine] = shift + order[examples[mine] % per_epoch] * self.seq_len
        return starts


@lru_cache(maxsize=2)
def _epoch(seed: int, epoch: int, room: int, n_blocks: int) -> tuple[int, np.ndarray]:
    """Where an epoch's grid of blocks starts, and the order of its blocks."""
    stream = numpy_stream(seed, "order", epoch)
    return int(stream.integers(0, room)), stream.permutation(n_blocks)


@dataclass(frozen=True)
class EvalBlocks:
    """All tokens of a part in fixed blocks: every token but the first is scored exactly once.

    Args:
        ids: The encoded part.
        seq_len: Tokens per block; the last may be shorter and is filled with ignored labels.
        batch_size: Blocks per batch; does not change the result.
        n_bytes: Length of the part's text in UTF-8, for bits per byte.
        boundary: As in `TrainBlocks`.
    """

    ids: np.ndarray
    seq_len: int
    batch_size: int
    n_bytes: int
    boundary: int | None = None

    def __post_init__(self) -> None:
        if len(self.ids) < 2:
            raise DataError(f"data.val: an evaluation part needs at least 2 tokens, got {len(self.ids)}")

    def __len__(self) -> int:
        return -(-self._n_blocks // self.batch_size)

    def __getitem__(self, index: int) -> Batch:
        return next_token_batch(self.rows(index), self.boundary)

    def rows(self, index: int) -> np.ndarray:
        """Tokens of batch `index`, (B, T+1); -100 where the text has ended."""
        if index >= len(self):
            raise IndexError(index)
        blocks = range(index * self.batch_size, min((index + 1) * self.batch_size, self._n_blocks))
        rows = np.full((len(blocks), self.seq_len + 1), IGNORE, dtype=np.int64)
        for row, block in zip(rows, blocks, strict=True):
            piece = self.ids[block * self.seq_len : (block + 1) * self.seq_len + 1]
            row[: len(piece)] = piece
        return rows

    @property
    def _n_blocks(self) -> int:
        return -(-(len(self.ids) - 1) // self.seq_len)


def next_token_batch(rows: np.ndarray, boundary: int | None) -> Batch:
    """Inputs and the labels one ahead: (B, T+1) -> two of (B, T).

    Args:
        rows: Tokens; -100 where the text has ended.
        boundary: The token that begins a document; positions and attention then start anew at each.
    """
    tokens = torch.from_numpy(rows.astype(np.int64))
    # Filled places are never scored and, being last, never seen by a scored one.
    inputs, labels = tokens[:, :-1].clamp(min=0), tokens[:, 1:].contiguous()
    positions, documents = inside_documents(tokens[:, :-1], boundary)
    return Batch(inputs, labels, position_ids=positions, document_ids=documents)


def inside_documents(tokens: Tensor, boundary: int | None) -> tuple[Tensor | None, Tensor | None]:
    """Positions that start anew at each document, and its number, each (B, T); None = attention goes across."""
    if boundary is None:
        return None, None
    begins = tokens == boundary  # (B, T)
    places = torch.arange(tokens.shape[1]).expand_as(tokens)
    starts = torch.where(begins, places, 0).cummax(dim=1).values
    return places - starts, begins.cumsum(dim=1)
