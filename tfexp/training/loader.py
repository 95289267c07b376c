"""The training loader: micro-batch k, k + 1, ... of the run, whoever makes them."""

import itertools
from collections.abc import Iterator

from omegaconf import DictConfig
from torch.utils.data import DataLoader, Dataset, Sampler

from tfexp.batch import Batch
from tfexp.data.blocks import TrainBlocks
from tfexp.data.prepare import PreparedData


class _Indices(Sampler[int]):
    """start, start + 1, ... without end; the trainer's max_steps ends the run."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Iterator[int]:
        return itertools.count(self.start)


class _Micro(Dataset[Batch]):
    def __init__(self, blocks: TrainBlocks) -> None:
        self.blocks = blocks

    def __getitem__(self, index: int) -> Batch:
        return self.blocks[index]


def train_blocks(config: DictConfig, data: PreparedData) -> TrainBlocks:
    """All batches that a config trains on; raises DataError if the text is shorter than one of them."""
    return TrainBlocks(
        data.parts["train"], config.data.seq_len, config.data.batch_size, config.seed, config.data.sampling
    )


def train_loader(blocks: TrainBlocks, start: int, workers: int) -> DataLoader[Batch]:
    """Batches from micro-batch `start` on; the number of workers changes nothing but speed."""
    return DataLoader(
        _Micro(blocks),
        batch_size=None,
        sampler=_Indices(start),
        num_workers=workers,
        prefetch_factor=4 if workers else None,
    )
