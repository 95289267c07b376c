"""Linear attention."""

from typing import Annotated

import torch
from torch import Tensor

from tfexp.components.attention_heads import check_groups, merge_heads, split_heads
from tfexp.components.base import Attention, AttentionContext, Linear, in_compute_dtype, note
from tfexp.components.recurrence import Form, decayed_recurrence, full_precision, grouped, widened
from tfexp.components.state import AttentionState, CrossSummary, RecurrentState, StatePlan
from tfexp.registry import register
from tfexp.schema import Range


@register("attention", "linear", gives={"causal", "bidirectional", "cross", "cacheable", "query_key", "padding"})
class LinearAttention(Attention):
    """Replace the softmax by a product of feature maps, so that the sum over keys is done once for all queries.

    out_i = phi(q_i) S_i / (phi(q_i) z_i + eps),  S_i = sum_j phi(k_j) v_j^T,  z_i = sum_j phi(k_j) with
    phi(x) = elu(x) + 1; j runs over all keys, or in causal attention over j <= i, where S and z are the
    state of a recurrence. The cost grows with the length, not with its square.

    Args:
        d_model: Width D.
        n_heads: Query heads H.
        n_kv_heads: Key/value heads G; divides n_heads.
        head_dim: Width K of queries and keys.
        value_dim: Width V of a value head; null = head_dim.
        bias: Biases in the query, key and value projections.
        eps: Added to the denominator. Usual: 1e-6, as in the authors' code.
        form: Of causal attention: `parallel` (a masked product), `recurrent` (token by token), `chunked`, or
            `auto`: recurrent for one token, else chunked.
        chunk: Tokens of a chunk. Usual: 64.

    Shapes:
        x (B, T, D), memory (B, S, D) or None = x -> (B, T, D).
        D (H K + G K + G V) + H V D parameters, biases apart. State: G K (V + 1) numbers whatever the length.

    Source: Katharopoulos et al., ICML 2020, arXiv:2006.16236, sections 3.2 to 3.4.
    Differs: positions rotate phi(q) and phi(k) in the numerator alone, so that the denominator stays positive
        (Su et al., 2021, arXiv:2104.09864, section 3.3). There are no attention weights to drop out.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        *,
        value_dim: Annotated[int | None, Range(ge=1)] = None,
        bias: bool = False,
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
        self.query = Linear(d_model, n_heads * head_dim, bias)
        self.key = Linear(d_model, n_kv_heads * head_dim, bias)
        self.value = Linear(d_model, n_kv_heads * self.value_dim, bias)
        self.output = Linear(n_heads * self.value_dim, d_model, bias, role="residual")

    def forward(
        self,
        x: Tensor,
        context: AttentionContext,
        memory: Tensor | None = None,
        state: AttentionState | None = None,
    ) -> Tensor:
        assert state is None or isinstance(state, RecurrentState)
        x = in_compute_dtype(x)
        source = x if memory is None else in_compute_dtype(memory)
        query = phi(widened(split_heads(self.query(x), self.n_heads)))  # (B, H, T, K)
        if context.left_to_right:
            out = self._causal(query, *self._keys_and_values(source), context, state)
        elif isinstance(state, CrossSummary) and state.tensors:  # the encoder was summed up before
            with full_precision(query):
                out = grouped(query, self.n_kv_heads) @ state.tensors[0]
        else:
            out = self._over_all(query, *self._keys_and_values(source), context, state)
        out = out[..., :-1] / (out[..., -1:] + self.eps)  # (B, G, H/G, T, V)
        flops = len(x) * self.extra_flops(x.shape[1], source.shape[1])
        heads = note("heads", out.flatten(1, 2).to(x.dtype), flops)  # (B, H, T, V)
        return self.output(note("concat", merge_heads(heads)))

    def _keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """phi(k) (B, G, S, K), and values with a one beside them (B, G, S, V + 1): its sum is the denominator."""
        key = phi(widened(split_heads(self.key(source), self.n_kv_heads)))
        value = widened(split_heads(self.value(source), self.n_kv_heads))
        return key, torch.cat((value, torch.ones_like(value[..., :1])), dim=-1)

    def _causal(
        self, query: Tensor, key: Tensor, value: Tensor, context: AttentionContext, state: RecurrentState | None
    ) -> Tensor:
        """Numerators and, last, the denominator: (B, G, H/G, T, V + 1)."""
        before = state.tensors[0] if state is not None and state.tensors else None
        no_decay = key.new_zeros(1, 1, 1, key.shape[2], 1)

        def run(query: Tensor, key: Tensor, columns: slice) -> tuple[Tensor, Tensor]:
            some, earlier = value[..., columns], None if before is None else before[..., columns]
            query, key, some = grouped(query, self.n_kv_heads), key.unsqueeze(2), some.unsqueeze(2)
            return decayed_recurrence(query, key, some, no_decay, context, earlier, self.form, self.chunk)

        if context.signals.query is None or context.signals.key is None:
            out, after = run(query, key, slice(None))
        else:
            rotated = context.signals.query(query), context.signals.key(key)
            parts = run(*rotated, slice(-1)), run(query, key, slice(-1, None))
            out, after = (torch.cat(pair, dim=-1) for pair in zip(*parts, strict=True))
        if state is not None:
            state.update(after)
        return out

    def _over_all(
        self, query: Tensor, key: Tensor, value: Tensor, context: AttentionContext, state: RecurrentState | None
    ) -> Tensor:
        """The same where every query sees every key that the mask leaves."""
        signals, mask, pairs = context.signals, context.mask, None
        if mask is not None and mask.shape[-2] > 1:  # documents: the sums differ between queries
            pairs = mask.unsqueeze(-3)  # (1, T, S) or (B, 1, 1, T, S)
        elif mask is not None:
            key = key * mask.mT  # (S, 1) or (B, 1, S, 1)

        def run(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            query, key, value = grouped(query, self.n_kv_heads), key.unsqueeze(2), value.unsqueeze(2)
            with full_precision(query):
                summed = key.mT @ value  # (B, G, 1, K, V)
                out = query @ summed if pairs is None else (query @ key.mT * pairs) @ value
                return out, summed

        if signals.query is None or signals.key is None:
            out, summed = run(query, key, value)
        else:
            rotated = run(signals.query(query), signals.key(key), value[..., :-1])
            out, summed = (torch.cat(p, dim=-1) for p in zip(rotated, run(query, key, value[..., -1:]), strict=True))
        if state is not None:
            state.update(summed)
        return out

    def init_state(self, plan: StatePlan) -> RecurrentState:
        return CrossSummary() if plan.cross else RecurrentState()

    def state_numbers(self, n_tokens: int) -> int:
        return self.n_kv_heads * self.head_dim * (self.value_dim + 1)

    def extra_flops(self, n_queries: int, n_keys: int) -> int:
        """Of sums and readings; chunks spend more on larger products."""
        return 2 * self.head_dim * (self.value_dim + 1) * (self.n_kv_heads * n_keys + self.n_heads * n_queries)


def phi(x: Tensor) -> Tensor:
    """elu(x) + 1, without the rounding of a small number beside the 1."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())
