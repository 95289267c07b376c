"""The nucleus."""

import torch
from torch import Tensor

ROUNDING = 1e-12  # of a cumulated sum in float64: it must not add a token


def top_p(p: Tensor, mass: float) -> Tensor:
    """Keep the smallest set of most probable tokens whose mass reaches `mass`, the one that crosses it included.

    Source: Holtzman et al., 2020, arXiv:1904.09751, section 3.1.
    """
    ordered, order = p.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1) - ordered
    kept = before < mass - ROUNDING
    kept[:, 0] = True
    return torch.zeros_like(kept).scatter(-1, order, kept)
