"""A whole part, scored exactly: sums over all tokens, divided once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from torch import Tensor, nn

from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.model.mode import Precision, evaluating
from tfexp.tasks.base import EvalBatches, EvalPart, Task


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Args:
        metrics: Without prefix: `loss`, `perplexity`, ...
        details: Of the summary, such as a confusion matrix.
    """

    metrics: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EvalSet:
    """A part of the data, as a task evaluates it.

    Args:
        task: Says what is summed and what the sums mean.
        data: All parts.
        part: `val` or `test`.
        spec: How text becomes batches.
        precision: `32-true` or `bf16-mixed`, as in training.
    """

    task: Task
    data: PreparedData
    part: str
    spec: DataSpec
    precision: Precision

    @cached_property
    def batches(self) -> EvalBatches:
        return self.task.eval_batches(self.data, self.part, self.spec)

    def evaluate(self, model: nn.Module, final: bool = False) -> Evaluation:
        """Everything that the task measures.

        Args:
            model: Left in the mode it was in.
            final: The end of a run, where more time may be spent.
        """
        sums = sum_scores(model, self.task, self.batches, self.precision)
        metrics = self.task.metrics(sums, self.batches.n_bytes)
        score = partial(evaluate, model, self.task, precision=self.precision)
        with evaluating(model, self.precision):
            metrics |= self.task.more_metrics(model, EvalPart(self.data, self.part, self.spec, final, score))
        return Evaluation(metrics, self.task.details(sums, self.data.labels))


def evaluate(model: nn.Module, task: Task, batches: EvalBatches, precision: Precision) -> dict[str, float]:
    """Metrics of all batches that are sums, without prefix: `loss`, `perplexity`, ..."""
    return task.metrics(sum_scores(model, task, batches, precision), batches.n_bytes)


def sum_scores(model: nn.Module, task: Task, batches: EvalBatches, precision: Precision) -> dict[str, Tensor]:
    """The task's sums over all batches, on the CPU in float64."""
    device = next(model.parameters()).device
    totals: dict[str, Tensor] = {}
    with evaluating(model, precision):
        for index in range(len(batches)):
            for name, value in task.score(model, batches[index].to(device)).items():
                # Sums over millions of tokens need more digits than a float32 has.
                totals[name] = totals[name] + value.double() if name in totals else value.double()
    return {name: value.cpu() for name, value in totals.items()}


def prefixed(part: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """`loss` -> `val/loss`."""
    return {f"{part}/{name}": value for name, value in metrics.items()}
