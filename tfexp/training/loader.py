"""The training loader: micro-batch k, k + 1, ... of the run, whoever makes them."""

import itertools
from collections.abc import Iterator

from torch.utils.data import DataLoader, Dataset, Sampler

from tfexp.batch import Batch
from tfexp.tasks.base import TrainBatches


class _Indices(Sampler[int]):
    """start, start + 1, ... without end; the trainer's max_steps ends the run."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Iterator[int]:
        return itertools.count(self.start)


class _Micro(Dataset[Batch]):
    def __init__(self, batches: TrainBatches) -> None:
        self.batches = batches

    def __getitem__(self, index: int) -> Batch:
        return self.batches[index]


def train_loader(batches: TrainBatches, start: int, workers: int) -> DataLoader[Batch]:
    """Batches from micro-batch `start` on; the number of workers changes nothing but speed."""
    return DataLoader(
        _Micro(batches),
        batch_size=None,
        sampler=_Indices(start),
        num_workers=workers,
        prefetch_factor=4 if workers else None,
    )
