"""Rotary position embedding."""

import math
from typing import Annotated, Literal

import torch
from torch import Tensor

from tfexp.components.base import Position, Signals
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range


@register("position", "rope", needs={"query_key"}, gives={"relative", "extrapolates"})
class RoPE(Position):
    """Rotate pairs of query and key features by an angle that grows with the position.

    Pair (a, b) at position m: (a cos m th_i - b sin m th_i, a sin m th_i + b cos m th_i) with
    th_i = base^(-2i/head_dim), so that q.k depends on the distance of the two positions alone.

    Args:
        head_dim: Width of a head; even. An attention that lets positions rotate a part of its heads only hands
            over vectors of another width, which then stands in for head_dim in th_i.
        layout: `half_split` pairs feature i with i + head_dim/2 (Llama, GPT-NeoX); `interleaved`
            pairs 2i with 2i + 1, as in the paper. Weights trained with one do not fit the other.
        base: Longest wavelength over 2 pi, in positions. Usual: 10000; 500000 in Llama 3.

    Shapes:
        signals: rotates (B, H, T, K) queries and (B, H, S, K) keys. No parameters.

    Source: Su et al., 2021, arXiv:2104.09864, section 3.4.2.
    """

    def __init__(
        self,
        head_dim: int,
        *,
        layout: Literal["half_split", "interleaved"] = "half_split",
        base: Annotated[float, Range(gt=1)] = 10000.0,
    ) -> None:
        super().__init__()
        if head_dim % 2:
            raise ConfigError(f"model.position=rope rotates pairs: head_dim must be even, got {head_dim}")
        self.head_dim, self.layout, self.base = head_dim, layout, base

    def signals(self, query_positions: Tensor, key_positions: Tensor, dtype: torch.dtype) -> Signals:
        rotate_query = self._rotation(query_positions, dtype)
        same = key_positions is query_positions
        return Signals(query=rotate_query, key=rotate_query if same else self._rotation(key_positions, dtype))

    def _rotation(self, positions: Tensor, dtype: torch.dtype) -> "_Rotation":
        return _Rotation(positions, dtype, self.base, self.layout == "interleaved")


class _Rotation:
    """Rotates whatever width it is given, since an attention may hand over a part of its heads only.

    Cosines and sines are computed once for each width, and shared by the layers of a pass.
    """

    def __init__(self, positions: Tensor, dtype: torch.dtype, base: float, interleaved: bool) -> None:
        self.positions, self.dtype, self.base, self.interleaved = positions, dtype, base, interleaved
        self.tables: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, x: Tensor) -> Tensor:
        width = x.shape[-1]
        if width not in self.tables:
            self.tables[width] = self._table(width)
        return _rotate(*self.tables[width], self.interleaved, x)

    def _table(self, width: int) -> tuple[Tensor, Tensor]:
        step = torch.arange(width // 2, device=self.positions.device, dtype=torch.float64)
        frequency = torch.exp(step * (-2 * math.log(self.base) / width))
        angle = self.positions.to(torch.float64).unsqueeze(-1) * frequency  # (T, K/2) or (B, T, K/2)
        if angle.dim() == 3:
            angle = angle.unsqueeze(1)  # (B, 1, T, K/2): the same for every head
        return angle.cos().to(self.dtype), angle.sin().to(self.dtype)


def _rotate(cosine: Tensor, sine: Tensor, interleaved: bool, x: Tensor) -> Tensor:
    if interleaved:
        first, second = x[..., 0::2], x[..., 1::2]
        turned = (first * cosine - second * sine, first * sine + second * cosine)
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)  # (B, H, T, K)
    first, second = x.chunk(2, dim=-1)
    turned = (first * cosine - second * sine, first * sine + second * cosine)
    return torch.cat(turned, dim=-1).to(x.dtype)  # (B, H, T, K)
