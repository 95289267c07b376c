"""The k most probable tokens."""

from torch import Tensor


def top_k(p: Tensor, k: int) -> Tensor:
    """Keep the k largest; of equals at the edge, all.

    Source: Fan et al., 2018, arXiv:1805.04833, section 5.4.
    """
    return p >= p.topk(min(k, p.shape[-1]), dim=-1).values[:, -1:]
