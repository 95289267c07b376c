"""Examples of unequal length as batches: neighbours in length share a batch, so little is padded.

As blocks are, a training batch is a function of (seed, index) and nothing else: the examples are
sorted by length with ties broken anew in each epoch, cut into batches at places that are the same in
every epoch, and the batches are shuffled.
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from tfexp.batch import Batch
from tfexp.data.examples import Examples
from tfexp.streams import numpy_stream


@dataclass(frozen=True, eq=False)
class TrainBuckets:
    """Training batches; `buckets[k]` is micro-batch k of the run, whoever asks.

    Args:
        examples: The training part.
        batch_size: Examples in a batch, where `batch_tokens` is None.
        batch_tokens: Tokens in a batch, padding included; a longer example is a batch of its own.
        seed: Of the stream `order`.
    """

    examples: Examples
    batch_size: int
    batch_tokens: int | None
    seed: int
    _cuts: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lengths = np.sort(self.examples.lengths)
        object.__setattr__(self, "_cuts", cut(lengths, self.batch_size, self.batch_tokens))

    def __getitem__(self, index: int) -> Batch:
        epoch, place = divmod(index, self.per_epoch)
        order, batches = _epoch(self, epoch)
        which = batches[place]
        return self.examples.batch(order[self._cuts[which] : self._cuts[which + 1]])

    @property
    def per_epoch(self) -> int:
        """Batches that hold every example once."""
        return len(self._cuts) - 1

    @property
    def mean_length(self) -> float:
        return float(self.examples.lengths.mean())

    def padding_share(self) -> float:
        """The part of all places in the batches of the first epoch that holds padding."""
        order, _ = _epoch(self, 0)
        sides = [lengths[order] for lengths in self.examples.sides()]
        places = sum((np.diff(self._cuts) * np.maximum.reduceat(side, self._cuts[:-1])).sum() for side in sides)
        return 1 - float(sum(side.sum() for side in sides) / places)


@lru_cache(maxsize=4)
def _epoch(buckets: TrainBuckets, epoch: int) -> tuple[np.ndarray, np.ndarray]:
    """Examples from short to long, equals in an order of this epoch; and the order of the batches."""
    stream = numpy_stream(buckets.seed, "order", epoch)
    lengths = buckets.examples.lengths
    shuffled = stream.permutation(len(lengths))
    order = shuffled[np.argsort(lengths[shuffled], kind="stable")]
    return order, stream.permutation(buckets.per_epoch)


def cut(lengths: np.ndarray, batch_size: int, batch_tokens: int | None) -> np.ndarray:
    """Where batches of sorted lengths begin and end: b + 1 places for b batches."""
    n = len(lengths)
    if batch_tokens is None:
        return np.append(np.arange(0, n, batch_size), n)
    cuts, start = [0], 0
    while start < n:
        # The longest of rows start .. end - 1 is the last: (end - start) * its length must fit.
        candidates = lengths[start : start + batch_tokens // max(1, int(lengths[start])) + 1]
        costs = np.arange(1, len(candidates) + 1) * candidates
        start += max(1, int(np.searchsorted(costs, batch_tokens, side="right")))
        cuts.append(start)
    return np.array(cuts)


@dataclass(frozen=True)
class EvalBuckets:
    """Every example of a part once, from short to long; how they are batched changes no result.

    Args:
        examples: The part.
        batch_tokens: Tokens in a batch, padding included.
        batch_size: Examples in a batch at most; None = as many as fit.
    """

    examples: Examples
    batch_tokens: int
    batch_size: int | None = None

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def __getitem__(self, index: int) -> Batch:
        if index >= len(self):
            raise IndexError(index)
        return self.examples.batch(self._order[self._cuts[index] : self._cuts[index + 1]])

    @property
    def n_bytes(self) -> int:
        return 0

    def order(self) -> np.ndarray:
        """The examples in the order of the batches."""
        return self._order

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.examples.lengths, kind="stable")

    @cached_property
    def _cuts(self) -> np.ndarray:
        lengths = np.sort(self.examples.lengths)
        if self.batch_size is not None:
            return cut(lengths, self.batch_size, None)
        return cut(lengths, 1, self.batch_tokens)
