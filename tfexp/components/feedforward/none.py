"""No feed-forward."""

from torch import Tensor

from tfexp.components.base import FeedForward
from tfexp.registry import register


@register("feedforward", "none")
class NoFeedForward(FeedForward):
    """The sublayer adds nothing: a block is attention alone.

    Shapes:
        (B, T, D) -> (B, T, D), zeros. No parameters; `d_ff` has no effect.

    Source: Arora et al., 2023, arXiv:2312.04927, the setting of MQAR; Elhage et al., 2021, "A Mathematical
        Framework for Transformer Circuits" (attention-only models).
    """

    def forward(self, x: Tensor) -> Tensor:
        return x * 0.0  # not new zeros: gradients, of nought, still flow
