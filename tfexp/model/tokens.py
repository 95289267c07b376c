"""Vectors of real tokens, which nothing at a padded place can change."""

import torch
from torch import Tensor

from tfexp.components.base import Embedding


def token_vectors(embedding: Embedding, input_ids: Tensor, mask: Tensor | None, positions: Tensor) -> Tensor:
    """Look up tokens as if the padding were not there.

    What a padded place holds is not read at all: a huge or infinite vector would come back as 0 * inf, both
    in sums over masked keys and in gradients. A real token's vector stands there instead.

    Args:
        embedding: Token ids to vectors.
        input_ids: (B, T).
        mask: (B, T) bool, True = a real token; None = all are.
        positions: (T,) or (B, T).

    Returns:
        (B, T, D); those of padded places are finite and mean nothing.
    """
    if mask is None:
        return embedding(input_ids, positions)
    some_real = input_ids.flatten()[mask.flatten().to(torch.uint8).argmax()]
    input_ids = torch.where(mask, input_ids, some_real)
    if not embedding.looks_back:
        return embedding(input_ids, positions)
    # Real tokens side by side, since the one before a gap is the neighbour of the one after it.
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)  # (B, T)
    vectors = embedding(input_ids.gather(1, order), positions.expand_as(input_ids).gather(1, order))
    back = order.argsort(dim=1).unsqueeze(-1)  # (B, T, 1)
    return vectors.gather(1, back.expand_as(vectors))  # (B, T, D)
