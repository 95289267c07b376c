"""Sequence to sequence: translation, summaries, answers."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from torch import Tensor, nn

from tfexp.batch import IGNORE, Batch
from tfexp.data.buckets import EvalBuckets, TrainBuckets
from tfexp.data.corpus import Kind
from tfexp.data.examples import PairExamples, select
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.errors import ConfigError
from tfexp.generation.generate import Answer, as_answer, told
from tfexp.generation.session import Request, Session
from tfexp.model.ends import Ends
from tfexp.model.transformer import Transformer
from tfexp.registry import check_choice, register
from tfexp.schema import Range
from tfexp.tasks.base import (
    EVAL_TOKENS,
    EvalPart,
    LossSum,
    Prompts,
    Task,
    count_scored,
    token_loss,
    token_metrics,
    token_sums,
)
from tfexp.tasks.overlap import BLEUTokenizer, bleu_scorer, chrf_scorer, signature
from tfexp.tasks.translation_floors import translation_floors


@register("task", "translation", needs={"token_logits"})
class Translation(Task):
    """Turn a source into a target: the decoder reads `<bos> target`, and is to say `target <eos>`.

    loss = -sum_t log p(y_t | y_<t, x) / number of target tokens, in nats per token; in training the
    target's distribution may be smoothed, in evaluation never. Exact match is the share of examples
    whose tokens are all the most probable ones given those before them, which is what greedy decoding
    gives. What of a target lies beyond `data.seq_len` counts as wrong there and in accuracy, and is not in
    the loss. BLEU and chrF are sacreBLEU's, of decoded text against the text as it was written: in every
    evaluation on the first `decode_examples` of the part (`bleu_subset`), at the end also on all of it.

    Args:
        label_smoothing: Probability mass taken from the target token in training.
        smoothing: Where it goes: `all` = eps / V to every token of the vocabulary, the target included
            (Szegedy et al., torch); `others` = eps / (V - 1) to every other token (tensor2tensor, fairseq).
        decode_examples: How many examples each evaluation during training decodes; 0 = none.
        decode: Whether to decode at all; without, there is no BLEU.
        n_beams: Hypotheses of beam search; 1 = greedy.
        length_penalty: alpha of beam search.
        max_target: Longest decoded target in tokens; null = `data.seq_len`.
        bleu_tokenizer: sacreBLEU's; `none` for text that is tokenized already.

    Source: Sutskever et al., 2014; Vaswani et al., 2017, sections 3 and 5.4; label smoothing: Szegedy et
        al., 2016, arXiv:1512.00567, section 7; sacreBLEU: Post, 2018, arXiv:1804.08771.
    """

    writes_text = True
    reads = ("pairs",)
    architectures = ("encoder_decoder",)
    reserved = 1
    metric_names: ClassVar[tuple[str, ...]] = (
        "loss", "perplexity", "accuracy", "exact_match", "bleu", "chrf",
    )  # fmt: skip

    def __init__(
        self,
        *,
        label_smoothing: Annotated[float, Range(ge=0, lt=1)] = 0.1,
        smoothing: Literal["all", "others"] = "all",
        decode: bool = True,
        decode_examples: Annotated[int, Range(ge=0)] = 100,
        n_beams: Annotated[int, Range(ge=1)] = 1,
        length_penalty: Annotated[float, Range(ge=0)] = 0.6,
        max_target: Annotated[int | None, Range(ge=1)] = None,
        bleu_tokenizer: BLEUTokenizer = "13a",
    ) -> None:
        self.label_smoothing, self.smoothing = label_smoothing, smoothing
        self.decode, self.decode_examples = decode, decode_examples
        self.n_beams, self.length_penalty, self.max_target = n_beams, length_penalty, max_target
        self.bleu_tokenizer: BLEUTokenizer = bleu_tokenizer

    def monitors(self, kind: Kind) -> tuple[str, ...]:
        decoded = ("bleu_subset", "chrf_subset") if self.decode and self.decode_examples else ()
        return ("loss", "perplexity", "accuracy", "exact_match", *decoded)

    def longest_input(self, seq_len: int) -> int:
        return max(seq_len, self.max_target or 0)

    def train_batches(self, data: PreparedData, spec: DataSpec, seed: int) -> TrainBuckets:
        examples = select(PairExamples(data.parts["train"], data.tokenizer, spec.length), spec.overlong)
        return TrainBuckets(examples, spec.batch_size, spec.batch_tokens, seed)

    def eval_batches(self, data: PreparedData, part: str, spec: DataSpec) -> EvalBuckets:
        return EvalBuckets(PairExamples(data.parts[part], data.tokenizer, spec.length), EVAL_TOKENS)

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        logits, labels = model(**batch.inputs()).logits, batch.scored_labels()
        return LossSum(token_loss(logits, labels, self._share(logits.shape[-1])), count_scored(labels, IGNORE))

    def score(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        return token_sums(model(**batch.inputs()).logits, batch)

    def metrics(self, sums: Mapping[str, Tensor], n_bytes: int) -> dict[str, float]:
        return token_metrics(sums, n_bytes)

    def more_metrics(self, model: nn.Module, part: EvalPart) -> dict[str, float]:
        encoded = part.data.parts[part.name]
        n = len(encoded) if part.final else min(self.decode_examples, len(encoded))
        if not n or not self.decode:
            return {}
        targets = self.targets(cast(Transformer, model), part.data, part.name, part.spec, np.arange(n))
        references = [pair.target for pair in encoded.texts[:n]]
        sizes = {"": len(encoded)} if n == len(encoded) else {}
        if part.name == "val" and self.decode_examples:  # also at the end: the best checkpoint may be chosen by it
            sizes["_subset"] = min(self.decode_examples, n)
        found = {}
        for suffix, size in sizes.items():
            pair = targets[:size], [references[:size]]
            found[f"bleu{suffix}"] = bleu_scorer(self.bleu_tokenizer).corpus_score(*pair).score
            found[f"chrf{suffix}"] = chrf_scorer().corpus_score(*pair).score
        return found

    def details(self, sums: Mapping[str, Tensor], labels: tuple[str, ...]) -> dict[str, Any]:
        if not self.decode:
            return {}
        decoding = f"beam {self.n_beams}, length penalty {self.length_penalty:g}" if self.n_beams > 1 else "greedy"
        bleu, chrf = signature(bleu_scorer(self.bleu_tokenizer)), signature(chrf_scorer())
        return {"bleu_signature": bleu, "chrf_signature": chrf, "decoding": decoding}

    def floors(self, data: PreparedData, spec: DataSpec) -> dict[str, float]:
        return translation_floors(data, self.bleu_tokenizer) if self.decode else {}

    def targets(
        self, model: Transformer, data: PreparedData, part: str, spec: DataSpec, rows: Sequence[int] | np.ndarray
    ) -> list[str]:
        """Decoded text for these rows of a part, in their order."""
        return [found[0].text for found in decode_rows(model, data, part, spec, rows, self._decoding(spec))]

    def answers(self, model: nn.Module, prompts: Prompts) -> list[dict[str, Any]]:
        columns = {"source": prompts.encode(prompts.texts), "target": prompts.encode([""] * len(prompts.texts))}
        data, spec = prompts.as_part("pairs", columns), prompts.spec
        full = [row for row, text in enumerate(prompts.texts) if text.strip()]  # nothing is the answer to nothing
        choice = self._decoding(spec) if prompts.generation is None else prompts.generation
        found = decode_rows(cast(Transformer, model), data, "prompts", spec, full, choice)
        texts = dict(zip(full, map(told, found), strict=True))
        return [texts.get(row, {"text": ""}) for row in range(len(prompts.texts))]

    def _decoding(self, spec: DataSpec) -> dict[str, Any]:
        """The choice of `generation` that evaluations use, and answers, so that they say the same."""
        beam = {"name": "beam", "n_beams": self.n_beams, "length_penalty": self.length_penalty}
        n_rows = max(1, EVAL_TOKENS // (self.n_beams * spec.length))
        choice = {"name": "greedy"} if self.n_beams == 1 else beam
        return choice | {"max_new_tokens": self.max_target or spec.length, "batch_size": n_rows}

    def _share(self, vocab_size: int) -> float:
        # torch spreads its share over all tokens; over the others alone it takes this much of it.
        return self.label_smoothing * (vocab_size / (vocab_size - 1) if self.smoothing == "others" else 1.0)


def decode_rows(
    model: Transformer,
    data: PreparedData,
    part: str,
    spec: DataSpec,
    rows: Sequence[int] | np.ndarray,
    choice: Mapping[str, Any],
) -> list[list[Answer]]:
    """What the model writes for the sources of these rows of a part, in their order, best first.

    Args:
        model: An encoder-decoder.
        data: Parts and tokenizer.
        part: The name of the part.
        spec: How text becomes rows of ids.
        rows: Of the part.
        choice: A node of the slot `generation`.
    """
    if not len(rows):
        return []
    examples, ends = PairExamples(data.parts[part], data.tokenizer, spec.length), _ends(data)
    assert ends.begin is not None
    requests = [Request([ends.begin], examples.source(int(row)).tolist(), k) for k, row in enumerate(rows)]
    node = check_choice("generation", dict(choice), "generation")
    with Session(model, node, ends, tokenizer=data.tokenizer) as session:
        return [[as_answer(session, h) for h in found] for found in session.answer(requests)]


def _ends(data: PreparedData) -> Ends:
    begin, end, pad = (data.tokenizer.special_id(name) for name in ("bos", "eos", "pad"))
    if begin is None or end is None or pad is None:
        raise ConfigError("data.tokenizer.specials: task=translation needs pad, bos and eos; add them")
    return Ends(begin, end, pad, never=(begin, pad))  # no target holds them
