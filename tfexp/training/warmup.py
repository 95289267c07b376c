"""What all schedules have in common: a linear warm-up, counted in optimizer steps."""


class Schedule:
    """A factor on the learning rate for each optimizer step, from step 0 on.

    Args:
        warmup_steps: The factor rises linearly over so many steps; step 0 already has 1 / warmup_steps,
            and the last of them the full rate.
    """

    def __init__(self, warmup_steps: int) -> None:
        self.warmup_steps = warmup_steps

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        return self.after_warmup(step)

    def after_warmup(self, step: int) -> float:
        raise NotImplementedError


def progress_after(step: int, warmup_steps: int, max_steps: int) -> float:
    """How far a step is between the end of the warm-up (0) and the end of training (1)."""
    return min(1.0, (step - warmup_steps) / max(1, max_steps - warmup_steps))
