"""Text classification."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from tfexp.batch import Batch
from tfexp.data.buckets import EvalBuckets, TrainBuckets
from tfexp.data.encoded import Part, Ragged
from tfexp.data.examples import LabelledExamples, select
from tfexp.data.floors import majority
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.errors import DataError
from tfexp.registry import register
from tfexp.schema import Range
from tfexp.tasks.base import EVAL_TOKENS, LossSum, Prompts, Task, ratio


@register("task", "classification", needs={"sequence_logits"})
class Classification(Task):
    """Choose a class for a text, from the pooled states of `<bos> text <eos>`.

    One class each: loss = -log p(y), in nats per example. Several at once: the sum over classes of the
    binary cross-entropies; a class counts as chosen if its probability is at least one half. Macro F1 is
    the mean of F1 = 2 tp / (2 tp + fp + fn) over the classes that occur in a part or are chosen there; a
    class that neither occurs nor is chosen has no F1 and is left out, as in scikit-learn. Accuracy of
    several classes is the share of texts of which every class is right.

    In the summary are F1 and the number of texts of each class, in the order of the labels, the classes
    that macro F1 leaves out and, of one class each, the confusion matrix (rows: true, columns: chosen).

    Args:
        multi_label: A text may have any number of classes, none included.
        label_smoothing: Share of the target's probability that is spread over all classes in training.

    Source: Devlin et al., 2019, arXiv:1810.04805, section 4.1; macro F1: Lewis, 1991.
    """

    reads = ("labelled",)
    architectures = ("encoder", "decoder")
    metric_names: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "macro_f1", "micro_f1")
    reserved = 2
    monitor = "accuracy"

    def __init__(
        self, *, multi_label: bool = False, label_smoothing: Annotated[float, Range(ge=0, lt=1)] = 0.0
    ) -> None:
        self.multi_label, self.label_smoothing = multi_label, label_smoothing

    def train_batches(self, data: PreparedData, spec: DataSpec, seed: int) -> TrainBuckets:
        return TrainBuckets(
            select(self._examples(data, "train", spec), spec.overlong), spec.batch_size, spec.batch_tokens, seed
        )

    def eval_batches(self, data: PreparedData, part: str, spec: DataSpec) -> EvalBuckets:
        return EvalBuckets(self._examples(data, part, spec), EVAL_TOKENS)

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        logits = model(**batch.inputs()).logits
        count = torch.tensor(len(logits), dtype=torch.float64, device=logits.device)
        return LossSum(self._loss(logits, batch.labels, self.label_smoothing), count)

    def score(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        logits = model(**batch.inputs()).logits.float()  # (B, C)
        count = torch.tensor(len(logits), dtype=torch.float64, device=logits.device)
        sums = {"loss": self._loss(logits, batch.labels, 0.0), "count": count}
        if self.multi_label:
            chosen, true = logits >= 0, batch.labels.bool()
            hits = torch.stack([(chosen & true).sum(0), (chosen & ~true).sum(0), (~chosen & true).sum(0)])  # (3, C)
            return {**sums, "hits": hits, "correct": (chosen == true).all(dim=1).sum()}
        n = logits.shape[1]
        pairs = batch.labels * n + logits.argmax(dim=1)
        return {**sums, "confusion": torch.bincount(pairs, minlength=n * n).view(n, n)}  # (C, C)

    def metrics(self, sums: Mapping[str, Tensor], n_bytes: int) -> dict[str, float]:
        hits, misses, missed = _hits(sums)  # each (C,)
        correct = sums["correct"] if self.multi_label else sums["confusion"].diagonal().sum()
        f1 = [value for value in _f1(sums) if value is not None]
        total = 2 * hits.sum()
        return {
            "loss": ratio(sums["loss"], sums["count"]),
            "accuracy": ratio(correct, sums["count"]),
            "macro_f1": ratio(sum(f1), len(f1)),
            "micro_f1": ratio(total, total + misses.sum() + missed.sum()),
        }

    def details(self, sums: Mapping[str, Tensor], labels: tuple[str, ...]) -> dict[str, Any]:
        f1, (hits, _, missed) = _f1(sums), _hits(sums)
        left_out = [label for label, value in zip(labels, f1, strict=True) if value is None]
        found = {"labels": list(labels), "f1": f1, "texts": (hits + missed).long().tolist()}
        found["macro_f1_leaves_out"] = left_out
        return found if self.multi_label else {**found, "confusion": sums["confusion"].long().tolist()}

    def answers(self, model: nn.Module, prompts: Prompts) -> list[dict[str, Any]]:
        none = Ragged(np.zeros(0, np.int64), np.zeros(len(prompts.texts), np.int64))
        data = prompts.as_part("labelled", {"text": prompts.encode(prompts.texts), "labels": none})
        examples = LabelledExamples(data.parts["prompts"], data.tokenizer, prompts.spec.length, len(data.labels))
        batches = EvalBuckets(examples, EVAL_TOKENS)
        logits = torch.cat([model(**batches[k].inputs()).logits.float() for k in range(len(batches))])
        rows = torch.empty_like(logits).index_copy_(0, torch.from_numpy(batches.order()), logits)  # as they were given
        if self.multi_label:
            return [self._several(row.sigmoid(), data.labels) for row in rows]
        return [self._one(row.softmax(-1), data.labels) for row in rows]

    @staticmethod
    def _one(row: Tensor, labels: tuple[str, ...]) -> dict[str, Any]:
        share, which = row.max(dim=-1)
        return {"text": labels[int(which)], "probability": float(share)}

    @staticmethod
    def _several(row: Tensor, labels: tuple[str, ...]) -> dict[str, Any]:
        chosen = [label for label, share in zip(labels, row.tolist(), strict=True) if share >= 0.5]
        return {"text": ",".join(chosen), "probabilities": dict(zip(labels, row.tolist(), strict=True))}

    def floors(self, data: PreparedData, spec: DataSpec) -> dict[str, float]:
        columns = [data.parts[name].columns["labels"] for name in ("val", "train")]
        return {} if self.multi_label else {"majority_accuracy": majority(*columns)}

    def _examples(self, data: PreparedData, name: str, spec: DataSpec) -> LabelledExamples:
        part = data.parts[name]
        self._check_labels(part, name)
        return LabelledExamples(part, data.tokenizer, spec.length, len(data.labels) if self.multi_label else 0)

    def _check_labels(self, part: Part, name: str) -> None:
        counts = part.columns["labels"].lengths
        wrong = (counts != 1).nonzero()[0]
        if len(wrong) and not self.multi_label:
            raise DataError(
                f"data.{name}: example {int(wrong[0]) + 1} has {int(counts[wrong[0]])} labels; "
                "set task.multi_label=true for texts with several classes or none"
            )

    def _loss(self, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        if self.multi_label:
            target = labels * (1 - smoothing) + smoothing / 2
            return binary_cross_entropy_with_logits(logits.float(), target, reduction="sum")
        return cross_entropy(logits.float(), labels, reduction="sum", label_smoothing=smoothing)


def _f1(sums: Mapping[str, Tensor]) -> list[float | None]:
    """F1 of each class; None = it neither occurs nor is chosen."""
    hits, misses, missed = _hits(sums)
    whole = 2 * hits + misses + missed
    return [2 * hit / all_ if all_ else None for hit, all_ in zip(hits.tolist(), whole.tolist(), strict=True)]


def _hits(sums: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """For each class: chosen and true, chosen and not true, true and not chosen."""
    if "hits" in sums:
        return sums["hits"][0], sums["hits"][1], sums["hits"][2]
    confusion = sums["confusion"]
    hits = confusion.diagonal()
    return hits, confusion.sum(dim=0) - hits, confusion.sum(dim=1) - hits
