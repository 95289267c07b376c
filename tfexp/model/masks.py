"""Who may attend to whom, as every attention layer receives it.

True = may attend, everywhere in tfexp; `components/attend.py` makes of a mask the -inf that a softmax
understands.
"""

from dataclasses import replace

import torch
from torch import Tensor

from tfexp.components.attend import logit_bias
from tfexp.components.base import AttentionContext, Position, Signals


def causal_mask(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """(T, S) or (B, T, S): a query sees the keys that do not stand after it."""
    return key_positions.unsqueeze(-2) <= query_positions.unsqueeze(-1)


def positions_of(
    attention_mask: Tensor | None, length: int, device: torch.device, document_ids: Tensor | None = None
) -> Tensor:
    """Positions of the real tokens: (T,) counted from 0, or (B, T) where padding or documents shift them.

    The first real token of each row, or of each document in it, stands at 0, so neither left padding nor
    what stands before a document changes anything.
    """
    if document_ids is None:
        if attention_mask is None:
            return torch.arange(length, device=device)
        return (attention_mask.cumsum(dim=-1) - 1).clamp(min=0)
    real = torch.ones_like(document_ids) if attention_mask is None else attention_mask.long()
    before = real.cumsum(dim=-1) - real  # (B, T): real tokens of the row before this one
    at_start = before.where(document_starts(document_ids), 0).cummax(dim=-1).values  # counts only rise
    return before - at_start


def document_starts(document_ids: Tensor) -> Tensor:
    """(B, T) bool: another document than at the place before begins here."""
    return document_ids.diff(dim=-1, prepend=document_ids[..., :1]) != 0


def self_attention_context(
    position: Position,
    positions: Tensor,
    attention_mask: Tensor | None,
    dtype: torch.dtype,
    causal: bool = True,
    document_ids: Tensor | None = None,
) -> AttentionContext:
    """Context of self-attention.

    Args:
        position: The position encoding, asked for its signals once per pass.
        positions: (T,) or (B, T).
        attention_mask: (B, T) bool, True = a real token; None = all are.
        dtype: Of the scores.
        causal: A query sees no key that comes after it.
        document_ids: (B, T); a query sees the keys of its own document only. None = one document a row.
    """
    signals = position.signals(positions, positions, dtype)
    length = positions.shape[-1]
    mask = None
    if causal:
        order = torch.arange(length, device=positions.device)  # causality follows the order of the input
        mask = causal_mask(order, order)  # (T, T)
    plain_triangle = causal and attention_mask is None and document_ids is None and signals.bias is None
    starts = None
    if document_ids is not None:
        mask = _and(mask, (document_ids.unsqueeze(-1) == document_ids.unsqueeze(-2)).unsqueeze(1))  # (B, 1, T, T)
        starts = document_starts(document_ids)  # (B, T)
    context = _context(signals, mask, attention_mask, dtype, plain_triangle)
    return replace(context, real=attention_mask, starts=starts, left_to_right=causal)


def step_context(
    position: Position, positions: Tensor, all_positions: Tensor, mask: Tensor | None, dtype: torch.dtype
) -> AttentionContext:
    """Context of new tokens that see themselves and everything before them.

    Args:
        position: The position encoding.
        positions: (T,) or (B, T) of the new tokens, the last of all.
        all_positions: (S,) or (B, S).
        mask: (B, S) bool, True = a real token; None = all are.
        dtype: Of the scores.
    """
    n_new, n_all = positions.shape[-1], all_positions.shape[-1]
    # Earlier keys were rotated when they came; the bias, though, is between the new and all.
    signals = replace(
        position.signals(positions, positions, dtype), bias=position.signals(positions, all_positions, dtype).bias
    )
    order = torch.arange(n_all, device=positions.device)
    alone = n_new == 1  # the last token sees everything
    triangle = None if alone else causal_mask(order[n_all - n_new :], order)  # (T, S)
    causal = n_new == n_all and not alone and mask is None and signals.bias is None
    context = _context(signals, triangle, mask, dtype, causal)
    real = None if mask is None else mask[:, n_all - n_new :]
    return replace(context, real=real, left_to_right=True)


def cross_attention_context(attention_mask: Tensor | None, dtype: torch.dtype) -> AttentionContext:
    """Context of attention to an encoder: every valid source position, and no signal of position.

    Args:
        attention_mask: (B, S) bool of the source, True = a real token; None = all are.
        dtype: Of the scores.
    """
    return _context(Signals(), None, attention_mask, dtype, causal=False)


def _context(
    signals: Signals, mask: Tensor | None, attention_mask: Tensor | None, dtype: torch.dtype, causal: bool
) -> AttentionContext:
    blocked = None
    if attention_mask is not None:
        mask = _and(mask, attention_mask[:, None, None, :])  # (B, 1, T or 1, S)
        blocked = ~mask.any(dim=-1, keepdim=True)  # (B, 1, T or 1, 1)
    bias = signals.bias if mask is None else logit_bias(mask, signals.bias, blocked, dtype)
    return AttentionContext(signals=signals, mask=mask, logit_bias=bias, causal=causal, blocked=blocked)


def _and(mask: Tensor | None, other: Tensor) -> Tensor:
    return other if mask is None else mask & other
