"""Token by token: what a decoder remembers between passes, and a pass over new tokens only."""

from collections.abc import Iterator
from copy import copy
from typing import cast

import torch
from torch import Tensor

from tfexp.components.state import AttentionState, StatePlan
from tfexp.errors import DataError
from tfexp.model.block import Block, Memory
from tfexp.model.masks import step_context
from tfexp.model.transformer import Output, Transformer


class DecodingState:
    """What one call has decoded so far: the state of every layer, the tokens and their positions.

    Nothing is shared between two states, so prompts can be served in turns. After an edit of an earlier
    token, `truncate` to the place of the edit and pass what follows again: a layer's state depends on
    every token before it.

    Args:
        model: A decoder, or an encoder-decoder.
        memory: Of an encoder-decoder: what `model.encode` gave.
        plan: How layers keep what they remember per token.
    """

    def __init__(self, model: Transformer, memory: Memory | None = None, plan: StatePlan | None = None) -> None:
        if model.decoder is None or (memory is None) != (model.source_embedding is None):
            raise DataError(
                f"decoding: architecture={model.spec.architecture} "
                + ("has no decoder" if model.decoder is None else "and the memory of an encoder do not go together")
            )
        self.memory = memory
        self.blocks = [cast(Block, block).init_state(plan or StatePlan()) for block in model.decoder.layers]
        self.ids: Tensor | None = None  # (B, S)
        self.positions: Tensor | None = None  # (S,) or (B, S)
        self.mask: Tensor | None = None  # (B, S) bool, True = a real token; None = all are

    @property
    def length(self) -> int:
        """Tokens so far, padding included."""
        return 0 if self.ids is None else self.ids.shape[1]

    @property
    def truncates(self) -> bool:
        """Whether every layer can be cut back; without, keep a `fork` and pass its tokens again."""
        return all(state.truncates for state in self._states())

    def fork(self) -> "DecodingState":
        """A state that goes on from here by itself, such as for a second text with the same beginning."""
        other = copy(self)
        other.blocks = [block.fork() for block in self.blocks]
        return other

    def reorder(self, rows: Tensor, same_sources: bool = False) -> None:
        """Keep these rows of the batch, in this order; a row may come several times.

        Args:
            rows: Indices.
            same_sources: Each row has the source of the row whose place it takes, as when hypotheses of one source
                change places: what belongs to the encoder stays where it is.
        """
        for block in self.blocks:
            block.attention.reorder(rows)
            if block.cross_attention is not None and not same_sources:
                block.cross_attention.reorder(rows)
        self.ids = None if self.ids is None else self.ids[rows]
        self.mask = None if self.mask is None else self.mask[rows]
        if self.positions is not None and self.positions.ndim == 2:
            self.positions = self.positions[rows]
        if self.memory is not None and not same_sources:
            self.memory = self.memory.rows(rows)

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        for state in self._states():
            state.truncate(length)
        self.ids = None if self.ids is None else self.ids[:, :length]
        self.mask = None if self.mask is None else self.mask[:, :length]
        self.positions = None if self.positions is None else self.positions[..., :length]

    def longest(self, limit: int | None) -> int:
        """Tokens of the longest row; looked up only where that matters, since rows may be padded."""
        if limit is None or self.mask is None or self.positions is None or self.length <= limit:
            return self.length
        return int(self.positions[:, -1].max()) + 1

    def numbers(self) -> int:
        """How many numbers the layers hold: 2 N B S G K for N layers of softmax attention."""
        return sum(state.numbers() for state in self._states())

    def n_bytes(self) -> int:
        """The memory of what the layers hold."""
        return sum(state.n_bytes() for state in self._states())

    def _states(self) -> Iterator[AttentionState]:
        for block in self.blocks:
            yield block.attention
            if block.cross_attention is not None:
                yield block.cross_attention

    def _extend(self, input_ids: Tensor, mask: Tensor | None) -> Tensor:
        """Add new tokens; returns their positions, (T,) or (B, T)."""
        before, n_new = self.length, input_ids.shape[1]
        if mask is not None and self.mask is None:
            self.mask = torch.ones(len(input_ids), before, dtype=torch.bool, device=input_ids.device)
        if self.mask is not None:
            new = torch.ones_like(input_ids, dtype=torch.bool) if mask is None else mask
            self.mask = torch.cat((self.mask, new), dim=1)
            self.positions = (self.mask.cumsum(dim=-1) - 1).clamp(min=0)  # (B, S): from each row's first real token
        else:
            self.positions = torch.arange(before + n_new, device=input_ids.device)
        self.ids = input_ids if self.ids is None else torch.cat((self.ids, input_ids), dim=1)
        return self.positions[..., before:]


def step(
    model: Transformer,
    input_ids: Tensor,
    state: DecodingState,
    attention_mask: Tensor | None = None,
    last_only: bool = False,
) -> Output:
    """Pass new tokens only; the rest is in the state, which grows by them.

    Prefilling is a step of many tokens on an empty state, and may be done in several.

    Args:
        model: In evaluation mode.
        input_ids: (B, T) new tokens.
        state: Of this call.
        attention_mask: (B, T), True or 1 = a real token; None = all are.
        last_only: Score the last token alone: logits (B, 1, V).

    Returns:
        Logits and hidden states of the new tokens, as a pass over everything would give them there.
    """
    assert model.decoder is not None
    mask = None if attention_mask is None else attention_mask.to(torch.bool)
    positions = state._extend(input_ids, mask)
    assert state.ids is not None
    assert state.positions is not None
    model.check_length(state.longest(model.position.max_positions))
    n_new, back = input_ids.shape[1], model.embedding.looks_back
    recent = slice(-min(state.length, n_new + back), None)  # what the embedding of the new tokens depends on
    tokens = model.embedding(state.ids[:, recent], state.positions[..., recent])[:, -n_new:]  # (B, T, D)
    x = model.position.embed(tokens, positions)
    context = step_context(model.position, positions, state.positions, state.mask, x.dtype)
    hidden = model.decoder(x, context, state.memory, state.blocks)
    return Output(model.head(hidden[:, -1:] if last_only else hidden), hidden)
