"""Adam with decoupled weight decay."""

from typing import Annotated

import torch
from torch import nn

from tfexp.registry import register
from tfexp.schema import Range
from tfexp.training.parameter_groups import decay_groups


@register("optim", "adamw")
def adamw(
    model: nn.Module,
    *,
    lr: Annotated[float, Range(gt=0)] = 1e-3,
    weight_decay: Annotated[float, Range(ge=0)] = 0.1,
    beta1: Annotated[float, Range(ge=0, lt=1)] = 0.9,
    beta2: Annotated[float, Range(ge=0, lt=1)] = 0.99,
    eps: Annotated[float, Range(gt=0)] = 1e-8,
) -> torch.optim.Optimizer:
    """Divide the mean of the gradient by the root of its mean square; shrink matrices besides.

    Args:
        model: Its matrices are decayed, its vectors and scalars are not.
        lr: Peak learning rate; the schedule multiplies it.
        weight_decay: Decay per step is lr * weight_decay. Usual: 0.1.
        beta1: Memory of the mean. Usual: 0.9.
        beta2: Memory of the mean square. Usual: 0.95 to 0.999.
        eps: Added to the root.

    Source: Kingma and Ba, 2015, arXiv:1412.6980; Loshchilov and Hutter, 2019, arXiv:1711.05101.
    """
    groups = decay_groups(list(model.named_parameters()), weight_decay)
    return torch.optim.AdamW(groups, lr=lr, betas=(beta1, beta2), eps=eps, fused=True)
