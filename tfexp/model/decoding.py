"""Token by token: what a decoder remembers between passes, and a pass over new tokens only."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from tfexp.components.state import AttentionState, StatePlan
from tfexp.errors import DataError
from tfexp.model.block import Block, Memory
from tfexp.model.masks import positions_of, step_context
from tfexp.model.tokens import token_vectors
from tfexp.model.transformer import Output, Transformer, check_shapes


@dataclass(frozen=True)
class Text:
    """The tokens that were read, padding included.

    Args:
        ids: (B, S).
        positions: (S,) or (B, S), from each row's first real token.
        mask: (B, S) bool, True = a real token; None = all are.
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor | None

    def rows(self, which: Tensor) -> "Text":
        """These rows of the batch, in this order."""
        positions = self.positions if self.positions.ndim == 1 else self.positions[which]
        return Text(self.ids[which], positions, None if self.mask is None else self.mask[which])

    def until(self, length: int) -> "Text":
        """The first tokens."""
        mask = None if self.mask is None else self.mask[:, :length]
        return Text(self.ids[:, :length], self.positions[..., :length], mask)

    def longest(self, limit: int | None) -> int:
        """Tokens of the longest row; looked up only where that matters, since rows may be padded."""
        length = self.ids.shape[1]
        if limit is None or self.mask is None or length <= limit:
            return length
        return int(self.positions[:, -1].max()) + 1

    def vectors(self, model: Transformer, n_new: int) -> Tensor:
        """(B, T, D): what the model's embedding makes of the last T tokens."""
        back, mask = model.embedding.looks_back, self.mask
        first = max(0, self.ids.shape[1] - n_new - back)  # what the new vectors depend on begins here,
        if back and mask is not None and bool((~mask & (mask.cumsum(dim=1) > 0)).any()):
            first = 0  # unless padding stands between
        recent = None if mask is None else mask[:, first:]
        return token_vectors(model.embedding, self.ids[:, first:], recent, self.positions[..., first:])[:, -n_new:]


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
        self.text: Text | None = None  # None = nothing was read yet

    @property
    def length(self) -> int:
        """Tokens so far, padding included."""
        return 0 if self.text is None else self.text.ids.shape[1]

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
        self.text = None if self.text is None else self.text.rows(rows)
        if self.memory is not None and not same_sources:
            self.memory = self.memory.rows(rows)

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        for state in self._states():
            state.truncate(length)
        self.text = None if self.text is None else self.text.until(length)

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

    def extended(self, input_ids: Tensor, mask: Tensor | None) -> Text:
        """The text with new tokens added; the state stays as it is.

        Raises:
            DataError: They are not a row for each row that is held.
        """
        n_rows = len(self.memory.states) if self.memory is not None and self.text is None else None
        n_rows = n_rows if self.text is None else len(self.text.ids)
        if n_rows not in (None, len(input_ids)):
            raise DataError(f"decoding: {len(input_ids)} rows of new tokens for {n_rows} rows that were read")
        check_shapes(input_ids, attention_mask=mask)
        held = None if self.text is None else self.text.mask
        if mask is not None or held is not None:
            parts = (held, self.length), (mask, input_ids.shape[1])
            held = torch.cat([_filled(m, len(input_ids), n, input_ids.device) for m, n in parts], dim=1)  # (B, S)
        ids = input_ids if self.text is None else torch.cat((self.text.ids, input_ids), dim=1)
        return Text(ids, positions_of(held, ids.shape[1], ids.device), held)


def _filled(mask: Tensor | None, n_rows: int, n_tokens: int, device: torch.device) -> Tensor:
    return torch.ones(n_rows, n_tokens, dtype=torch.bool, device=device) if mask is None else mask


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

    Raises:
        DataError: More tokens than the positions reach, or not a row for each row; the state is as before.
    """
    assert model.decoder is not None
    text = state.extended(input_ids, None if attention_mask is None else attention_mask.to(torch.bool))
    model.check_length(text.longest(model.position.max_positions))
    n_new = input_ids.shape[1]
    positions = text.positions[..., -n_new:]
    x = model.position.embed(text.vectors(model, n_new), positions)  # (B, T, D)
    context = step_context(model.position, positions, text.positions, text.mask, x.dtype)
    try:
        hidden = model.decoder(x, context, state.memory, state.blocks)
    except BaseException:
        # Some layers have read the new tokens and some have not.
        if state.truncates:
            state.truncate(state.length)
        raise
    state.text = text
    return Output(model.head(hidden[:, -1:] if last_only else hidden), hidden)
