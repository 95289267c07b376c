"""The largest value of each feature."""

import torch
from torch import Tensor

from tfexp.components.base import Pooling
from tfexp.registry import register


@register("pooling", "max")
class MaxPooling(Pooling):
    """Take, for each feature, its largest value over the real tokens.

    pooled_d = max_{t: m_t = 1} h_td

    Shapes:
        (B, T, D), mask (B, T) -> (B, D). No parameters.

    Source: Collobert et al., 2011, section 3.3.2; for sentence vectors Conneau et al., 2017, arXiv:1705.02364.
    """

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return hidden.amax(dim=1)
        largest = hidden.masked_fill(~mask.unsqueeze(-1), torch.finfo(hidden.dtype).min).amax(dim=1)  # (B, D)
        return largest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)
