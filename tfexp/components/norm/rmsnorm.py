"""Root-mean-square normalisation."""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from tfexp.registry import register
from tfexp.schema import Range


@register("norm", "rmsnorm")
class RMSNorm(nn.Module):
    """Scale the features of each token by their root mean square; the mean is not removed.

    y = x / sqrt(mean(x^2) + eps) * weight.

    Args:
        d_model: Width D.
        eps: Keeps the division finite. Usual: 1e-6, 1e-5 in Llama 2.

    Shapes:
        (..., D) -> (..., D). D parameters.

    Source: Zhang and Sennrich, 2019, arXiv:1910.07467, section 4.
    """

    def __init__(self, d_model: int, *, eps: Annotated[float, Range(gt=0)] = 1e-6) -> None:
        super().__init__()
        self.shape, self.eps = (d_model,), eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.shape, self.weight.to(x.dtype), self.eps)
