"""Which parameters are decayed: matrices are, vectors and scalars are not."""

from typing import Any

from torch import nn


def decay_groups(named: list[tuple[str, nn.Parameter]], weight_decay: float) -> list[dict[str, Any]]:
    """Two groups, each parameter in exactly one; a tied matrix counts once.

    Args:
        named: As `named_parameters()` gives them.
        weight_decay: For parameters with at least two axes.
    """
    trained = [p for _, p in named if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
