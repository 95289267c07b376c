"""Softmax attention, in the forms that compute it: one readable, one fused.

    weights = softmax(scale * q k^T + bias),  out = weights v

Both forms give the same numbers; a test holds them together. Which is faster was measured per
device and precision (docs/performance.md).
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from tfexp.components.base import AttentionContext, note, recording
from tfexp.components.dropout import dropout as drop

Form = Literal["auto", "plain", "fused"]


def attend(
    query: Tensor, key: Tensor, value: Tensor, scale: float, context: AttentionContext, dropout: float, form: Form
) -> Tensor:
    """Attend with dot-product scores.

    Args:
        query: (B, H, T, K).
        key: (B, G, S, K) with G key/value heads; each serves H / G consecutive query heads.
        value: (B, G, S, Kv).
        scale: Factor on the dot products, before the bias.
        context: Mask, bias and causality of this pass.
        dropout: Rate on the attention weights (0 in evaluation).
        form: `plain`, `fused` (scaled_dot_product_attention), or `auto`.

    Returns:
        (B, H, T, Kv); zeros where a row may attend to nothing.
    """
    if form == "auto":
        form = "plain" if recording() or prefers_plain(query) else "fused"
    attended = _fused if form == "fused" else _plain
    out = attended(query, key, value, scale, context, dropout)
    return out if context.blocked is None else out.masked_fill(context.blocked, 0.0)


def prefers_plain(query: Tensor) -> bool:
    """On CPU torch's fused kernel is several times slower backward in bfloat16; forward it is the faster one."""
    return query.device.type == "cpu" and query.dtype == torch.bfloat16 and torch.is_grad_enabled()


def attend_with_logits(logits: Tensor, value: Tensor, context: AttentionContext, dropout: float) -> Tensor:
    """The last two steps for scores (B, H, T, S) of any kind; value has a head for each of logits'."""
    n_batch, n_heads, n_queries, n_keys = logits.shape
    flops = 2 * n_batch * n_heads * n_queries * n_keys * value.shape[-1]
    weights = note("weights", _softmax(logits, context))
    out = note("heads", drop(weights, dropout).to(value.dtype) @ value, flops)
    return out if context.blocked is None else out.masked_fill(context.blocked, 0.0)


def _softmax(logits: Tensor, context: AttentionContext) -> Tensor:
    # In the scores' own precision: torch's softmax sums in float32 whatever it reads and writes, and
    # half of the bytes is what counts on a CPU. -inf is a number of every float type.
    if context.logit_bias is not None:
        logits = logits + context.logit_bias.to(logits.dtype)
    return logits.softmax(dim=-1)


def _fused(
    query: Tensor, key: Tensor, value: Tensor, scale: float, context: AttentionContext, dropout: float
) -> Tensor:
    bias = None if context.causal or context.logit_bias is None else context.logit_bias.to(query.dtype)
    grouped = query.shape[1] != key.shape[1]
    width = value.shape[-1]
    if query.device.type == "cpu" and query.shape[-1] != width and query.shape[2] > 1:
        # torch's fused kernel wants one width; zeros change neither scores nor the values that are read.
        widest = max(query.shape[-1], width)
        query, key, value = (functional.pad(x, (0, widest - x.shape[-1])) for x in (query, key, value))
    out = functional.scaled_dot_product_attention(
        query, key, value, bias, dropout, is_causal=context.causal, scale=scale, enable_gqa=grouped
    )
    return out[..., :width]


def _plain(
    query: Tensor, key: Tensor, value: Tensor, scale: float, context: AttentionContext, dropout: float
) -> Tensor:
    n_batch, n_heads, n_queries, width = query.shape
    n_groups, n_keys = key.shape[1], key.shape[2]
    # Query heads of one group are stacked along T, so that keys are not copied: (B, G, H/G*T, K)
    grouped = (query * scale).reshape(n_batch, n_groups, -1, width)
    logits = grouped @ key.transpose(-2, -1)  # (B, G, H/G*T, S)
    logits = logits.view(n_batch, n_heads, n_queries, n_keys)
    note("scores", logits, 2 * logits.numel() * width)
    weights = note("weights", _softmax(logits, context))  # (B, H, T, S)
    weights = drop(weights, dropout)
    grouped_weights = weights.reshape(n_batch, n_groups, -1, n_keys).to(value.dtype)
    out = (grouped_weights @ value).view(n_batch, n_heads, n_queries, value.shape[-1])
    return note("heads", out, 2 * logits.numel() * value.shape[-1])


def logit_bias(mask: Tensor, bias: Tensor | None, blocked: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The position's bias where attention is allowed, -inf elsewhere.

    A blocked row stays open here, so that its softmax and gradients are finite; its result is set to
    zero after attention.
    """
    allowed = mask if blocked is None else mask | blocked
    open_bias = torch.zeros((), dtype=dtype, device=mask.device) if bias is None else bias
    return torch.where(allowed, open_bias, torch.tensor(-torch.inf, dtype=dtype, device=mask.device))
