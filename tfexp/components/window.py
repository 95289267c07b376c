"""Attention within a window: contexts that see no further, and a form that does not look further.

Source: Beltagy et al., 2020, arXiv:2004.05150, section 3.1; the form in blocks is a choice of this file.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from tfexp.components.attend import Form, attend, logit_bias
from tfexp.components.base import AttentionContext, recording

MIN_WINDOWS = 6  # shorter texts gain nothing from blocks: two or three windows of keys are read for each


def windowed(context: AttentionContext, window: int, n_queries: int, like: Tensor) -> AttentionContext:
    """The context of queries that see no key `window` or more tokens away, cut to the keys that are at hand.

    Args:
        context: Of these queries and of all keys.
        window: Tokens on either side that a query sees, itself included.
        n_queries: T; the queries are the last of all tokens.
        like: The keys (B, G, S, K), the last S of all.
    """
    n_keys = like.shape[2]
    made = context.derived.get((window, n_keys))
    if made is None:  # the layers of a pass share it, as they share the context
        made = context.derived[window, n_keys] = _windowed(context, window, n_queries, n_keys, like)
    return made


def _windowed(context: AttentionContext, window: int, n_queries: int, n_keys: int, like: Tensor) -> AttentionContext:
    mask = None if context.mask is None else context.mask[..., -n_keys:]
    bias = None if context.signals.bias is None else context.signals.bias[..., -n_keys:]
    causal = context.causal
    if n_keys > window:
        place = torch.arange(n_keys, device=like.device)
        near = (place[n_keys - n_queries :, None] - place).abs() < window  # (T, S)
        mask, causal = near if mask is None else mask & near, False
    # A padded query may have seen real keys only outside of its window.
    blocked = None if context.blocked is None or mask is None else ~mask.any(dim=-1, keepdim=True)
    open_bias = bias if mask is None else logit_bias(mask, bias, blocked, like.dtype)
    return replace(context, mask=mask, logit_bias=open_bias, causal=causal, blocked=blocked)


# --- in blocks --------------------------------------------------------------------------------------


def attend_within(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    context: AttentionContext,
    window: int,
    dropout: float,
    form: Form,
) -> Tensor:
    """`attend` where no query sees a key `window` or more tokens away; arguments and result as there.

    A long text is cut into blocks of `window` queries, each with the keys of its own block and the one
    before (and after, where queries look both ways), so that the cost grows with the length alone.
    """
    n_queries, n_keys = query.shape[2], key.shape[2]
    if recording() or n_queries != n_keys or n_keys < MIN_WINDOWS * window:
        return attend(query, key, value, scale, windowed(context, window, n_queries, key), dropout, form)
    if ("blocks", window) not in context.derived:
        context.derived["blocks", window] = _block_context(context, window, query)
    blocks = context.derived["blocks", window]
    keys, values = (_neighbours(x, window, context.left_to_right) for x in (key, value))
    out = attend(_blocks(query, window), keys, values, scale, blocks, dropout, form)  # (B*N, H, W, Kv)
    out = out.unflatten(0, (len(query), -1)).transpose(1, 2)  # (B, H, N, W, Kv)
    return out.flatten(2, 3)[:, :, :n_queries]


def _blocks(x: Tensor, window: int) -> Tensor:
    """(B, H, T, K) -> (B*N, H, W, K), filled up with zeros."""
    x = functional.pad(x, (0, 0, 0, -x.shape[2] % window))
    return x.unflatten(2, (-1, window)).transpose(1, 2).flatten(0, 1)


def _neighbours(x: Tensor, window: int, left_to_right: bool) -> Tensor:
    """(B, G, T, K) -> (B*N, G, 2W or 3W, K): each block after the one before it, and before the one after."""
    after = 0 if left_to_right else window
    x = functional.pad(x, (0, 0, window, -x.shape[2] % window + after))
    blocks = x.unfold(2, 2 * window + after, window)  # (B, G, N, K, 2W or 3W)
    return blocks.permute(0, 2, 1, 4, 3).flatten(0, 1)


def _block_context(context: AttentionContext, window: int, query: Tensor) -> AttentionContext:
    """Who sees whom within blocks: whom the context allows, and the window."""
    n_batch, _, n_tokens, _ = query.shape
    n_blocks, width = -(-n_tokens // window), (2 if context.left_to_right else 3) * window
    first = torch.arange(n_blocks, device=query.device).view(-1, 1, 1) * window
    rows = first + torch.arange(window, device=query.device).view(-1, 1)  # (N, W, 1)
    columns = first - window + torch.arange(width, device=query.device)  # (N, 1, 2W or 3W)
    seen = ((rows - columns).abs() < window) & (columns >= 0) & (columns < n_tokens)  # (N, W, 2W or 3W)
    if context.left_to_right:
        seen = seen & (columns <= rows)
    rows, columns = rows.clamp(max=n_tokens - 1), columns.clamp(0, n_tokens - 1)

    def cut(x: Tensor) -> Tensor:
        """(.., T or 1, T) -> (B*N, H or 1, W, 2W or 3W)."""
        x = x[(None,) * (4 - x.dim())]
        parts = x[..., rows if x.shape[2] > 1 else torch.zeros_like(rows), columns]  # (B or 1, H or 1, N, W, ..)
        return parts.transpose(1, 2).expand(n_batch, -1, -1, -1, -1).flatten(0, 1)

    mask = seen.unsqueeze(1).repeat(n_batch, 1, 1, 1)
    if context.mask is not None:
        mask = mask & cut(context.mask)
    blocked = ~mask.any(dim=-1, keepdim=True)  # queries that fill up a block, and padded ones
    bias = None if context.signals.bias is None else cut(context.signals.bias)
    open_bias = logit_bias(mask, bias, blocked, query.dtype)
    return replace(context, mask=mask, logit_bias=open_bias, causal=False, blocked=blocked)
