"""Tokens that are about as surprising as expected."""

import torch
from torch import Tensor


def typical(p: Tensor, mass: float) -> Tensor:
    """Keep, by the distance of -ln p from the entropy, the nearest until their mass reaches `mass`.

    Source: Meister et al., 2023, arXiv:2202.00666, section 4.
    """
    surprise = -p.log()
    entropy = torch.special.entr(p).sum(dim=-1, keepdim=True)
    distance, order = (surprise - entropy).abs().sort(dim=-1, stable=True)
    reached = p.gather(-1, order).cumsum(dim=-1)
    last = (reached < mass).sum(dim=-1, keepdim=True).clamp(max=p.shape[-1] - 1)  # the one that crosses it
    return (surprise - entropy).abs() <= distance.gather(-1, last)
