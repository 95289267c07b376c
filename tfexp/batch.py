"""The batch that data hands to a task, and the legend of shape letters.

Letters, used in every comment and docstring: B batch, T query length, S key length, H heads,
D d_model, K head_dim, V vocabulary. Field names follow Hugging Face, so collators pass through.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

IGNORE = -100  # a label that is not scored, as in torch's cross_entropy


@dataclass(frozen=True)
class Batch:
    """One micro-batch.

    Args:
        input_ids: Token ids, (B, T) int64.
        labels: What each position is to predict, (B, T) int64; -100 is not scored.
        attention_mask: (B, T) bool, True = a real token; None = all are.
        position_ids: (B, T) int64 position of each token; None = 0, 1, 2, ...
    """

    input_ids: Tensor
    labels: Tensor
    attention_mask: Tensor | None = None
    position_ids: Tensor | None = None

    def to(self, device: torch.device | str, **options: Any) -> "Batch":
        """The same batch on another device."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v.to(device, **options) for k, v in values.items() if v is not None})
