"""Multi-head attention with a softmax over keys."""

from typing import Annotated, Any

from torch import Tensor

from tfexp.components.attend import Form, attend, attend_with_logits
from tfexp.components.attention_heads import check_groups, head_norm, merge_heads, split_heads
from tfexp.components.base import Attention, AttentionContext, Linear, Score, in_compute_dtype, note
from tfexp.components.state import AttentionState, CrossState, StatePlan, TokenState
from tfexp.components.window import attend_within, windowed
from tfexp.registry import check_choice, create, register
from tfexp.schema import ChoiceOf, Range


@register(
    "attention",
    "softmax",
    gives={"causal", "bidirectional", "cross", "cacheable", "query_key", "score_bias", "padding", "exact"},
)
class SoftmaxAttention(Attention):
    """Let every position take a weighted mean of values, in several heads at once.

    head_h = softmax(score(Q_h, K_g) + bias) V_g,  out = concat(head_1 .. head_H) W_O, where
    consecutive query heads share a key/value head g if n_kv_heads < n_heads: n_kv_heads = n_heads
    is multi-head, 1 multi-query, anything between grouped-query attention.

    Args:
        d_model: Width D.
        n_heads: Query heads H.
        n_kv_heads: Key/value heads; divides n_heads.
        head_dim: Width K of queries and keys.
        attention_dropout: Rate on the attention weights.
        score: How well a query fits a key; `scaled_dot` in the paper.
        value_dim: Width of a value head; null = head_dim.
        bias: Biases in the query, key and value projections.
        output_bias: Bias in the output projection; null = as `bias`.
        qk_norm: A norm over each head of queries and keys, before positions rotate them, or null.
        window: A query sees the keys less than so many tokens away, itself included; null = all. Usual: 128
            to 4096. Padding between real tokens counts; an encoder is seen whole whatever the window.
        form: How softmax attention is computed: `plain`, `fused`, or `auto`, the measured faster.

    Shapes:
        x (B, T, D), memory (B, S, D) or None = x -> (B, T, D).
        D (H K + G K + G Kv) + H Kv D parameters, biases apart.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.2; Shazeer, 2019, arXiv:1911.02150;
        Ainslie et al., 2023, arXiv:2305.13245; QK-norm: Dehghani et al., 2023, arXiv:2302.05442; window:
        Beltagy et al., 2020, arXiv:2004.05150, section 3.1; Jiang et al., 2023, arXiv:2310.06825, section 2.
    Differs: Beltagy et al. count a bidirectional window as w/2 tokens to each side: here window = w/2 + 1.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        attention_dropout: float,
        *,
        score: Annotated[Any, ChoiceOf("score")] = "scaled_dot",
        value_dim: Annotated[int | None, Range(ge=1)] = None,
        bias: bool = False,
        output_bias: bool | None = None,
        qk_norm: Annotated[Any, ChoiceOf("norm")] = None,
        window: Annotated[int | None, Range(ge=1)] = None,
        form: Form = "auto",
    ) -> None:
        super().__init__()
        check_groups(n_heads, n_kv_heads)
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.value_dim = head_dim if value_dim is None else value_dim
        self.dropout, self.window = attention_dropout, window
        self.form: Form = form
        self.query = Linear(d_model, n_heads * head_dim, bias)
        self.key = Linear(d_model, n_kv_heads * head_dim, bias)
        self.value = Linear(d_model, n_kv_heads * self.value_dim, bias)
        with_output_bias = bias if output_bias is None else output_bias
        self.output = Linear(n_heads * self.value_dim, d_model, with_output_bias, role="residual")
        self.score: Score = create("score", check_choice("score", score, "score"), {"head_dim": head_dim})
        self.query_norm, self.key_norm = head_norm(qk_norm, head_dim), head_norm(qk_norm, head_dim)

    def forward(
        self,
        x: Tensor,
        context: AttentionContext,
        memory: Tensor | None = None,
        state: AttentionState | None = None,
    ) -> Tensor:
        x = in_compute_dtype(x)
        query = self.query_norm(split_heads(self.query(x), self.n_heads))  # (B, H, T, K)
        if context.signals.query is not None:
            query = context.signals.query(query)
        key, value = self._keys_and_values(x, context, memory, state)  # (B, G, S, K), (B, G, S, Kv)
        window = self.window if memory is None else None
        heads = self._attend(query, key, value, context, window)  # (B, H, T, Kv)
        return self.output(note("concat", merge_heads(heads)))  # (B, T, H*Kv) -> (B, T, D)

    def _keys_and_values(
        self, x: Tensor, context: AttentionContext, memory: Tensor | None, state: AttentionState | None
    ) -> tuple[Tensor, Tensor]:
        """Of the source, or of all tokens so far; an encoder's are computed once."""
        assert state is None or isinstance(state, TokenState)
        if isinstance(state, CrossState) and state.length:
            key, value = state.tensors
            return key, value
        source = x if memory is None else in_compute_dtype(memory)
        key = self.key_norm(split_heads(self.key(source), self.n_kv_heads))
        value = split_heads(self.value(source), self.n_kv_heads)
        if context.signals.key is not None:
            key = context.signals.key(key)
        if state is not None:
            key, value = state.append(key, value)
        return key, value

    def init_state(self, plan: StatePlan) -> TokenState:
        return CrossState(plan.store()) if plan.cross else TokenState(plan.store(self.window))

    def state_numbers(self, n_tokens: int) -> int:
        held = n_tokens if self.window is None else min(n_tokens, self.window)
        return self.n_kv_heads * held * (self.head_dim + self.value_dim)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, context: AttentionContext, window: int | None
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        if self.score.dot_product:
            query, key, scale = self.score.transform(query, key)
            if window is not None:
                return attend_within(query, key, value, scale, context, window, dropout, self.form)
            return attend(query, key, value, scale, context, dropout, self.form)
        if window is not None:
            context = windowed(context, window, query.shape[2], key)
        repeats = self.n_heads // self.n_kv_heads
        key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
        logits = self.score.logits(query, key)  # (B, H, T, S)
        flops = len(query) * self.score.flops(self.n_heads, self.head_dim, query.shape[2], key.shape[2])
        return attend_with_logits(note("scores", logits, flops), value, context, dropout)

    def extra_flops(self, n_queries: int, n_keys: int) -> int:
        """Of all pairs: neither the causal half nor what lies outside of a window is subtracted."""
        mixing = 2 * self.n_heads * self.value_dim * n_queries * n_keys
        return self.score.flops(self.n_heads, self.head_dim, n_queries, n_keys) + mixing
