"""Muon for the matrices inside blocks, AdamW for the rest."""

from collections.abc import Callable
from typing import Annotated, Any

import torch
from torch import nn

from tfexp.registry import register
from tfexp.schema import Range
from tfexp.training.parameter_groups import decay_groups


@register("optim", "muon")
def muon(
    model: nn.Module,
    *,
    lr: Annotated[float, Range(gt=0)] = 0.02,
    adamw_lr: Annotated[float, Range(gt=0)] = 3e-3,
    weight_decay: Annotated[float, Range(ge=0)] = 0.1,
    momentum: Annotated[float, Range(ge=0, lt=1)] = 0.95,
    beta1: Annotated[float, Range(ge=0, lt=1)] = 0.9,
    beta2: Annotated[float, Range(ge=0, lt=1)] = 0.99,
) -> torch.optim.Optimizer:
    """Orthogonalise the momentum of each matrix by Newton-Schulz steps and move along it.

    Embeddings, heads, norms and biases are left to AdamW, as the author advises.

    Args:
        model: Linear maps inside its blocks go to Muon.
        lr: Peak learning rate of Muon. Usual: 0.02.
        adamw_lr: Peak learning rate of the rest; the schedule scales both alike.
        weight_decay: Of matrices, in both.
        momentum: Nesterov momentum of Muon.
        beta1: Of AdamW.
        beta2: Of AdamW.

    Source: Jordan et al., 2024, "Muon: An optimizer for hidden layers in neural networks"; the
        Newton-Schulz step is torch.optim.Muon's.
    """
    hidden = {
        id(m.weight) for name, m in model.named_modules() if isinstance(m, nn.Linear) and ".layers." in f".{name}"
    }
    matrices = [p for p in model.parameters() if id(p) in hidden and p.requires_grad]
    rest = [(n, p) for n, p in model.named_parameters() if id(p) not in hidden]
    adamw = torch.optim.AdamW(decay_groups(rest, weight_decay), lr=adamw_lr, betas=(beta1, beta2), fused=True)
    if not matrices:
        return adamw
    return Together(torch.optim.Muon(matrices, lr=lr, weight_decay=weight_decay, momentum=momentum), adamw)


class Together(torch.optim.Optimizer):
    """Several optimizers that act as one: they step, are scheduled and are saved together."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self.optimizers = optimizers
        super().__init__([group for optimizer in optimizers for group in optimizer.param_groups], {})
        self._share_groups()

    def _share_groups(self) -> None:
        # The very same dicts: a learning rate that a scheduler sets here is set there.
        self.param_groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for optimizer in self.optimizers:
            optimizer.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for optimizer, state in zip(self.optimizers, state_dict["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self._share_groups()
