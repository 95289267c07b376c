"""A floor on probabilities."""

from torch import Tensor


def epsilon(p: Tensor, floor: float) -> Tensor:
    """Keep what is at least as probable as `floor`, and always the most probable token.

    Source: Hewitt et al., 2022, arXiv:2210.15191, section 4.
    """
    return (p >= floor) | (p >= p.amax(dim=-1, keepdim=True))
