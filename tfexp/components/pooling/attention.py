"""A learned weighted mean over positions."""

import torch
from torch import Tensor, nn

from tfexp.components.base import Linear, Pooling
from tfexp.registry import register


@register("pooling", "attention")
class AttentionPooling(Pooling):
    """Let a learned context vector u weigh the states.

    s_t = u . tanh(W h_t + b),  pooled = sum_t softmax(s)_t h_t over the real tokens.

    Args:
        d_model: Width D.

    Shapes:
        (B, T, D), mask (B, T) -> (B, D). D^2 + 2 D parameters.

    Source: Yang et al., 2016, "Hierarchical Attention Networks", equations 5 to 7.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.transform = Linear(d_model, d_model, bias=True)
        self.context = nn.Linear(d_model, 1, bias=False)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:  # first of all: what stands at a padded place may be anything
            hidden = hidden.masked_fill(~mask.unsqueeze(-1), 0.0)
        scores = self.context(torch.tanh(self.transform(hidden)))  # (B, T, 1)
        if mask is None:
            return (scores.softmax(dim=1) * hidden).sum(dim=1)
        # The lowest number, not -inf: a row without a real token then stays finite on its way to zero.
        scores = scores.masked_fill(~mask.unsqueeze(-1), torch.finfo(scores.dtype).min)
        return (scores.softmax(dim=1) * mask.unsqueeze(-1) * hidden).sum(dim=1)
