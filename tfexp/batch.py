"""The batch that data hands to a task, and the legend of shape letters.

Letters, used in every comment and docstring: B batch, T query length, S key length, H heads,
D d_model, K head_dim, V vocabulary. Field names follow Hugging Face, so collators pass through.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

IGNORE = -100  # a label that is not scored, as in torch's cross_entropy
NO_INPUTS = ("labels", "cut_off", "n_tokens")


@dataclass(frozen=True)
class Batch:
    """One micro-batch.

    Args:
        input_ids: Token ids, (B, T) int64; of a sequence-to-sequence model the source, (B, S).
        labels: What is to be predicted; -100 is not scored. (B, T) int64 per position, (B,) int64 classes,
            or (B, C) float of several classes at once.
        attention_mask: As input_ids, bool, True = a real token; None = all are.
        position_ids: As input_ids: position of each token; None = 0, 1, 2, ...
        decoder_input_ids: (B, T) int64, the target shifted to the right.
        document_ids: As input_ids; attention stays inside a document. None = one document a row.
        logits_at: (B, T) bool: the positions that are scored, where these are few or known; None = all.
        cut_off: (B,) int64: labels of each row that lie beyond its end and are not in it; None = none are.
        n_tokens: Real tokens that the model reads, source and target; None = every input is one.
    """

    input_ids: Tensor
    labels: Tensor
    attention_mask: Tensor | None = None
    position_ids: Tensor | None = None
    decoder_input_ids: Tensor | None = None
    document_ids: Tensor | None = None
    logits_at: Tensor | None = None
    cut_off: Tensor | None = None
    n_tokens: int | None = None

    def inputs(self) -> dict[str, Tensor]:
        """The model's arguments."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in NO_INPUTS}
        return {name: value for name, value in values.items() if value is not None}

    def count_tokens(self) -> int:
        """Real tokens that the model reads."""
        return self.input_ids.numel() if self.n_tokens is None else self.n_tokens

    def scored_labels(self) -> Tensor:
        """The labels of the positions in `logits_at`, in order; all of them where it is None."""
        return self.labels if self.logits_at is None else self.labels[self.logits_at]

    def to(self, device: torch.device | str, **options: Any) -> "Batch":
        """The same batch on another device."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v.to(device, **options) for k, v in values.items() if isinstance(v, Tensor)})
