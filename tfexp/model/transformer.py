"""The model: embedding -> position -> stack -> head, on one side or on two."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tfexp.components.base import AttentionContext, Embedding, Head, Pooling, Position
from tfexp.components.dropout import Dropout, TokenDropout
from tfexp.errors import DataError
from tfexp.model.block import Memory
from tfexp.model.ends import Ends
from tfexp.model.masks import cross_attention_context, positions_of, self_attention_context
from tfexp.model.mode import Precision
from tfexp.model.spec import ModelSpec
from tfexp.model.stack import Stack
from tfexp.model.tokens import token_vectors


@dataclass(frozen=True)
class Output:
    """What a pass returns.

    Args:
        logits: (B, T, V) of a head that scores tokens, (N, V) of N chosen positions, or (B, C) of one
            that scores sequences.
        hidden: (B, T, D), the last stack's output.
    """

    logits: Tensor
    hidden: Tensor


@dataclass
class Inputs:
    """How a side turns ids into vectors.

    Args:
        embedding: Token ids to vectors.
        position: Marks positions on embeddings, queries and keys, or scores.
        position_name: For messages.
        dropout: Rate on the sum of token embedding and position.
        token_dropout: Rate on whole tokens, before positions are added.
    """

    embedding: Embedding
    position: Position
    position_name: str
    dropout: float
    token_dropout: float = 0.0


class Transformer(nn.Module):
    """An encoder, a decoder, or both.

    The parameters of an encoder-decoder's source side are `source_embedding` (the same as `embedding`
    where they are shared) and `source_position`.

    Args:
        spec: The description it was built from.
        inputs: Of the only side, or of the target side.
        stacks: `encoder`, `decoder` or both.
        head: Hidden states to logits.
        pooling: States of a sequence to one vector, for heads that score sequences.
        source: Inputs of the encoder where there is a decoder, too.
    """

    def __init__(
        self,
        spec: ModelSpec,
        inputs: Inputs,
        stacks: Mapping[str, Stack],
        head: Head,
        pooling: Pooling | None = None,
        source: Inputs | None = None,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.embedding, self.position = inputs.embedding, inputs.position
        self.source_embedding = source.embedding if source else None
        self.source_position = source.position if source else None
        self.encoder, self.decoder = stacks.get("encoder"), stacks.get("decoder")
        self.head, self.pooling = head, pooling
        self.dropout, self.token_dropout = Dropout(inputs.dropout), TokenDropout(inputs.token_dropout)
        self.source_dropout = Dropout(source.dropout) if source else None
        self.source_token_dropout = TokenDropout(source.token_dropout) if source else None
        self._position_name, self._source_position_name = inputs.position_name, source.position_name if source else ""
        self.tokenizer: Any = None  # of the run it was loaded from; the model itself never uses it
        self.precision: Precision | None = None  # of the run it was loaded from, for generating as it was evaluated
        self.ends: Ends | None = None  # of an imported model; a tokenizer knows its own

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        document_ids: Tensor | None = None,
        logits_at: Tensor | None = None,
    ) -> Output:
        """One pass.

        Args:
            input_ids: (B, T) int64; of an encoder-decoder the source, (B, S).
            attention_mask: As input_ids, True or 1 = a real token; None = all are.
            position_ids: As input_ids; None = counted from the first real token of each row or document.
            decoder_input_ids: (B, T) int64, the target so far; of an encoder-decoder only.
            decoder_attention_mask: (B, T); may be left out where padding is on the right and the head scores
                positions, since a real token never sees what comes after it.
            document_ids: As input_ids, of a model of one side: attention stays inside a document, whose
                positions start anew. None = one document a row.
            logits_at: (B, T), True or 1 = score this position, in order; None = all.

        Raises:
            DataError: A sequence is longer than its positions; an argument is missing, not for this model, or not
                of the shape of the ids.
        """
        self._refuse_unread(decoder_input_ids, decoder_attention_mask, document_ids, logits_at)
        check_shapes(input_ids, attention_mask=attention_mask, position_ids=position_ids, document_ids=document_ids)
        if decoder_input_ids is not None:
            check_shapes(decoder_input_ids, decoder_attention_mask=decoder_attention_mask)
        check_shapes(input_ids if decoder_input_ids is None else decoder_input_ids, logits_at=logits_at)
        if self.source_embedding is None:
            hidden, mask = self._one_side(input_ids, attention_mask, position_ids, document_ids)
        else:
            if decoder_input_ids is None:
                raise DataError("decoder_input_ids: an encoder-decoder needs the target so far, at least its start")
            mask = _as_bool(decoder_attention_mask)
            memory = self.encode(input_ids, attention_mask, position_ids)
            hidden = self.decode(decoder_input_ids, memory, mask)  # (B, T, D)
        if self.pooling is not None:
            return Output(self.head(self.pooling(hidden, mask)), hidden)  # (B, C)
        chosen = _as_bool(logits_at)
        return Output(self.head(hidden if chosen is None else hidden[chosen]), hidden)

    def encode(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Memory:
        """The source side of an encoder-decoder: what every layer of the decoder reads."""
        assert self.encoder is not None
        assert isinstance(self.source_embedding, Embedding)
        assert isinstance(self.source_position, Position)
        assert self.source_dropout is not None
        assert self.source_token_dropout is not None
        check_shapes(input_ids, attention_mask=attention_mask, position_ids=position_ids)
        mask = _as_bool(attention_mask)
        self._check_length(self.source_position, self._source_position_name, input_ids, position_ids)
        positions = _positions(input_ids, mask, position_ids)
        tokens = self.source_token_dropout(
            token_vectors(self.source_embedding, input_ids, mask, positions)
        )  # (B, S, D)
        x = self.source_dropout(self.source_position.embed(tokens, positions))
        context = self_attention_context(self.source_position, positions, mask, x.dtype, causal=False)
        return Memory(self.encoder(x, context), cross_attention_context(mask, x.dtype))  # (B, S, D)

    def decode(self, input_ids: Tensor, memory: Memory, mask: Tensor | None = None) -> Tensor:
        """The target side of an encoder-decoder: (B, T) -> hidden states (B, T, D)."""
        assert self.decoder is not None
        x, context = self._enter(input_ids, mask, None, None, causal=True)
        return self.decoder(x, context, memory)

    def check_length(self, length: int) -> None:
        """Refuse more tokens than the (target side's) positions reach."""
        limit = self.position.max_positions
        if limit is not None and length > limit:
            name = self._position_name
            raise DataError(f"input of {length} tokens is longer than the {limit} positions of position={name}")

    def _one_side(
        self, input_ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None, document_ids: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None
        mask = _as_bool(attention_mask)
        x, context = self._enter(input_ids, mask, position_ids, document_ids, causal=self.decoder is not None)
        return stack(x, context), mask  # (B, T, D)

    def _enter(
        self,
        input_ids: Tensor,
        mask: Tensor | None,
        position_ids: Tensor | None,
        document_ids: Tensor | None,
        causal: bool,
    ) -> tuple[Tensor, AttentionContext]:
        self._check_length(self.position, self._position_name, input_ids, position_ids)
        positions = _positions(input_ids, mask, position_ids, document_ids)
        tokens = self.token_dropout(token_vectors(self.embedding, input_ids, mask, positions))  # (B, T, D)
        x = self.dropout(self.position.embed(tokens, positions))
        return x, self_attention_context(self.position, positions, mask, x.dtype, causal, document_ids)

    def _refuse_unread(
        self,
        decoder_input_ids: Tensor | None,
        decoder_attention_mask: Tensor | None,
        document_ids: Tensor | None,
        logits_at: Tensor | None,
    ) -> None:
        unread = {"decoder_input_ids": decoder_input_ids, "decoder_attention_mask": decoder_attention_mask}
        if self.source_embedding is not None:
            unread = {"document_ids": document_ids}
        if self.pooling is not None:
            unread["logits_at"] = logits_at
        for argument, value in unread.items():
            if value is not None:
                kind = f"architecture={self.spec.architecture} and head={self.spec.head['name']}"
                raise DataError(f"{argument}: a model with {kind} does not read it; leave it out")

    @staticmethod
    def _check_length(position: Position, name: str, input_ids: Tensor, position_ids: Tensor | None) -> None:
        # Before any lookup: on a GPU a bad index would leave the process unusable.
        limit, length = position.max_positions, input_ids.shape[1]
        if limit is None:
            return
        if position_ids is not None and position_ids.numel() and position_ids.device.type == "cpu":
            first, last = int(position_ids.min()), int(position_ids.max())
            length = last + 1
            if first < 0:
                choices = f"the positions 0 to {limit - 1} of position={name}"
                raise DataError(f"position_ids: {first} is not one of {choices}")
        if length > limit:
            raise DataError(f"input of {length} tokens is longer than the {limit} positions of position={name}")


def check_shapes(ids: Tensor, **arguments: Tensor | None) -> None:
    """Refuse what does not say one thing for each token; broadcast, it would say something else."""
    for name, value in arguments.items():
        if value is not None and value.shape != ids.shape:
            raise DataError(f"{name}: has shape {tuple(value.shape)}, the tokens have {tuple(ids.shape)}")


def _positions(
    input_ids: Tensor, mask: Tensor | None, position_ids: Tensor | None, document_ids: Tensor | None = None
) -> Tensor:
    if position_ids is not None:
        return position_ids
    return positions_of(mask, input_ids.shape[1], input_ids.device, document_ids)


def _as_bool(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask.to(torch.bool)
