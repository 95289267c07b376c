"""Next-token prediction."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
from torch import Tensor, nn

from tfexp.batch import IGNORE, Batch
from tfexp.data.blocks import EvalBlocks, TrainBlocks
from tfexp.data.buckets import EvalBuckets, TrainBuckets
from tfexp.data.corpus import Kind
from tfexp.data.examples import Examples, PromptExamples, TaggedExamples, select
from tfexp.data.floors import ngram_entropies
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.registry import register
from tfexp.schema import Range
from tfexp.tasks.base import (
    EVAL_TOKENS,
    EvalBatches,
    EvalPart,
    LossSum,
    Task,
    TrainBatches,
    count_scored,
    document_boundary,
    token_loss,
    token_metrics,
    token_sums,
)

EXAMPLES: dict[Kind, type[Examples]] = {"pairs": PromptExamples, "tagged": TaggedExamples}
NO_LENGTHS: list[int] = []


@register("task", "next_token", needs={"token_logits"})
class NextToken(Task):
    """Predict every token from those before it.

    loss = -sum_t log p(x_t | x_<t) / number of scored tokens, in nats per token. Of documents every
    token is scored; of pairs (`source <bos> target <eos>`) the target; of tagged tokens those that
    have a tag. Exact match is the share of examples whose scored tokens are all the most probable ones
    given those before them, which is what greedy decoding would give. In an evaluation, what of an answer
    lies beyond `data.seq_len` counts as wrong in accuracy and exact match, and is not in the loss.

    Args:
        extrapolate: At the end, evaluate on documents also at these multiples of `data.seq_len`: metrics
            `loss_2x`, ... Positions that have a table need `model.max_seq_len` for it.

    Source: Bengio et al., 2003; Radford et al., 2018, section 3.1; length extrapolation: Press et al.,
        2022, arXiv:2108.12409, section 2.2.
    """

    writes_text = True
    reads = ("documents", "pairs", "tagged")
    architectures = ("decoder",)
    metric_names: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bits_per_byte", "accuracy", "exact_match")

    def __init__(self, *, extrapolate: list[Annotated[int, Range(ge=1)]] = NO_LENGTHS) -> None:
        self.extrapolate = extrapolate

    def monitors(self, kind: Kind) -> tuple[str, ...]:
        return ("loss", "perplexity", "accuracy", "bits_per_byte" if kind == "documents" else "exact_match")

    def longest_input(self, seq_len: int) -> int:
        return seq_len * max([1, *self.extrapolate])

    def train_batches(self, data: PreparedData, spec: DataSpec, seed: int) -> TrainBatches:
        part = data.parts["train"]
        if part.kind != "documents":
            examples = select(EXAMPLES[part.kind](part, data.tokenizer, spec.length), spec.overlong)
            return TrainBuckets(examples, spec.batch_size, spec.batch_tokens, seed)
        return TrainBlocks(part.ids, spec.length, spec.batch_size, seed, spec.sampling, document_boundary(data, spec))

    def eval_batches(self, data: PreparedData, part: str, spec: DataSpec) -> EvalBatches:
        encoded = data.parts[part]
        if encoded.kind != "documents":
            return EvalBuckets(EXAMPLES[encoded.kind](encoded, data.tokenizer, spec.length), EVAL_TOKENS)
        return self._blocks(data, part, spec, spec.length)

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        labels = batch.scored_labels()
        return LossSum(token_loss(model(**batch.inputs()).logits, labels), count_scored(labels, IGNORE))

    def score(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        return token_sums(model(**batch.inputs()).logits, batch)

    def metrics(self, sums: Mapping[str, Tensor], n_bytes: int) -> dict[str, float]:
        return token_metrics(sums, n_bytes)

    def more_metrics(self, model: nn.Module, part: EvalPart) -> dict[str, float]:
        if not part.final or part.data.parts[part.name].kind != "documents":
            return {}
        found = {}
        for times in self.extrapolate:
            metrics = part.score(self._blocks(part.data, part.name, part.spec, times * part.spec.length))
            found |= {f"{name}_{times}x": metrics[name] for name in ("loss", "bits_per_byte") if name in metrics}
        return found

    def floors(self, data: PreparedData, spec: DataSpec) -> dict[str, float]:
        part = data.parts["val"]
        return ngram_entropies(np.asarray(part.ids)) if part.kind == "documents" else {}

    def _blocks(self, data: PreparedData, part: str, spec: DataSpec, length: int) -> EvalBlocks:
        encoded = data.parts[part]
        n_rows = max(1, EVAL_TOKENS // length)
        return EvalBlocks(encoded.ids, length, n_rows, encoded.n_bytes, document_boundary(data, spec))
