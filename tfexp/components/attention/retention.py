"""Retention."""

from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, silu

from tfexp.components.attention_heads import check_groups, merge_heads, split_heads
from tfexp.components.base import Attention, AttentionContext, Linear, in_compute_dtype, note
from tfexp.components.recurrence import Form, decayed_recurrence, grouped, widened
from tfexp.components.state import AttentionState, RecurrentState, StatePlan
from tfexp.registry import register
from tfexp.schema import Range


@register("attention", "retention", gives={"causal", "cacheable", "query_key", "padding"})
class Retention(Attention):
    """Weigh earlier values by q.k and by a decay that is fixed for each head, without a softmax.

    head_h = (Q K^T * D) V,  D_nm = gamma_h^(n-m) for n >= m, else 0,  gamma_h = 1 - 2^(-5-h), h = 0, 1, ...
    Y = concat(GroupNorm_h(head_h)),  out = (swish(X W_G) * Y) W_O.
    As a recurrence: S_n = gamma S_(n-1) + k_n v_n^T, head_n = q_n S_n.

    Args:
        d_model: Width D.
        n_heads: Query heads H.
        n_kv_heads: Key/value heads G, each with its decay; divides n_heads, and equals it in the paper.
        head_dim: Width K of queries and keys.
        value_dim: Width V of a value head; null = head_dim. The paper uses 2 head_dim.
        eps: Of the norm over each head. Usual: 1e-6.
        form: `parallel` (a masked product), `recurrent` (token by token), `chunked` (the paper's chunkwise
            form), or `auto`: recurrent for one token, else chunked.
        chunk: Tokens of a chunk. Usual: 64; the paper trains with 512.

    Shapes:
        x (B, T, D) -> (B, T, D). D (H K + G K + G V) + 2 H V D parameters.
        State: G K V numbers whatever the length.

    Source: Sun et al., 2023, arXiv:2307.08621, sections 2.1 and 2.2.
    Differs: the rotation of queries and keys is the position's business, position=rope or another; it is not
        wired in. Of the paper's three scalings only k / sqrt(K) is kept: the norm over each head undoes the
        others. There are no attention weights to drop out.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        *,
        value_dim: Annotated[int | None, Range(ge=1)] = None,
        eps: Annotated[float, Range(gt=0)] = 1e-6,
        form: Form = "auto",
        chunk: Annotated[int, Range(ge=1)] = 64,
    ) -> None:
        super().__init__()
        check_groups(n_heads, n_kv_heads)
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.value_dim = head_dim if value_dim is None else value_dim
        self.eps, self.chunk = eps, chunk
        self.form: Form = form
        self.query = Linear(d_model, n_heads * head_dim, bias=False)
        self.key = Linear(d_model, n_kv_heads * head_dim, bias=False)
        self.value = Linear(d_model, n_kv_heads * self.value_dim, bias=False)
        self.gate = Linear(d_model, n_heads * self.value_dim, bias=False)
        self.output = Linear(n_heads * self.value_dim, d_model, bias=False, role="residual")

    def forward(
        self,
        x: Tensor,
        context: AttentionContext,
        memory: Tensor | None = None,
        state: AttentionState | None = None,
    ) -> Tensor:
        assert memory is None, "retention is defined for one sequence"
        assert state is None or isinstance(state, RecurrentState)
        x = in_compute_dtype(x)
        query, key = split_heads(self.query(x), self.n_heads), split_heads(self.key(x), self.n_kv_heads)
        value = split_heads(self.value(x), self.n_kv_heads)  # (B, G, T, V)
        if context.signals.query is not None:
            query = context.signals.query(query)
        if context.signals.key is not None:
            key = context.signals.key(key)
        heads = self._retain(widened(query), widened(key), widened(value), context, state)
        heads = layer_norm(heads, (self.value_dim,), eps=self.eps)
        heads = note("heads", heads.to(x.dtype), len(x) * self.extra_flops(x.shape[1], x.shape[1]))
        return self.output(silu(self.gate(x)) * note("concat", merge_heads(heads)))

    def _retain(
        self, query: Tensor, key: Tensor, value: Tensor, context: AttentionContext, state: RecurrentState | None
    ) -> Tensor:
        before = state.tensors[0] if state is not None and state.tensors else None
        log_decay = decays(self.n_kv_heads, query).log().view(1, -1, 1, 1, 1).expand(-1, -1, -1, query.shape[2], -1)
        query, key, value = grouped(query, self.n_kv_heads), key.unsqueeze(2), value.unsqueeze(2)
        key = key * self.head_dim**-0.5
        out, after = decayed_recurrence(query, key, value, log_decay, context, before, self.form, self.chunk)
        if state is not None:
            state.update(after)
        return out.flatten(1, 2)  # (B, H, T, V)

    def init_state(self, plan: StatePlan) -> RecurrentState:
        return RecurrentState()

    def state_numbers(self, n_tokens: int) -> int:
        return self.n_kv_heads * self.head_dim * self.value_dim

    def extra_flops(self, n_queries: int, n_keys: int) -> int:
        """Of the recurrence; chunks spend more on larger products."""
        return 2 * self.head_dim * self.value_dim * (self.n_kv_heads * n_keys + self.n_heads * n_queries)


def decays(n_heads: int, like: Tensor) -> Tensor:
    """gamma_h = 1 - 2^(-5-h), (H,)."""
    return 1 - torch.exp2(-5 - torch.arange(n_heads, device=like.device, dtype=like.dtype))
