"""Cosine decay."""

import math
from typing import Annotated

from tfexp.registry import register
from tfexp.schema import Range
from tfexp.training.warmup import Schedule, progress_after


@register("schedule", "cosine")
class Cosine(Schedule):
    """Fall along half a cosine from the full rate to `final_ratio` of it, which the step
    after the last would have: step k of n, from 0 and without warm-up, has gone k / n of the way.

    Args:
        max_steps: Optimizer steps of the run.
        warmup_steps: Optimizer steps of linear warm-up.
        final_ratio: What is left at the end, as a share of the peak. Usual: 0.1.

    Source: Loshchilov and Hutter, 2017, arXiv:1608.03983, without restarts.
    """

    def __init__(
        self,
        max_steps: int,
        *,
        warmup_steps: Annotated[int, Range(ge=0)] = 100,
        final_ratio: Annotated[float, Range(ge=0, le=1)] = 0.1,
    ) -> None:
        super().__init__(warmup_steps)
        self.max_steps, self.final_ratio = max_steps, final_ratio

    def after_warmup(self, step: int) -> float:
        done = progress_after(step, self.warmup_steps, self.max_steps)
        return self.final_ratio + (1.0 - self.final_ratio) * 0.5 * (1.0 + math.cos(math.pi * done))
