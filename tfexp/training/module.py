"""Any task and model as a Lightning module."""

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from tfexp.batch import Batch
from tfexp.streams import stream_seed
from tfexp.tasks.base import Task


class TrainingModule(pl.LightningModule):
    """One optimizer step is the mean loss over all its scored tokens, however they are batched.

    Args:
        model: The model.
        task: Gives the loss sum of a batch.
        optimizer: Of the model's parameters.
        schedule: Factor on the learning rate for each optimizer step.
        seed: Of the stream `dropout`.
        accumulate: Micro-batches per optimizer step.
        clip: Largest gradient norm, or None.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        optimizer: torch.optim.Optimizer,
        schedule: Callable[[int], float],
        seed: int,
        accumulate: int,
        clip: float | None,
    ) -> None:
        super().__init__()
        self.model, self.task = model, task
        self._optimizer, self._schedule = optimizer, schedule
        self.seed, self.accumulate, self.clip = seed, accumulate, clip
        self.micro_batch = 0  # how many this run has seen: all that resuming needs to know of the data
        self._parameters_to_clip = [p for p in model.parameters() if p.requires_grad]
        self.lr = 0.0  # of the last optimizer step
        self._step_count: Tensor | None = None
        self.window: list[tuple[Tensor, Tensor]] = []  # loss sums and counts since the last log line
        self.window_tokens = 0  # read by the model in that time

    def configure_optimizers(self) -> Any:
        scheduler = LambdaLR(self._optimizer, self._schedule)
        return {"optimizer": self._optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        self._seed_dropout()
        self.micro_batch += 1
        loss = self.task.loss(self.model, batch)
        self.window.append((loss.total.detach(), loss.count))
        self.window_tokens += batch.count_tokens()
        if self.accumulate == 1:
            return loss.total / loss.count.clamp(min=1)
        # The divisor is known only after the last micro-batch; until then gradients are sums.
        self._step_count = loss.count if self._step_count is None else self._step_count + loss.count
        return loss.total * self.accumulate  # which Lightning divides by

    def _seed_dropout(self) -> None:
        # Not torch.manual_seed: without a GPU it formats three stack traces a call, and keeps them.
        seed = stream_seed(self.seed, "dropout", self.micro_batch)
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.lr = optimizer.param_groups[0]["lr"]
        gradients = [p.grad for p in self._parameters_to_clip if p.grad is not None]
        if self._step_count is not None:
            torch._foreach_div_(gradients, self._step_count.clamp(min=1).to(gradients[0].dtype))
            self._step_count = None
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self._parameters_to_clip, self.clip, foreach=True)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        window = [(total.cpu(), count.cpu()) for total, count in self.window]
        checkpoint["tfexp"] = {"micro_batch": self.micro_batch, "window": window, "tokens": self.window_tokens}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["tfexp"]
        self.micro_batch, self.window = state["micro_batch"], [tuple(pair) for pair in state["window"]]
        self.window_tokens = state["tokens"]

    def take_window(self) -> tuple[float, int]:
        """Mean loss and tokens read since the last call; the one place that waits for the device."""
        total = torch.stack([total.double() for total, _ in self.window]).sum()
        count = torch.stack([count for _, count in self.window]).sum()
        tokens, self.window, self.window_tokens = self.window_tokens, [], 0
        return float(total / count.clamp(min=1)), tokens
