"""The state of the first token."""

import torch
from torch import Tensor

from tfexp.components.base import Pooling
from tfexp.registry import register


@register("pooling", "cls")
class ClsPooling(Pooling):
    """Take the final state of the sequence's first token, which has nothing to do but to collect.

    pooled = h_first; a classification batch begins each text with `<bos>`, which plays BERT's [CLS].

    Shapes:
        (B, T, D), mask (B, T) -> (B, D). No parameters.

    Source: Devlin et al., 2019, arXiv:1810.04805, section 3.
    Differs: the first *real* token, so that left padding changes nothing; BERT's extra tanh layer is
    `head=classification` with `hidden: true`.
    """

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return hidden[:, 0]
        rows = torch.arange(len(hidden), device=hidden.device)
        first = mask.int().argmax(dim=1)  # the first of the largest: (B,)
        return hidden[rows, first].masked_fill(~mask.any(dim=1, keepdim=True), 0.0)
