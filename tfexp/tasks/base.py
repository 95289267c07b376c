"""The contract of a task, and exact sums over tokens."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from tfexp.batch import IGNORE, Batch
from tfexp.data.corpus import Kind
from tfexp.data.encoded import Part, Ragged
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.data.tokenization import Special
from tfexp.errors import ConfigError
from tfexp.tasks.cross_entropy import summed_cross_entropy

EVAL_TOKENS = 8192  # in a batch: large enough to be fast, and no knob, since it cannot change a result
HIGHER_IS_BETTER = frozenset({"accuracy", "macro_f1", "micro_f1", "bleu", "chrf", "exact_match"})


class TrainBatches(Protocol):
    """Micro-batch k of a run, a function of the seed and of k."""

    def __getitem__(self, index: int) -> Batch: ...


class EvalBatches(Protocol):
    """A whole part; `n_bytes` is the length of its text, 0 where that says nothing."""

    @property
    def n_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Batch: ...


@dataclass(frozen=True)
class LossSum:
    """A loss before it is averaged, so that averages over batches, steps and devices are exact.

    Args:
        total: Sum over the scored tokens, in nats; a scalar with gradient.
        count: How many tokens were scored; a scalar.
    """

    total: Tensor
    count: Tensor


@dataclass(frozen=True)
class EvalPart:
    """A part to be evaluated, for what needs more than sums over batches.

    Args:
        data: All parts and the tokenizer.
        name: `val` or `test`.
        spec: How text becomes batches.
        final: The evaluation at the end of a run, which may take its time.
        score: Metrics of other batches with the same model.
    """

    data: PreparedData
    name: str
    spec: DataSpec
    final: bool
    score: Callable[[EvalBatches], dict[str, float]]


@dataclass(frozen=True)
class Prompts:
    """Texts that a trained model is to answer.

    Args:
        texts: As they were given.
        data: The tokenizer and the classes of the run; no parts.
        spec: How text becomes batches.
        encode: Texts to rows of ids, as for training.
        generation: A checked choice of `generation` for tasks that write text; None = as the task evaluates.
    """

    texts: Sequence[str]
    data: PreparedData
    spec: DataSpec
    encode: Callable[[Sequence[str]], Ragged]
    generation: dict[str, Any] | None = None

    def as_part(self, kind: Kind, columns: dict[str, Ragged]) -> PreparedData:
        """The texts as a part named `prompts`."""
        return replace(self.data, parts={"prompts": Part(kind, columns)})


class Task:
    """What is trained: batches, a loss for a batch, sums for an evaluation, metrics from the sums."""

    reads: ClassVar[tuple[Kind, ...]]  # the kinds of examples that it can use
    architectures: ClassVar[tuple[str, ...]]  # the organisations of a model that it can train
    reserved: ClassVar[int] = 0  # tokens of an example that special ones take
    specials: ClassVar[tuple[Special, ...]] = ()  # special tokens beyond pad, unk, bos, eos
    metric_names: ClassVar[tuple[str, ...]]  # of an evaluation, without the part's name
    writes_text: ClassVar[bool] = False  # whether a trained model answers by generating, so that strategies apply
    monitor: ClassVar[str] = "loss"  # the metric that chooses the best checkpoint

    def monitors(self, kind: Kind) -> tuple[str, ...]:
        """What every evaluation on data of this kind measures, and so can choose the best checkpoint."""
        return self.metric_names

    def longest_input(self, seq_len: int) -> int:
        """The longest row of tokens that the model reads, in training or in an evaluation."""
        return seq_len

    def train_batches(self, data: PreparedData, spec: DataSpec, seed: int) -> TrainBatches:
        """All micro-batches of a run; raises DataError where there is too little text for one."""
        raise NotImplementedError

    def eval_batches(self, data: PreparedData, part: str, spec: DataSpec) -> EvalBatches:
        """All batches of a part."""
        raise NotImplementedError

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """What training minimises."""
        raise NotImplementedError

    def score(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sums over one batch, of any shape, that add up over batches; with a `loss` and a `count`."""
        raise NotImplementedError

    def metrics(self, sums: Mapping[str, Tensor], n_bytes: int) -> dict[str, float]:
        """Metrics of a whole part from its sums and the length of its text."""
        raise NotImplementedError

    def more_metrics(self, model: nn.Module, part: EvalPart) -> dict[str, float]:
        """Metrics that are no sums over batches, such as those of decoded text."""
        return {}

    def details(self, sums: Mapping[str, Tensor], labels: tuple[str, ...]) -> dict[str, Any]:
        """What the summary says of an evaluation besides its metrics, such as a confusion matrix."""
        return {}

    def answers(self, model: nn.Module, prompts: "Prompts") -> list[dict[str, Any]] | None:
        """What a trained model says to texts, one answer each with its `text`; None = it continues them."""
        return None

    def floors(self, data: PreparedData, spec: DataSpec) -> dict[str, float]:
        """What simple methods reach on the validation part: what a model must beat to have learned something."""
        return {}


