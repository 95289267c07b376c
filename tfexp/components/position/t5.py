"""Learned relative biases, shared by all layers."""

import math
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from tfexp.components.base import Position, Signals
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range


@register("position", "t5", needs={"score_bias"}, gives={"relative", "extrapolates"})
class T5Bias(Position):
    """Add a learned number for each head and bucket of distances to the scores; nothing marks the embeddings.

    bias[h, i, j] = b[bucket(j - i), h]. Of the buckets of one direction the first half holds one distance each;
    the rest grow logarithmically, and everything from max_distance on falls into the last:

    bucket(n) = n for n < E, else min(E + floor(log(n / E) / log(max_distance / E) * E), 2 E - 1), E exact ones.

    Args:
        d_model: Width D, for the initial spread D^-0.5.
        n_heads: Query heads H.
        bidirectional: Half of the buckets are for keys that come after the query. Without, as in T5's decoder, all
            of them share the bucket of distance 0.
        n_buckets: Buckets of both directions together. Usual: 32.
        max_distance: Distances from here on are one, in tokens. Usual: 128.

    Shapes:
        signals: bias (H, T, S), or (B, H, T, S) where positions differ within the batch.
        n_buckets * H parameters for all layers of a stack; attention to an encoder has none.

    Source: Raffel et al., 2020, arXiv:1910.10683, section 2.1 and the authors' code.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        bidirectional: bool = True,
        n_buckets: Annotated[int, Range(ge=4)] = 32,
        max_distance: Annotated[int, Range(ge=1)] = 128,
    ) -> None:
        super().__init__()
        if bidirectional and n_buckets % 2:
            raise ConfigError(f"model.position=t5: n_buckets must be even to serve two directions, got {n_buckets}")
        n_exact = n_buckets // (4 if bidirectional else 2)
        if max_distance <= n_exact:
            raise ConfigError(
                f"model.position=t5: max_distance must be above the {n_exact} distances that have a bucket each, "
                f"got {max_distance}"
            )
        self.bidirectional, self.n_buckets, self.max_distance = bidirectional, n_buckets, max_distance
        self.std = d_model**-0.5
        self.table = nn.Parameter(torch.empty(n_buckets, n_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=self.std)

    def signals(self, query_positions: Tensor, key_positions: Tensor, dtype: torch.dtype) -> Signals:
        offset = key_positions.unsqueeze(-2) - query_positions.unsqueeze(-1)  # (T, S) or (B, T, S)
        bias = functional.embedding(self.buckets(offset), self.table)  # (T, S, H) or (B, T, S, H)
        return Signals(bias=bias.movedim(-1, -3).to(dtype))  # (H, T, S) or (B, H, T, S)

    def buckets(self, offset: Tensor) -> Tensor:
        """The bucket of each offset, key position minus query position."""
        if not self.bidirectional:
            return _bucket((-offset).clamp(min=0), self.n_buckets, self.max_distance)
        half = self.n_buckets // 2
        return _bucket(offset.abs(), half, self.max_distance) + half * (offset > 0)


def _bucket(distance: Tensor, n_buckets: int, max_distance: int) -> Tensor:
    n_exact = n_buckets // 2
    # In float32, as trained weights were: the border of a bucket may depend on the rounding.
    share = torch.log(distance.clamp(min=n_exact).float() / n_exact) / math.log(max_distance / n_exact)
    far = n_exact + (share * (n_buckets - n_exact)).long()
    return torch.where(distance < n_exact, distance, far.clamp(max=n_buckets - 1))
