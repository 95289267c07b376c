"""One vector per token, and one for each n-gram that ends there."""

import math
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from tfexp.components.base import Embedding
from tfexp.registry import register
from tfexp.schema import Range

MULTIPLIER = 1_000_003  # odd, so that every earlier token moves the hash; products wrap around at 2^64


@register("embedding", "ngram")
class NgramEmbedding(Embedding):
    """Add to each token's vector those of the n-grams that end at it, looked up by a hash.

    x_t = E[id_t] + sum_{n=2}^{max_n} E_n[ hash(id_{t-n+1}, .., id_t) mod buckets ]

    An n-gram that would begin before the text does not count. Characters and bytes gain most: what a
    subword vocabulary fixes before training is learned here. Only earlier tokens are read, so a decoder
    may use it.

    Args:
        vocab_size: Rows V of E.
        d_model: Width D.
        max_n: Longest n-gram.
        buckets: Rows of each table E_n; different n-grams may share one.
        scale: Multiply E's part by sqrt(d_model), as the Transformer of 2017 does; the tables of
            n-grams, too.

    Shapes:
        (B, T) int64, positions (T,) or (B, T) -> (B, T, D). (V + (max_n - 1) buckets) D parameters, of
        which a tied head shares V D.

    Source: Pagnoni et al., 2024, arXiv:2412.09871, section 3.2.1 (hash n-gram embeddings of bytes); Huang
        et al., 2025, arXiv:2501.16975, section 3.1; for classes Bojanowski et al., 2017, arXiv:1607.04606.
    Differs: the sum is not divided by the number of tables.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        *,
        max_n: Annotated[int, Range(ge=2)] = 4,
        buckets: Annotated[int, Range(ge=1)] = 8192,
        scale: bool = False,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.grams = nn.ModuleList(nn.Embedding(buckets, d_model) for _ in range(max_n - 1))
        self.buckets, self.looks_back = buckets, max_n - 1
        self.factor = math.sqrt(d_model) if scale else 1.0

    def table(self) -> nn.Parameter:
        assert isinstance(self.token.weight, nn.Parameter)
        return self.token.weight

    def forward(self, input_ids: Tensor, positions: Tensor | None = None) -> Tensor:
        if positions is None:
            positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x, code = self.token(input_ids), input_ids
        for before, table in enumerate(self.grams, start=1):
            earlier = functional.pad(input_ids, (before, 0))[:, : input_ids.shape[1]]  # (B, T): `before` tokens ago
            code = code * MULTIPLIER + earlier + 1
            found = table(code.remainder(self.buckets))  # (B, T, D)
            x = x + found.masked_fill((positions < before).unsqueeze(-1), 0.0)
        return x if self.factor == 1.0 else x * self.factor
