"""What Lightning and tfexp's record cost: a whole `fit` beside a bare loop around the same module and batches.

    python benchmarks/lightning_overhead.py [--sizes small large] [--precisions 32-true bf16-mixed] [--rounds N]

Both take the same batches from the same loader and clip, step and schedule alike; the fit also writes its
journal, shows progress and watches for signals. They take turns; the figure is the median over rounds of the
ratio of milliseconds a step, the first steps of each turn left out.
"""

import argparse
import logging
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models
from train_step import SIZES, Size

from tfexp.config.compose import compose
from tfexp.config.freeze import to_plain
from tfexp.data.blocks import TrainBlocks
from tfexp.data.encoded import Part, Ragged
from tfexp.data.prepare import PreparedData
from tfexp.data.tokenization import Tokenizer
from tfexp.model.build import build_model
from tfexp.model.spec import ModelSpec
from tfexp.registry import create
from tfexp.training import fit
from tfexp.training.loader import train_loader
from tfexp.training.mirror import Mirrors
from tfexp.training.record import Record

WARM_UP = {"small": 20, "large": 1}
STEPS = {"small": 200, "large": 6}


class Clock(pl.Callback):
    """Notes when the step after the warm-up and the last step began: what follows that is saved, not trained."""

    def __init__(self, warm_up: int) -> None:
        self.warm_up, self.began, self.ended = warm_up, 0.0, 0.0

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.ended = time.perf_counter()
        if batch_idx == self.warm_up:
            self.began = self.ended


def setting(size: Size, precision: str, steps: int) -> Any:
    return compose(
        "model=small", "model/position=learned", "model/norm=layernorm", "model/feedforward=mlp",
        f"model.d_model={size.d_model}", f"model.n_layers={size.n_layers}", f"model.n_heads={size.n_heads}",
        f"model.max_seq_len={size.seq_len}", f"model.vocab_size={size.vocab_size}",
        f"data.batch_size={size.batch_size}", "data.sampling=windows",
        f"trainer.max_steps={steps}", "trainer.val_every=1000000", f"trainer.precision={precision}",
    )  # fmt: skip


def data_of(size: Size) -> PreparedData:
    ids = np.random.default_rng(0).integers(0, size.vocab_size, 200_000).astype(np.uint16)
    tokenizer = Tokenizer(LibraryTokenizer(models.WordLevel({str(i): i for i in range(size.vocab_size)}, "0")))
    rows = {"train": ids, "val": ids[: size.seq_len + 1]}
    parts = {
        name: Part("documents", {"text": Ragged(row, np.array([len(row)]))}, len(row)) for name, row in rows.items()
    }
    return PreparedData(tokenizer, parts, (), "random", {})


def fitted(config: Any, data: PreparedData, warm_up: int) -> float:
    """Milliseconds a step of a whole fit."""
    clock, made = Clock(warm_up), fit._trainer

    def with_clock(config: Any, callbacks: list[pl.Callback]) -> pl.Trainer:
        return made(config, [*callbacks, clock])

    fit._trainer = with_clock
    try:
        with tempfile.TemporaryDirectory() as folder:
            record = Record(Path(folder) / "benchmark-0")
            record.create()
            model = build_model(ModelSpec.from_config(to_plain(config)["model"]))
            record.begin(config, "benchmark", "{}")
            fit.fit(config, data, model, record, Mirrors({}))
    finally:
        fit._trainer = made
    return 1000 * (clock.ended - clock.began) / (config.trainer.max_steps - 1 - warm_up)


def bare(config: Any, data: PreparedData, warm_up: int) -> float:
    """Milliseconds a step of a loop of ten lines."""
    plain = to_plain(config)
    model, task = build_model(ModelSpec.from_config(plain["model"])), create("task", plain["task"], {})
    optimizer = create("optim", plain["optim"], {"model": model})
    schedule = create("schedule", plain["schedule"], {"max_steps": config.trainer.max_steps, "d_model": 0})
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    blocks = TrainBlocks(data.parts["train"].ids, config.data.seq_len, config.data.batch_size, 0, config.data.sampling)
    batches = iter(train_loader(blocks, 0, 0))
    start = 0.0
    for step in range(config.trainer.max_steps):
        batch = next(batches)
        if step == warm_up:
            start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=config.trainer.precision == "bf16-mixed"):
            loss = task.loss(model, batch)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        scheduler.step()
    return 1000 * (time.perf_counter() - start) / (config.trainer.max_steps - warm_up)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--precisions", nargs="+", default=["32-true", "bf16-mixed"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    for name in options.sizes:
        for precision in options.precisions:
            config, data = setting(SIZES[name], precision, STEPS[name] + WARM_UP[name]), data_of(SIZES[name])
            warm_up = WARM_UP[name]
            pairs = [(fitted(config, data, warm_up), bare(config, data, warm_up)) for _ in range(options.rounds)]
            ratios = [ours / loop for ours, loop in pairs]
            fitted_ms, bare_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
            print(
                f"{name:<6} {precision:<10} fit {fitted_ms:8.2f} ms  bare {bare_ms:8.2f} ms  "
                f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
