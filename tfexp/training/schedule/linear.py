"""Linear decay."""

from typing import Annotated

from tfexp.registry import register
from tfexp.schema import Range
from tfexp.training.warmup import Schedule, progress_after


@register("schedule", "linear")
class Linear(Schedule):
    """Fall on a straight line from the full rate to `final_ratio` of it, which the step
    after the last would have: step k of n, from 0 and without warm-up, has gone k / n of the way.

    Args:
        max_steps: Optimizer steps of the run.
        warmup_steps: Optimizer steps of linear warm-up.
        final_ratio: What is left at the end, as a share of the peak.
    """

    def __init__(
        self,
        max_steps: int,
        *,
        warmup_steps: Annotated[int, Range(ge=0)] = 100,
        final_ratio: Annotated[float, Range(ge=0, le=1)] = 0.0,
    ) -> None:
        super().__init__(warmup_steps)
        self.max_steps, self.final_ratio = max_steps, final_ratio

    def after_warmup(self, step: int) -> float:
        done = progress_after(step, self.warmup_steps, self.max_steps)
        return 1.0 - (1.0 - self.final_ratio) * done
