"""A constant learning rate."""

from typing import Annotated

from tfexp.registry import register
from tfexp.schema import Range
from tfexp.training.warmup import Schedule


@register("schedule", "constant")
class Constant(Schedule):
    """The full rate after the warm-up.

    Args:
        warmup_steps: Optimizer steps of linear warm-up.
    """

    def __init__(self, *, warmup_steps: Annotated[int, Range(ge=0)] = 0) -> None:
        super().__init__(warmup_steps)

    def after_warmup(self, step: int) -> float:
        return 1.0
