"""Who may attend to whom, as every attention layer receives it.

True = may attend, everywhere in tfexp. This is the one file where a mask becomes the -inf that a
softmax understands.
"""

import torch
from torch import Tensor

from tfexp.components.base import AttentionContext, Position


def causal_mask(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """(T, S) or (B, T, S): a query sees the keys that do not stand after it."""
    return key_positions.unsqueeze(-2) <= query_positions.unsqueeze(-1)


def positions_of(attention_mask: Tensor | None, length: int, device: torch.device) -> Tensor:
    """Positions of the real tokens: (T,) counted from 0, or (B, T) where padding shifts them.

    The first real token of each row stands at 0, so left padding changes nothing.
    """
    if attention_mask is None:
        return torch.arange(length, device=device)
    return (attention_mask.cumsum(dim=-1) - 1).clamp(min=0)


def self_attention_context(
    position: Position, positions: Tensor, attention_mask: Tensor | None, dtype: torch.dtype
) -> AttentionContext:
    """Context of causal self-attention.

    Args:
        position: The position encoding, asked for its signals once per pass.
        positions: (T,) or (B, T).
        attention_mask: (B, T) bool, True = a real token; None = all are.
        dtype: Of the scores.
    """
    signals = position.signals(positions, positions, dtype)
    length = positions.shape[-1]
    order = torch.arange(length, device=positions.device)  # causality follows the order of the input
    mask = causal_mask(order, order)  # (T, T)
    plain_triangle = attention_mask is None and signals.bias is None
    blocked = None
    if attention_mask is not None:
        mask = mask & attention_mask[:, None, None, :]  # (B, 1, T, T)
        blocked = ~mask.any(dim=-1, keepdim=True)  # (B, 1, T, 1)
    return AttentionContext(
        signals=signals,
        mask=mask,
        logit_bias=logit_bias(mask, signals.bias, blocked, dtype),
        causal=plain_triangle,
        blocked=blocked,
    )


def logit_bias(mask: Tensor, bias: Tensor | None, blocked: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The position's bias where attention is allowed, -inf elsewhere.

    A blocked row stays open here, so that its softmax and gradients are finite; its result is set to
    zero after attention.
    """
    allowed = mask if blocked is None else mask | blocked
    open_bias = torch.zeros((), dtype=dtype, device=mask.device) if bias is None else bias
    return torch.where(allowed, open_bias, torch.tensor(-torch.inf, dtype=dtype, device=mask.device))
