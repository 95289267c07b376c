"""The delta rule as attention: DeltaNet, and with decay Gated DeltaNet."""

import math
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from tfexp.components.attention_heads import check_groups, head_norm, merge_heads, split_heads
from tfexp.components.base import Attention, AttentionContext, Linear, in_compute_dtype, note
from tfexp.components.delta_rule import delta_rule
from tfexp.components.recurrence import Form, grouped, widened
from tfexp.components.short_convolution import ShortConvolution
from tfexp.components.state import AttentionState, RecurrentState, StatePlan
from tfexp.registry import register
from tfexp.schema import Range

EPS = 1e-6  # of the lengths of queries and keys, as in the authors' code


@register("attention", "delta", gives={"causal", "cacheable", "query_key", "padding"})
class DeltaAttention(Attention):
    """Keep a memory of values under keys, and replace what a key stood for instead of adding to it.

    S_t = a_t (I - b_t k_t k_t^T) S_(t-1) + b_t k_t v_t^T,  o_t = q_t S_t,
    q, k, v = silu(conv(W x)), q and k of length 1, q / sqrt(K), b = sigmoid(W_b x) for each head;
    a_t = exp(-exp(A) softplus(W_a x + c)) for each head if gated, else 1.
    out = W_O (RMSNorm(o) * silu(W_G x)), the norm over each head.

    Args:
        d_model: Width D.
        n_heads: Query heads H.
        n_kv_heads: Key/value heads G, each with its b and a; divides n_heads, and equals it in the papers.
        head_dim: Width K of queries and keys.
        gated: Let the memory fade, by how much each token says (Gated DeltaNet); false = DeltaNet.
        value_dim: Width V of a value head; null = head_dim.
        conv: Taps of the convolutions over queries, keys and values; null = none, and silu acts on the
            projections. Usual: 4.
        output_gate: Multiply each head's output with silu(W_G x).
        form: `parallel` (one chunk), `recurrent` (token by token), `chunked`, or `auto`: recurrent for one
            token, else chunked.
        chunk: Tokens of a chunk. Usual: 64.

    Shapes:
        x (B, T, D) -> (B, T, D). D (H K + G K + G V) + H V D + V parameters; D G for b; D G + 2 G if gated;
        conv (H K + G K + G V) for the convolutions; D H V for the output gate.
        State: G K V numbers, and (conv - 1) (H K + G K + G V) last inputs of the convolutions.

    Source: Yang et al., NeurIPS 2024, arXiv:2406.06484, sections 3.2 to 3.4; Yang, Kautz and Hatamizadeh,
        ICLR 2025, arXiv:2412.06464, section 3.
    Differs: the output gate, of the second paper, serves both. There are no attention weights to drop out.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        *,
        gated: bool = True,
        value_dim: Annotated[int | None, Range(ge=1)] = None,
        conv: Annotated[int | None, Range(ge=2)] = 4,
        output_gate: bool = True,
        form: Form = "auto",
        chunk: Annotated[int, Range(ge=1)] = 64,
    ) -> None:
        super().__init__()
        check_groups(n_heads, n_kv_heads)
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.value_dim = head_dim if value_dim is None else value_dim
        self.chunk = chunk
        self.form: Form = form
        self.widths = (n_heads * head_dim, n_kv_heads * head_dim, n_kv_heads * self.value_dim)
        self.query, self.key, self.value = (Linear(d_model, width, bias=False) for width in self.widths)
        self.convolution = None if conv is None else ShortConvolution(sum(self.widths), conv)
        self.strength = Linear(d_model, n_kv_heads, bias=False)
        self.decay = FadingRate(d_model, n_kv_heads) if gated else None
        width = n_heads * self.value_dim
        self.head_norm = head_norm("rmsnorm", self.value_dim)
        self.gate = Linear(d_model, width, bias=False) if output_gate else None
        self.output = Linear(width, d_model, bias=False, role="residual")

    def forward(
        self,
        x: Tensor,
        context: AttentionContext,
        memory: Tensor | None = None,
        state: AttentionState | None = None,
    ) -> Tensor:
        assert memory is None, "the delta rule is defined for one sequence"
        assert state is None or isinstance(state, RecurrentState)
        x = in_compute_dtype(x)
        before, earlier = self._remembered(state)
        inputs = torch.cat((self.query(x), self.key(x), self.value(x)), dim=-1)  # (B, T, HK + GK + GV)
        query, key, value = self._heads(inputs, context, earlier)
        query, key = unit(widened(query)), unit(widened(key))
        if context.signals.query is not None:
            query = context.signals.query(query)
        if context.signals.key is not None:
            key = context.signals.key(key)
        heads, after = self._remember(x, query, key, widened(value), context, before)
        heads = self.head_norm(heads)
        if state is not None:
            state.update(after, *self._last_inputs(inputs, context, earlier))
        flops = len(x) * self.extra_flops(x.shape[1], x.shape[1])
        concat = note("concat", merge_heads(note("heads", heads.to(x.dtype), flops)))  # (B, T, H*V)
        return self.output(concat if self.gate is None else concat * silu(self.gate(x)))

    def _remembered(self, state: RecurrentState | None) -> tuple[Tensor | None, Tensor | None]:
        """S, and the last inputs of the convolutions."""
        tensors = state.tensors if state is not None else ()
        return next(iter(tensors), None), next(iter(tensors[1:]), None)

    def _heads(
        self, inputs: Tensor, context: AttentionContext, earlier: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys (B, G, T, K) and values (B, G, T, V)."""
        if self.convolution is not None:
            inputs = self.convolution(inputs, context, earlier)
        query, key, value = silu(inputs).split(self.widths, dim=-1)
        groups = self.n_kv_heads
        return split_heads(query, self.n_heads), split_heads(key, groups), split_heads(value, groups)

    def _last_inputs(self, inputs: Tensor, context: AttentionContext, earlier: Tensor | None) -> tuple[Tensor, ...]:
        return () if self.convolution is None else (self.convolution.last_inputs(inputs, context, earlier),)

    def _remember(
        self,
        x: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        context: AttentionContext,
        before: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        strength = widened(self.strength(x)).sigmoid()  # (B, T, G)
        log_decay = torch.zeros_like(strength) if self.decay is None else self.decay(x)
        query = grouped(query * self.head_dim**-0.5, self.n_kv_heads)  # (B, G, H/G, T, K)
        out, after = delta_rule(
            query,
            key.unsqueeze(2),
            value.unsqueeze(2),
            _per_head(strength),
            _per_head(log_decay),
            context,
            before,
            self.form,
            self.chunk,
        )
        return out.flatten(1, 2), after  # (B, H, T, V)

    def init_state(self, plan: StatePlan) -> RecurrentState:
        return RecurrentState()

    def state_numbers(self, n_tokens: int) -> int:
        inputs = 0 if self.convolution is None else (self.convolution.width - 1) * sum(self.widths)
        return self.n_kv_heads * self.head_dim * self.value_dim + inputs

    def extra_flops(self, n_queries: int, n_keys: int) -> int:
        """Of the recurrence: a key is read and written, a query read; chunks spend more on larger products."""
        return 2 * self.head_dim * self.value_dim * (2 * self.n_kv_heads * n_keys + self.n_heads * n_queries)


class FadingRate(nn.Module):
    """How much of the memory a token leaves: log a = -exp(A) softplus(W_a x + c), for each head.

    Args:
        d_model: Width of a token.
        n_heads: Heads, each with its A and c.

    Shapes:
        (B, T, D) -> (B, T, G), in float32 at least. D G + 2 G parameters.

    Source: Gu and Dao, 2023, arXiv:2312.00752, section 3.5, for the form; exp(A) starts uniform in (1, 16),
        softplus(c) log-uniform in (0.001, 0.1), as in Mamba 2 (arXiv:2405.21060).
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.project = Linear(d_model, n_heads, bias=False)
        self.log_rate = nn.Parameter(torch.empty(n_heads))
        self.bias = nn.Parameter(torch.empty(n_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.log_rate.uniform_(1, 16).log_()
            step = self.bias.uniform_(math.log(1e-3), math.log(1e-1)).exp()
            self.bias.copy_(step + torch.log(-torch.expm1(-step)))  # the inverse of softplus

    def forward(self, x: Tensor) -> Tensor:
        step = softplus(widened(self.project(x)) + widened(self.bias))
        return -widened(self.log_rate).exp() * step


def unit(x: Tensor) -> Tensor:
    """Vectors of length 1, x / sqrt(|x|^2 + eps): finite with their gradient at 0."""
    return x * (x.square().sum(dim=-1, keepdim=True) + EPS).rsqrt()


def _per_head(x: Tensor) -> Tensor:
    return x.mT[:, :, None, :, None]  # (B, T, G) -> (B, G, 1, T, 1)
