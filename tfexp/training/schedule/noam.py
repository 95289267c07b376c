"""The schedule of the Transformer of 2017."""

from typing import Annotated

from tfexp.registry import register
from tfexp.schema import Range


@register("schedule", "noam")
class Noam:
    """lr = optim.lr * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), steps counted from 1.

    With optim.lr = 1 this is the paper's rate; its peak, at the end of the warm-up, is
    (d_model * warmup_steps)^-0.5: 6.98771e-4 for d_model = 512 and 4000 steps.

    Args:
        d_model: Width of the model.
        warmup_steps: Usual: 4000.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 5.3, equation 3.
    """

    def __init__(self, d_model: int, *, warmup_steps: Annotated[int, Range(ge=1)] = 4000) -> None:
        self.d_model, self.warmup_steps = d_model, warmup_steps

    def __call__(self, step: int) -> float:
        count = step + 1
        return self.d_model**-0.5 * min(count**-0.5, count * self.warmup_steps**-1.5)
