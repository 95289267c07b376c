"""The initialisation of the Transformer of 2017."""

import torch
from torch import Tensor, nn

from tfexp.components.base import Init, Role
from tfexp.registry import register


@register("init", "xavier")
class XavierInit(Init):
    """Xavier uniform matrices; embeddings N(0, 1 / d_model), meant to be scaled by sqrt(d_model).

    W ~ U(-a, a) with a = sqrt(6 / (n_in + n_out)).

    Source: Glorot and Bengio, 2010, section 4.2.1; embeddings as in the authors' tensor2tensor.
    """

    def linear(self, weight: Tensor, role: Role, generator: torch.Generator) -> None:
        nn.init.xavier_uniform_(weight, generator=generator)

    def embedding(self, weight: Tensor, generator: torch.Generator) -> None:
        weight.normal_(0.0, weight.shape[-1] ** -0.5, generator=generator)
