"""Inverse square-root decay."""

from typing import Annotated

from tfexp.registry import register
from tfexp.schema import Range
from tfexp.training.warmup import Schedule


@register("schedule", "inverse_sqrt")
class InverseSqrt(Schedule):
    """After the warm-up the rate falls with the root of the step: sqrt(warmup / step).

    Args:
        warmup_steps: Optimizer steps of linear warm-up; with 0 the fall starts at the first step.

    Source: fairseq's `inverse_sqrt`; the shape is that of Vaswani et al., 2017, with a free peak.
    """

    def __init__(self, *, warmup_steps: Annotated[int, Range(ge=0)] = 1000) -> None:
        super().__init__(warmup_steps)

    def after_warmup(self, step: int) -> float:
        start = max(1, self.warmup_steps)
        return (start / max(start, step + 1)) ** 0.5
