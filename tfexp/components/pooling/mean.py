"""The mean over positions."""

from torch import Tensor

from tfexp.components.base import Pooling
from tfexp.registry import register


@register("pooling", "mean")
class MeanPooling(Pooling):
    """Average the states of the real tokens.

    pooled = sum_t m_t h_t / sum_t m_t, so that more padding changes nothing.

    Shapes:
        (B, T, D), mask (B, T) -> (B, D). No parameters.

    Source: Reimers and Gurevych, 2019, arXiv:1908.10084, section 3.
    """

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return hidden.mean(dim=1)
        # Filled, not multiplied by 0: what stands at a padded place may be anything.
        total = hidden.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)  # (B, D)
        return total / mask.sum(dim=1, keepdim=True).clamp(min=1)
