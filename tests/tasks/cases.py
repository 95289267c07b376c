"""Every task in every form that it has, on tiny data with a tiny model: what the invariances are held against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests import prepared, tiny
from tfexp.batch import Batch
from tfexp.data.examples import LabelledExamples, PairExamples, PromptExamples, TaggedExamples
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.model.transformer import Transformer
from tfexp.registry import check_choice, create
from tfexp.tasks.base import EvalBatches, Task

SPECIALS = ["pad", "unk", "bos", "eos", "mask"]
WORD = {"name": "word", "specials": SPECIALS}
CLASSES = {"head": "classification", "tie_embeddings": False}


@dataclass(frozen=True)
class Case:
    """One form of a task.

    Args:
        task: Its node.
        rows: Makes n examples.
        examples: How they become a batch; None = blocks of tokens.
        model: What differs from the tiny decoder.
        data: What differs from the usual `DataSpec`.
    """

    task: dict[str, Any]
    rows: Callable[[int], Sequence[Any]]
    examples: type | None = None
    model: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Task:
        return create("task", check_choice("task", self.task, "task"), {})

    def prepared(self, n: int = 23) -> PreparedData:
        return prepared.prepared(self.rows(n), tokenizer=WORD)

    def spec(self, **changes: Any) -> DataSpec:
        return prepared.spec(**{**self.data, **changes})

    def network(self, dtype: torch.dtype = torch.float64, seed: int = 0, **changes: Any) -> Transformer:
        data = self.prepared()
        sizes = {"vocab_size": data.tokenizer.vocab_size, "n_labels": len(data.labels) or None}
        return tiny.model(seed, dtype, **{"position": "rope", **sizes, **self.model, **changes})

    def eval_batches(self, batch_size: int, n: int = 23) -> EvalBatches:
        batches = self.make().eval_batches(self.prepared(n), "val", self.spec())
        return replace(batches, batch_size=batch_size)

    def batch(self, which: Sequence[int]) -> Batch:
        """These examples as a training batch: padded to the longest of them, or blocks as they are."""
        data, length = self.prepared(), self.spec().length
        if self.examples is None:
            whole = self.make().eval_batches(data, "val", self.spec())[0]  # masks of evaluations depend on the block
            return rows_of(whole, which)
        several = {"n_labels": len(data.labels)} if self.task.get("multi_label") else {}
        return self.examples(data.parts["train"], data.tokenizer, length, **several).batch(np.array(which))


class Fixed(nn.Module):
    """A model that answers every batch with the same logits."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, **inputs: Tensor) -> "Fixed":
        return self  # has .logits


def rows_of(batch: Batch, which: Sequence[int]) -> Batch:
    """Some rows of a batch."""
    values = {f.name: getattr(batch, f.name) for f in fields(batch) if f.name != "n_tokens"}
    return Batch(**{name: None if value is None else value[list(which)] for name, value in values.items()})


CASES = {
    "classification": Case(
        {"name": "classification"}, prepared.labelled, LabelledExamples, {"architecture": "encoder", **CLASSES}
    ),
    "classification_smoothed_by_a_decoder": Case(
        {"name": "classification", "label_smoothing": 0.1},
        prepared.labelled,
        LabelledExamples,
        {"architecture": "decoder", "pooling": "last", **CLASSES},
    ),
    "classification_of_several": Case(
        {"name": "classification", "multi_label": True, "label_smoothing": 0.1},
        prepared.several,
        LabelledExamples,
        {"architecture": "encoder", **CLASSES},
    ),
    "masked_lm": Case({"name": "masked_lm", "rate": 0.3}, prepared.texts, None, {"architecture": "encoder"}),
    "masked_lm_inside": Case(
        {"name": "masked_lm", "rate": 0.3},
        prepared.texts,
        None,
        {"architecture": "encoder", "head": "mlm"},
        {"packing": "inside"},
    ),
    "translation": Case(
        {"name": "translation", "label_smoothing": 0.0},
        prepared.pairs,
        PairExamples,
        {"architecture": "encoder_decoder"},
    ),
    "translation_smoothed": Case(
        {"name": "translation", "label_smoothing": 0.1, "smoothing": "others"},
        prepared.pairs,
        PairExamples,
        {"architecture": "encoder_decoder"},
    ),
    "next_token": Case({"name": "next_token"}, prepared.texts),
    "next_token_inside": Case({"name": "next_token"}, prepared.texts, data={"packing": "inside"}),
    "next_token_of_pairs": Case({"name": "next_token"}, prepared.pairs, PromptExamples),
    "next_token_of_tags": Case({"name": "next_token"}, prepared.tagged, TaggedExamples),
}
OF_ROWS = {name: case for name, case in CASES.items() if case.examples is not None}
