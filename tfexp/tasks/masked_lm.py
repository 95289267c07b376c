"""Masked language modelling."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, get_args

import numpy as np
import torch
from torch import Tensor, nn

from tfexp.batch import IGNORE, Batch
from tfexp.data.blocks import TrainBlocks
from tfexp.data.corpus import Kind
from tfexp.data.floors import ngram_entropies
from tfexp.data.masking import MaskedEval, MaskedTrain, Masking, OneByOne
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.data.tokenization import Special, special_text
from tfexp.data.words import holds_space, word_flags
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range
from tfexp.tasks.base import (
    EVAL_TOKENS,
    EvalPart,
    LossSum,
    Prompts,
    Task,
    count_scored,
    document_boundary,
    ratio,
    token_loss,
    token_sums,
)

Share = Annotated[float, Range(ge=0, le=1)]


@register("task", "masked_lm", needs={"token_logits"})
class MaskedLM(Task):
    """Recover tokens that were hidden, from both sides.

    Of each example `rate` of the tokens are chosen; `mask_share` of them are replaced by `<mask>`,
    `random_share` by a random token, the rest stay. loss = -sum log p(x_t | the rest) / chosen tokens,
    in nats per chosen token. Masks are drawn anew for every batch in training, and are the same in
    every evaluation. Bits per byte is the loss times the tokens per byte of the text: what the text
    would cost if every token were as hard as the chosen ones.

    Args:
        rate: Share of the tokens to recover; at least one in each example, unless it is 0.
        mask_share: Of the chosen, replaced by the mask token.
        random_share: Of the chosen, replaced by a random token.
        whole_words: Choose whole words instead of single tokens.
        pseudo_perplexity: At the end, hide each of so many tokens alone and report
            exp(-mean log p(x_t | all others)); 0 = do not.

    Source: Devlin et al., 2019, arXiv:1810.04805, section 3.1; whole words: the authors' repository, May
        2019; pseudo-perplexity: Salazar et al., 2020, arXiv:1910.14659, section 2.3.
    """

    reads = ("documents",)
    architectures = ("encoder",)
    specials = ("mask",)
    metric_names: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bits_per_byte", "accuracy", "pseudo_perplexity")

    def __init__(
        self,
        *,
        rate: Share = 0.15,
        mask_share: Share = 0.8,
        random_share: Share = 0.1,
        whole_words: bool = False,
        pseudo_perplexity: Annotated[int, Range(ge=0)] = 0,
    ) -> None:
        if mask_share + random_share > 1 + 1e-9:
            raise ConfigError(f"task.mask_share: with random_share={random_share} they exceed 1, got {mask_share}")
        self.rate, self.mask_share, self.random_share = rate, mask_share, random_share
        self.whole_words, self.pseudo_perplexity = whole_words, pseudo_perplexity

    def monitors(self, kind: Kind) -> tuple[str, ...]:
        return tuple(name for name in self.metric_names if name != "pseudo_perplexity")

    def train_batches(self, data: PreparedData, spec: DataSpec, seed: int) -> MaskedTrain:
        blocks = TrainBlocks(data.parts["train"].ids, spec.length, spec.batch_size, seed, spec.sampling)
        return MaskedTrain(blocks, self._masking(data, spec))

    def eval_batches(self, data: PreparedData, part: str, spec: DataSpec) -> MaskedEval:
        encoded = data.parts[part]
        n_rows = max(1, EVAL_TOKENS // spec.length)
        return MaskedEval(encoded.ids, spec.length, n_rows, encoded.n_bytes, self._masking(data, spec))

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        labels = batch.scored_labels()
        return LossSum(token_loss(model(**batch.inputs()).logits, labels), count_scored(labels, IGNORE))

    def score(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        sums = token_sums(model(**batch.inputs()).logits, batch)
        n_tokens = sums["count"].new_tensor(batch.count_tokens())
        return {"loss": sums["loss"], "count": sums["count"], "correct": sums["correct"], "tokens": n_tokens}

    def metrics(self, sums: Mapping[str, Tensor], n_bytes: int) -> dict[str, float]:
        loss = ratio(sums["loss"], sums["count"])
        metrics = {"loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf}
        if n_bytes:
            metrics["bits_per_byte"] = loss / math.log(2) * float(sums["tokens"]) / n_bytes
        return {**metrics, "accuracy": ratio(sums["correct"], sums["count"])}

    def more_metrics(self, model: nn.Module, part: EvalPart) -> dict[str, float]:
        if not part.final or not self.pseudo_perplexity:
            return {}
        ids, length = part.data.parts[part.name].ids[: self.pseudo_perplexity], part.spec.length
        batches = OneByOne(ids, length, max(1, EVAL_TOKENS // length), self._masking(part.data, part.spec))
        return {"pseudo_perplexity": part.score(batches)["perplexity"]}

    def answers(self, model: nn.Module, prompts: Prompts) -> list[dict[str, Any]]:
        """Fill every `<mask>` of a text with its most probable token."""
        return [self._filled(model, text, prompts) for text in prompts.texts]

    def _filled(self, model: nn.Module, text: str, prompts: Prompts) -> dict[str, Any]:
        masking, tokenizer = self._masking(prompts.data, prompts.spec), prompts.data.tokenizer
        pieces = text.split(special_text("mask"))
        if holds_space(tokenizer):  # the hidden token is then that of a word with the space before it
            pieces = [*(piece.removesuffix(" ") for piece in pieces[:-1]), pieces[-1]]
        rows = prompts.encode(pieces)
        ids = [masking.mask_id] * (len(pieces) - 1)
        joined = [i for row, mask in zip(rows, [*([i] for i in ids), []], strict=True) for i in (*row.tolist(), *mask)]
        shown = torch.tensor([joined[: prompts.spec.length] or [masking.mask_id]])
        at = shown == masking.mask_id
        logits = model(shown, logits_at=at).logits.float()
        logits[:, masking.special_ids.tolist()] = -torch.inf
        probabilities, chosen = logits.softmax(-1).max(dim=-1)
        filled = shown.masked_scatter(at, chosen)[0].tolist()
        fillings = [tokenizer.decode([i]) for i in chosen.tolist()]
        return {"text": tokenizer.decode(filled), "fillings": fillings, "probabilities": probabilities.tolist()}

    def floors(self, data: PreparedData, spec: DataSpec) -> dict[str, float]:
        return ngram_entropies(np.asarray(data.parts["val"].ids))

    def _masking(self, data: PreparedData, spec: DataSpec) -> Masking:
        tokenizer = data.tokenizer
        mask = tokenizer.special_id("mask")
        if mask is None:
            raise ConfigError("data.tokenizer.specials: task=masked_lm needs the special token 'mask'; add it")
        words = word_flags(tokenizer) if self.whole_words else None
        special = np.array([i for name in get_args(Special) if (i := tokenizer.special_id(name)) is not None])
        shares = self.rate, self.mask_share, self.random_share
        return Masking(*shares, mask, special, tokenizer.vocab_size, words, document_boundary(data, spec))
