"""Attention without a softmax, as a recurrence over tokens: one token at a time, or many at once in chunks.

    S_t = a_t S_(t-1) + k_t v_t^T,  o_t = q_t S_t

with a decay 0 < a_t <= 1 for each head. Within a chunk of C tokens the same is a masked product like
attention; between chunks only S (K, V) is handed on. One chunk of all tokens is the parallel form, a chunk
of one the recurrence. All forms give the same numbers; a test holds them together.

Leading axes are (B, G, R): key/value heads G and the R = H / G query heads that share each. Keys, values and
S have R = 1.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from tfexp.components.base import AttentionContext

Form = Literal["auto", "parallel", "recurrent", "chunked"]


def full_precision(x: Tensor) -> Any:
    """Autocast off: sums over a whole text are not for half precision."""
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return nullcontext()
    return torch.autocast(kind, enabled=False)


def widened(x: Tensor) -> Tensor:
    """In float32 at least."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def grouped(heads: Tensor, n_groups: int) -> Tensor:
    """(B, H, T, K) -> (B, G, H/G, T, K): consecutive query heads share a key/value head."""
    return heads.unflatten(1, (n_groups, -1))


def real_tokens(context: AttentionContext) -> Tensor | None:
    """(B, 1, 1, T, 1) bool, True = a real token; None = all are."""
    return None if context.real is None else context.real[:, None, None, :, None]


def resolved(form: Form, n_tokens: int, chunk: int) -> tuple[bool, int]:
    """Whether to go token by token, and else the tokens of a chunk."""
    if form == "recurrent" or (form == "auto" and n_tokens == 1):
        return True, 1
    return False, chunk if form != "parallel" and n_tokens > chunk else n_tokens


# --- chunks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decay:
    """How much of what one token leaves is still there at another, in chunks.

    Args:
        between: (..., N, C, C), of token s at token t; 0 for s > t, and across the start of a document.
        since: (..., N, C, 1), of what came before the chunk, at token t.
        until: (..., N, C, 1), of token s, at the end of the chunk.
        through: (..., N, 1, 1), of what came before the chunk, at its end.
    """

    between: Tensor
    since: Tensor
    until: Tensor
    through: Tensor


def chunks_of(x: Tensor, size: int) -> Tensor:
    """(..., T, K) -> (..., N, C, K), filled up with zeros, which change nothing."""
    missing = -x.shape[-2] % size
    if missing:
        x = functional.pad(x, (0, 0, 0, missing))
    return x.unflatten(-2, (-1, size))


def joined(chunks: Tensor, n_tokens: int) -> Tensor:
    """(..., N, C, K) -> (..., T, K)."""
    return chunks.flatten(-3, -2)[..., :n_tokens, :]


def decay_in_chunks(log_decay: Tensor, starts: Tensor | None, size: int) -> Decay:
    """Products of decays between any two tokens of a chunk.

    Args:
        log_decay: (..., T, 1), log a_t.
        starts: (B, 1, 1, T, 1) bool, True = nothing earlier is left; None = nowhere.
        size: C.
    """
    total = chunks_of(log_decay, size).cumsum(dim=-2)  # (..., N, C, 1)
    order = torch.arange(size, device=total.device)
    seen = order[:, None] >= order  # (C, C)
    between = total - total.mT
    since, until = total, total[..., -1:, :] - total
    through = total[..., -1:, :]
    if starts is not None:
        document = chunks_of(starts.long(), size).cumsum(dim=-2)  # (B, 1, 1, N, C, 1), counted within the chunk
        last = document[..., -1:, :]
        seen = seen & (document == document.mT)
        since = since.masked_fill(document > 0, -torch.inf)
        until = until.masked_fill(document < last, -torch.inf)
        through = through.masked_fill(last > 0, -torch.inf)
    # Before exp: what is not seen lies in the other direction and may overflow.
    between = torch.where(seen, between, -torch.inf)
    return Decay(between.exp(), since.exp(), until.exp(), through.exp())


def in_chunks(
    query: Tensor, key: Tensor, value: Tensor, decay: Decay, state: Tensor | None, size: int
) -> tuple[Tensor, Tensor]:
    """The parallel or chunked form.

    Args:
        query: (B, G, R, T, K).
        key: (B, G, 1, T, K).
        value: (B, G, 1, T, V).
        decay: Of chunks of this size.
        state: S before the first token, (B, G, 1, K, V); None = zeros.
        size: C.

    Returns:
        o (B, G, R, T, V) and S after the last token.
    """
    n_tokens = query.shape[-2]
    query, key, value = chunks_of(query, size), chunks_of(key, size), chunks_of(value, size)
    out = (query @ key.mT * decay.between) @ value  # (B, G, R, N, C, V)
    added = (key * decay.until).mT @ value  # (B, G, 1, N, K, V)
    if state is None and added.shape[-3] == 1:
        return joined(out, n_tokens), added.squeeze(-3)
    before, after = handed_on(state, added, lambda n, s: decay.through[..., n, :, :] * s + added[..., n, :, :])
    return joined(out + (query * decay.since) @ before, n_tokens), after


def handed_on(state: Tensor | None, like: Tensor, after: Callable[[int, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """The states before each chunk, (B, G, 1, N, K, V), and the one after the last.

    Args:
        state: Before the first.
        like: (B, G, 1, N, K, V).
        after: (n, state before chunk n) -> state after it.
    """
    current = like.new_zeros(*like.shape[:-3], *like.shape[-2:]) if state is None else state
    before = []
    for n in range(like.shape[-3]):
        before.append(current)
        current = after(n, current)
    return torch.stack(before, dim=-3), current


# --- token by token -------------------------------------------------------------------------------


def token_by_token(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The recurrent form, as the formula reads; `decay` is a_t (..., T, 1), 0 where a document starts."""
    if state is None:
        state = key.new_zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])
    out = []
    for t in range(query.shape[-2]):
        now = slice(t, t + 1)
        state = decay[..., now, :] * state + key[..., now, :].mT @ value[..., now, :]  # (B, G, 1, K, V)
        out.append(query[..., now, :] @ state)  # (B, G, R, 1, V)
    return torch.cat(out, dim=-2), state


def decayed_recurrence(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor,
    context: AttentionContext,
    state: Tensor | None,
    form: Form,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """Run the recurrence over the new tokens; padded ones leave the state as it is.

    Args:
        query: (B, G, R, T, K).
        key: (B, G, 1, T, K).
        value: (B, G, 1, T, V).
        log_decay: (..., T, 1).
        context: Says which tokens are real and where documents start.
        state: S after earlier tokens, (B, G, 1, K, V); None = there were none.
        form: `auto` goes token by token for one token, else in chunks.
        chunk: Tokens of a chunk, C.

    Returns:
        o (B, G, R, T, V) and S after the last token.
    """
    real, starts = real_tokens(context), document_starts(context)
    if real is not None:
        key, log_decay = key * real, log_decay * real
    alone, size = resolved(form, query.shape[-2], chunk)
    with full_precision(query):
        if alone:
            decay = log_decay.exp()
            return token_by_token(query, key, value, decay if starts is None else decay * ~starts, state)
        return in_chunks(query, key, value, decay_in_chunks(log_decay, starts, size), state, size)


def document_starts(context: AttentionContext) -> Tensor | None:
    """(B or 1, 1, 1, T, 1) bool, True = a document starts here."""
    if context.starts is None:
        return None
    return context.starts.reshape(-1, 1, 1, context.starts.shape[-1], 1)
