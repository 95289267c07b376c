"""A floor that follows the most probable token."""

from torch import Tensor


def min_p(p: Tensor, share: float) -> Tensor:
    """Keep what is at least `share` times as probable as the most probable token.

    Source: Nguyen et al., 2024, arXiv:2407.01082, section 3.
    """
    return p >= share * p.amax(dim=-1, keepdim=True)
