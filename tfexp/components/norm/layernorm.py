"""Layer normalisation."""

from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from tfexp.registry import register
from tfexp.schema import Range


@register("norm", "layernorm")
class LayerNorm(nn.Module):
    """Centre and scale the features of each token; no running statistics.

    y = (x - mean) / sqrt(var + eps) * weight + bias, with the biased variance.

    Args:
        d_model: Width D.
        eps: Keeps the division finite. Usual: 1e-5.
        eps_place: `inside` the root as above, or `sigma`: (x - mean) / (sqrt(var) + eps). The two
            differ where the spread is not far above eps.
        bias: Train a bias.

    Shapes:
        (..., D) -> (..., D). 2 D parameters, D without bias.

    Source: Ba et al., 2016, arXiv:1607.06450, section 3.
    """

    def __init__(
        self,
        d_model: int,
        *,
        eps: Annotated[float, Range(gt=0)] = 1e-5,
        eps_place: Literal["inside", "sigma"] = "inside",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.shape, self.eps, self.eps_place = (d_model,), eps, eps_place
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        if self.eps_place == "inside":
            return layer_norm(x, self.shape, self.weight, self.bias, self.eps)
        centred = x - x.mean(dim=-1, keepdim=True)
        sigma = centred.square().mean(dim=-1, keepdim=True)
        # sqrt has no gradient at 0; a constant token is then 0 / eps with gradient 0, as its limit.
        sigma = torch.where(sigma > 0, sigma, torch.ones_like(sigma)).sqrt() * (sigma > 0)
        y = centred / (sigma + self.eps) * self.weight
        return y if self.bias is None else y + self.bias
