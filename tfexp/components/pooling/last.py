"""The state of the last token."""

import torch
from torch import Tensor

from tfexp.components.base import Pooling
from tfexp.registry import register


@register("pooling", "last")
class LastPooling(Pooling):
    """Take the final state of the sequence's last real token: in a decoder, the one that has seen all.

    Shapes:
        (B, T, D), mask (B, T) -> (B, D). No parameters.

    Source: Radford et al., 2018, section 3.2.
    """

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return hidden[:, -1]
        rows = torch.arange(len(hidden), device=hidden.device)
        last = mask.shape[1] - 1 - mask.int().flip(1).argmax(dim=1)  # (B,)
        return hidden[rows, last].masked_fill(~mask.any(dim=1, keepdim=True), 0.0)
