"""Fixed sines and cosines of the position."""

import math
from typing import Annotated, Literal

import torch
from torch import Tensor

from tfexp.components.base import Position, note
from tfexp.registry import register
from tfexp.schema import Range


@register("position", "sinusoidal", gives={"absolute", "extrapolates"})
class Sinusoidal(Position):
    """Add sines and cosines of different frequencies to the token embeddings.

    PE(pos, 2i) = sin(pos / base^(2i/d_model)),  PE(pos, 2i+1) = cos(pos / base^(2i/d_model));
    positions start at 0.

    Args:
        d_model: Width; even.
        layout: `interleaved` as in the paper (sin, cos, sin, cos, ...), or `halves` (all sines, then
            all cosines; the same frequencies), as Marian has it.
        base: Longest wavelength over 2 pi, in positions. Usual: 10000.

    Shapes:
        embed: (B, T, D), positions (T,) or (B, T) -> (B, T, D). No parameters.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.5.
    """

    def __init__(
        self,
        d_model: int,
        *,
        layout: Literal["interleaved", "halves"] = "interleaved",
        base: Annotated[float, Range(gt=1)] = 10000.0,
    ) -> None:
        super().__init__()
        self.d_model, self.layout, self.base = d_model, layout, base

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + note("position", self.table(positions).to(x.dtype))

    def table(self, positions: Tensor) -> Tensor:
        """Encodings of these positions: (...,) -> (..., D) float64."""
        n_sines, n_cosines = (self.d_model + 1) // 2, self.d_model // 2
        step = torch.arange(n_sines, device=positions.device, dtype=torch.float64)
        frequency = torch.exp(step * (-2 * math.log(self.base) / self.d_model))
        angle = positions.to(torch.float64).unsqueeze(-1) * frequency  # (..., D/2)
        sine, cosine = angle.sin(), angle[..., :n_cosines].cos()
        if self.layout == "halves":
            return torch.cat((sine, cosine), dim=-1)
        table = angle.new_empty(*positions.shape, self.d_model)
        table[..., 0::2], table[..., 1::2] = sine, cosine
        return table
