"""The initialisation of GPT-2."""

from typing import Annotated

import torch
from torch import Tensor

from tfexp.components.base import Init, Role
from tfexp.registry import register
from tfexp.schema import Range


@register("init", "gpt2")
class GPT2Init(Init):
    """Normal with a fixed spread; projections into the residual path shrink with depth.

    W ~ N(0, std^2), and N(0, std^2 / (2 n_layers)) for a sublayer's last projection, so that the
    variance of the residual stream does not grow with the number of sublayers.

    Args:
        n_layers: Blocks in the stack.
        std: Standard deviation of weights and embeddings. Usual: 0.02.

    Source: Radford et al., 2019, "Language Models are Unsupervised Multitask Learners", section 2.3.
    """

    def __init__(self, n_layers: int, *, std: Annotated[float, Range(gt=0)] = 0.02) -> None:
        self.std, self.residual_std = std, std * (2 * n_layers) ** -0.5

    def linear(self, weight: Tensor, role: Role, generator: torch.Generator) -> None:
        weight.normal_(0.0, self.residual_std if role == "residual" else self.std, generator=generator)

    def embedding(self, weight: Tensor, generator: torch.Generator) -> None:
        weight.normal_(0.0, self.std, generator=generator)