def higher_is_better(metric: str) -> bool:
    """Whether more of this metric (with or without the part's name, of all or of a subset) is better."""
    return metric.rpartition("/")[2].removesuffix("_subset") in HIGHER_IS_BETTER


def is_better(metric: str, value: float, than: float) -> bool:
    """Whether a value of this metric is better than another."""
    return value > than if higher_is_better(metric) else value < than


def document_boundary(data: PreparedData, spec: DataSpec) -> int | None:
    """The token that begins a document, if attention is to stay inside one."""
    if spec.packing == "across":
        return None
    end = data.tokenizer.special_id("eos")
    if end is None:
        raise ConfigError("data.packing: 'inside' needs the special token 'eos' between documents")
    return end


def token_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Summed cross-entropy in nats over the labels that are scored; logits (..., V), labels (...)."""
    return summed_cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), smoothing)


def token_sums(logits: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Loss, count and correct predictions of tokens; and, where few positions are scored, of whole rows.

    `cut_off` counts the labels that did not fit into their rows; a row that lost one is not right.
    """
    labels = batch.scored_labels()
    correct = logits.argmax(dim=-1) == labels  # an ignored label equals no class
    sums = {"loss": token_loss(logits, labels), "count": count_scored(labels, IGNORE), "correct": correct.sum()}
    if batch.logits_at is not None:
        cut_off = torch.zeros_like(batch.labels[:, 0]) if batch.cut_off is None else batch.cut_off
        wrong = cut_off.float()
        wrong.index_add_(0, batch.logits_at.nonzero()[:, 0], (~correct).float())
        asked = batch.logits_at.any(dim=1) | (cut_off > 0)
        sums |= {"rows": asked.sum(), "rows_correct": (asked & (wrong == 0)).sum(), "cut_off": cut_off.sum()}
    return sums


def token_metrics(sums: Mapping[str, Tensor], n_bytes: int) -> dict[str, float]:
    """Loss in nats per token, perplexity, accuracy; bits per byte and exact match where they mean something.

    A label that did not fit counts as wrong; it has no loss.
    """
    asked = sums["count"] + sums.get("cut_off", 0)
    metrics = {**mean_metrics(sums, n_bytes), "accuracy": ratio(sums["correct"], asked)}
    if "rows" in sums:
        metrics["exact_match"] = ratio(sums["rows_correct"], sums["rows"])
    return metrics


def mean_metrics(sums: Mapping[str, Tensor], n_bytes: int) -> dict[str, float]:
    """Loss in nats per token, perplexity, and bits per byte where the text's length is known."""
    total, loss = float(sums["loss"]), ratio(sums["loss"], sums["count"])
    metrics = {"loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf}
    if n_bytes:
        metrics["bits_per_byte"] = total / math.log(2) / n_bytes
    return metrics


def ratio(part: Tensor | float, whole: Tensor | float) -> float:
    """`part / whole`, 0 where there is nothing to divide by."""
    return float(part) / max(float(whole), 1.0)


def count_scored(labels: Tensor, ignore: int) -> Tensor:
    """How many labels are scored, as float64 so that sums over any number of batches are exact."""
    return (labels != ignore).sum().double()
