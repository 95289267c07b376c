"""The progress bar of a single run."""

from collections.abc import Mapping

import pytorch_lightning as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tfexp.training.callbacks import AfterStep
from tfexp.training.module import TrainingModule


class ProgressBar(AfterStep):
    """Steps, losses, speed and time left, on standard error.

    Args:
        title: What is being trained.
        max_steps: Length of the bar.
    """

    def __init__(self, title: str, max_steps: int) -> None:
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[losses]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task(title, total=max_steps, losses="")
        self.shown: dict[str, float] = {}
        self.max_steps = max_steps

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.bar.start()

    def after_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        self.bar.update(self.task, completed=step)

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take over the newest metrics; without a terminal, print evaluations as lines."""
        self.shown.update(metrics)
        losses = [
            f"{n.removesuffix('/loss')} {self.shown[n]:.4f}" for n in ("train/loss", "val/loss") if n in self.shown
        ]
        speed = f"{self.shown.get('throughput/tokens_per_s', 0):,.0f} tokens/s"
        text = "  ".join([*losses, speed])
        self.bar.update(self.task, losses=text)
        if not self.console.is_terminal and "val/loss" in metrics:
            self.console.print(f"step {step}/{self.max_steps}  {text}", highlight=False)

    def close(self) -> None:
        self.bar.stop()
