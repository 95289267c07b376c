"""What happens around the steps: the journal, evaluations, checkpoints, stopping, the progress bar."""

import math
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch

from tfexp.errors import DivergedError
from tfexp.files import write_whole
from tfexp.tasks.base import is_better
from tfexp.training.evaluate import EvalSet, prefixed
from tfexp.training.module import TrainingModule


class AfterStep(pl.Callback):
    """A callback that acts after each optimizer step, not after each micro-batch."""

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, TrainingModule)
        if pl_module.micro_batch % pl_module.accumulate == 0:
            self.after_step(trainer, pl_module, trainer.global_step)

    def after_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        raise NotImplementedError


class Journal(AfterStep):
    """Write the training loss, rate and speed; stop a run that has diverged.

    Args:
        write: Takes a step and its metrics.
        rules: Numbers of steps; a line is written at multiples of each. With the rule of evaluations
            among them, no evaluation falls into a window, and speeds are those of training alone.
        max_steps: The last step, which always has a line.
        stop_above: See `TrainerSettings.stop_above`.
    """

    def __init__(
        self,
        write: Callable[[int, Mapping[str, float]], None],
        rules: list[int],
        max_steps: int,
        stop_above: float | None,
    ) -> None:
        self.write, self.rules, self.max_steps, self.stop_above = write, rules, max_steps, stop_above
        self.first_loss: float | None = None
        self.tokens, self.seconds = 0, 0.0  # of all training so far, evaluations apart
        self._mark: tuple[int, float] | None = None

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._mark is None:
            self._mark = (trainer.global_step, time.perf_counter())

    def after_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if step != self.max_steps and all(step % rule for rule in self.rules):
            return
        loss, tokens = module.take_window()
        assert self._mark is not None
        steps, seconds = step - self._mark[0], time.perf_counter() - self._mark[1]
        self._mark = None
        self.tokens, self.seconds = self.tokens + tokens, self.seconds + seconds
        metrics = {
            "train/loss": loss,
            "train/lr": module.lr,
            "time/step_ms": 1000 * seconds / max(1, steps),
            "throughput/tokens_per_s": tokens / seconds,
        }
        self.write(step, metrics)
        self._check(loss, step)

    def _check(self, loss: float, step: int) -> None:
        if not math.isfinite(loss):
            raise DivergedError(f"the training loss is {loss} at step {step}; lower optim.lr or lengthen the warm-up")
        self.first_loss = self.first_loss or loss
        if self.stop_above is not None and loss > self.stop_above * self.first_loss:
            raise DivergedError(
                f"the training loss rose from {self.first_loss:.3g} to {loss:.3g} at step {step}; "
                "lower optim.lr, or allow it with trainer.stop_above=null"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"first_loss": self.first_loss, "tokens": self.tokens, "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.first_loss = state_dict["first_loss"]
        self.tokens, self.seconds = state_dict["tokens"], state_dict["seconds"]


class Evaluator(AfterStep):
    """Evaluate on the whole validation part; keep the weights of the best evaluation.

    Args:
        write: Takes a step and its metrics.
        val: The validation part.
        every: Steps between two evaluations.
        max_steps: The last step, which always has one.
        monitor: The metric that says which evaluation is the best.
        best_file: Where the best weights go.
    """

    def __init__(
        self,
        write: Callable[[int, Mapping[str, float]], None],
        val: EvalSet,
        every: int,
        max_steps: int,
        monitor: str,
        best_file: Path,
    ) -> None:
        self.write, self.val, self.every, self.max_steps = write, val, every, max_steps
        self.monitor, self.best_file = monitor, best_file
        self.best: dict[str, float] | None = None
        self.last: dict[str, float] = {}
        self.details: dict[str, Any] = {}  # of the last evaluation

    def after_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if step % self.every and step != self.max_steps:
            return
        found = self.val.evaluate(module.model, final=step == self.max_steps)
        metrics = prefixed("val", found.metrics)
        self.last, self.details = {"step": step, **metrics}, found.details
        self.write(step, metrics)
        for name in ("val/loss", self.monitor):
            if not math.isfinite(metrics[name]):
                raise DivergedError(f"{name} is {metrics[name]} at step {step}; lower optim.lr")
        if self.best is None or is_better(self.monitor, metrics[self.monitor], self.best[self.monitor]):
            self.best = self.last
            state = {"model": module.model.state_dict(), "step": step}
            write_whole(self.best_file, lambda path: torch.save(state, path))

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "last": self.last, "details": self.details}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.last, self.details = state_dict["best"], state_dict["last"], state_dict["details"]


class Checkpointer(AfterStep):
    """Save all that resuming needs: at every evaluation, on a step rule, and when the run is stopped.

    Args:
        file: The checkpoint; the previous one stays until the next is complete.
        rules: Numbers of steps; a checkpoint is saved at multiples of each.
        max_steps: The last step.
        stop: Says whether a signal has asked for the end.
    """

    def __init__(self, file: Path, rules: list[int], max_steps: int, stop: "StopSignal") -> None:
        self.file, self.rules, self.max_steps, self.stop = file, rules, max_steps, stop

    def after_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if self.stop.received is not None:
            trainer.should_stop = True
        due = any(step % rule == 0 for rule in self.rules)
        if due or step == self.max_steps or trainer.should_stop:
            write_whole(self.file, lambda path: trainer.save_checkpoint(path))


class StopSignal:
    """Turns Ctrl-C and SIGTERM into a clean stop after the current step; a second one stops at once."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignal":
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError:  # not the main thread: whoever owns it decides
                return self
        return self

    def __exit__(self, *details: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)
