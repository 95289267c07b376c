"""Stochastic gradient descent."""

from typing import Annotated

import torch
from torch import nn

from tfexp.registry import register
from tfexp.schema import Range
from tfexp.training.parameter_groups import decay_groups


@register("optim", "sgd")
def sgd(
    model: nn.Module,
    *,
    lr: Annotated[float, Range(gt=0)] = 0.1,
    weight_decay: Annotated[float, Range(ge=0)] = 0.0,
    momentum: Annotated[float, Range(ge=0, lt=1)] = 0.9,
) -> torch.optim.Optimizer:
    """Follow the gradient, with momentum: the plainest reference.

    Args:
        model: Its matrices are decayed, its vectors and scalars are not.
        lr: Peak learning rate; the schedule multiplies it.
        weight_decay: Of matrices.
        momentum: Share of the last step that is kept.

    Source: Robbins and Monro, 1951; Sutskever et al., 2013 (momentum).
    """
    return torch.optim.SGD(decay_groups(list(model.named_parameters()), weight_decay), lr=lr, momentum=momentum)
