"""The delta rule over tokens: one at a time, or many at once in chunks.

    S_t = a_t (I - b_t k_t k_t^T) S_(t-1) + b_t k_t v_t^T,  o_t = q_t S_t

Before a value is written under a key, what stood there is taken away: S_t = a_t S_(t-1) + k_t u_t^T with
u_t = b_t (v_t - k_t a_t S_(t-1)). Within a chunk the u_t solve a triangular system, (I + L) U = ..., where
L_ts = b_t (a_(s+1) .. a_t) k_t.k_s for s < t. Leading axes and S are those of `recurrence.py`.

Source: Yang et al., 2024, arXiv:2406.06484, section 3.2; with decay: Yang et al., 2025, arXiv:2412.06464,
    section 3.3.
"""

import torch
from torch import Tensor

from tfexp.components.base import AttentionContext
from tfexp.components.recurrence import (
    Decay,
    Form,
    chunks_of,
    decay_in_chunks,
    document_starts,
    full_precision,
    handed_on,
    joined,
    real_tokens,
    resolved,
)


def delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    strength: Tensor,
    log_decay: Tensor,
    context: AttentionContext,
    state: Tensor | None,
    form: Form,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """Run the rule over the new tokens; padded ones leave the state as it is.

    Args:
        query: (B, G, R, T, K).
        key: (B, G, 1, T, K), of length 1 each.
        value: (B, G, 1, T, V).
        strength: b_t (B, G, 1, T, 1), in [0, 1].
        log_decay: log a_t, (B or 1, G or 1, 1, T, 1).
        context: Says which tokens are real and where documents start.
        state: S after earlier tokens, (B, G, 1, K, V); None = there were none.
        form: `auto` goes token by token for one token, else in chunks.
        chunk: Tokens of a chunk, C.

    Returns:
        o (B, G, R, T, V) and S after the last token.
    """
    real, starts = real_tokens(context), document_starts(context)
    if real is not None:
        strength, log_decay = strength * real, log_decay * real
    alone, size = resolved(form, query.shape[-2], chunk)
    with full_precision(query):
        if alone:
            decay = log_decay.exp()
            return _token_by_token(query, key, value, strength, decay if starts is None else decay * ~starts, state)
        return _in_chunks(query, key, value, strength, decay_in_chunks(log_decay, starts, size), state, size)


def _token_by_token(
    query: Tensor, key: Tensor, value: Tensor, strength: Tensor, decay: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    if state is None:
        state = key.new_zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])
    out = []
    for t in range(query.shape[-2]):
        now = slice(t, t + 1)
        state = decay[..., now, :] * state
        stood = key[..., now, :] @ state  # (B, G, 1, 1, V)
        written = strength[..., now, :] * (value[..., now, :] - stood)
        state = state + key[..., now, :].mT @ written  # (B, G, 1, K, V)
        out.append(query[..., now, :] @ state)
    return torch.cat(out, dim=-2), state


def _in_chunks(
    query: Tensor, key: Tensor, value: Tensor, strength: Tensor, decay: Decay, state: Tensor | None, size: int
) -> tuple[Tensor, Tensor]:
    n_tokens, value_dim = query.shape[-2], value.shape[-1]
    query, key, value, strength = (chunks_of(x, size) for x in (query, key, value, strength))
    lower = (strength * (key @ key.mT) * decay.between).tril(-1)  # L (B, G, 1, N, C, C)
    # U = (I + L)^-1 (b v) - (I + L)^-1 (b k, decayed since the chunk began) S: both solved for all chunks at once.
    sides = torch.cat((strength * value, strength * decay.since * key), dim=-1)  # (B, G, 1, N, C, V + K)
    solved = torch.linalg.solve_triangular(lower, sides, upper=False, unitriangular=True)
    alone, per_state = solved.split((value_dim, key.shape[-1]), dim=-1)
    late = (key * decay.until).mT  # (B, G, 1, N, K, C)

    def after(n: int, state: Tensor) -> Tensor:
        written = alone[..., n, :, :] - per_state[..., n, :, :] @ state  # (B, G, 1, C, V)
        return decay.through[..., n, :, :] * state + late[..., n, :, :] @ written

    before, last = handed_on(state, late @ alone, after)  # (B, G, 1, N, K, V)
    written = alone - per_state @ before
    inside = (query @ key.mT * decay.between) @ written  # (B, G, R, N, C, V)
    return joined(inside + (query * decay.since) @ before, n_tokens), last
