"""The contract of a task, and exact sums over tokens."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from tfexp.batch import Batch


@dataclass(frozen=True)
class LossSum:
    """A loss before it is averaged, so that averages over batches, steps and devices are exact.

    Args:
        total: Sum over the scored tokens, in nats; a scalar with gradient.
        count: How many tokens were scored; a scalar.
    """

    total: Tensor
    count: Tensor


class Task:
    """What is trained: a loss for a batch, sums for an evaluation, metrics from the sums."""

    metric_names: ClassVar[tuple[str, ...]]  # of an evaluation, without the part's name
    monitor = "val/loss"  # the metric that chooses the best checkpoint; lower is better

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        raise NotImplementedError

    def score(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sums over one batch that add up over batches; with a `loss` and a `count`."""
        raise NotImplementedError

    def metrics(self, sums: dict[str, float], n_bytes: int) -> dict[str, float]:
        """Metrics of a whole part from its sums and the length of its text."""
        raise NotImplementedError


def mean_metrics(sums: dict[str, float], n_bytes: int) -> dict[str, float]:
    """Loss in nats per token, perplexity, and bits per byte where the text's length is known."""
    loss = sums["loss"] / max(sums["count"], 1.0)
    metrics = {"loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf}
    if n_bytes:
        metrics["bits_per_byte"] = sums["loss"] / math.log(2) / n_bytes
    return metrics


def count_scored(labels: Tensor, ignore: int) -> Tensor:
    """How many labels are scored, as float64 so that sums over any number of batches are exact."""
    return (labels != ignore).sum().double()
