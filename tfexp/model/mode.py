"""How a model is run when it is not trained: evaluation mode, and the arithmetic of its precision."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch
from torch import nn

Precision = Literal["32-true", "bf16-mixed"]


def arithmetic(device: torch.device, precision: Precision | None) -> AbstractContextManager[object]:
    """What Lightning computes with for a precision in training; None = whatever is set around."""
    if precision is None:
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Dropout and the like are off inside; afterwards every part is in the mode that it was in, also after an error."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:  # one by one: parts may be frozen in evaluation mode
            module.training = True


@contextmanager
def evaluating(model: nn.Module, precision: Precision | None) -> Iterator[None]:
    """Evaluation mode, no gradients, and the arithmetic of a precision."""
    device = next(model.parameters()).device
    with evaluation_mode(model), torch.no_grad(), arithmetic(device, precision):
        yield
