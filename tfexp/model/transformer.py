"""The model: embedding -> position -> stack -> head."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tfexp.components.base import Embedding, Head, Position
from tfexp.errors import DataError
from tfexp.model.masks import positions_of, self_attention_context
from tfexp.model.spec import ModelSpec
from tfexp.model.stack import Stack


@dataclass(frozen=True)
class Output:
    """What a pass returns.

    Args:
        logits: (B, T, V).
        hidden: (B, T, D), what the head received.
    """

    logits: Tensor
    hidden: Tensor


class Transformer(nn.Module):
    """A decoder: token ids in, logits at every position out.

    Args:
        spec: The description it was built from.
        embedding: Token ids to vectors.
        position: Marks positions on embeddings, queries and keys, or scores.
        decoder: The stack.
        head: Hidden states to logits.
        dropout: Rate on the sum of token embedding and position.
    """

    def __init__(
        self, spec: ModelSpec, embedding: Embedding, position: Position, decoder: Stack, head: Head, dropout: float
    ) -> None:
        super().__init__()
        self.spec = spec
        self.embedding, self.position, self.decoder, self.head = embedding, position, decoder, head
        self.dropout = nn.Dropout(dropout)
        self.tokenizer: Any = None  # of the run it was loaded from; the model itself never uses it

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Output:
        """One pass.

        Args:
            input_ids: (B, T) int64.
            attention_mask: (B, T), True or 1 = a real token; None = all are.
            position_ids: (B, T); None = counted from each row's first real token.
        """
        if attention_mask is not None:
            attention_mask = attention_mask.to(torch.bool)
        self._check_length(input_ids, position_ids)
        positions = position_ids
        if positions is None:
            positions = positions_of(attention_mask, input_ids.shape[1], input_ids.device)
        x = self.dropout(self.position.embed(self.embedding(input_ids), positions))  # (B, T, D)
        context = self_attention_context(self.position, positions, attention_mask, x.dtype)
        hidden = self.decoder(x, context)  # (B, T, D)
        return Output(logits=self.head(hidden), hidden=hidden)

    def _check_length(self, input_ids: Tensor, position_ids: Tensor | None) -> None:
        # Before any lookup: on a GPU a bad index would leave the process unusable.
        limit, length = self.position.max_positions, input_ids.shape[1]
        if limit is None:
            return
        name = self.spec.position["name"]
        if position_ids is not None and position_ids.device.type == "cpu":
            first, last = int(position_ids.min()), int(position_ids.max())
            length = max(length, last + 1)
            if first < 0:
                choices = f"the positions 0 to {limit - 1} of position={name}"
                raise DataError(f"position_ids: {first} is not one of {choices}")
        if length > limit:
            raise DataError(f"input of {length} tokens is longer than the {limit} positions of position={name}")
