"""Multi-head latent attention."""

from typing import Annotated

import torch
from torch import Tensor, nn

from tfexp.components.attend import Form, attend
from tfexp.components.attention_heads import head_norm, merge_heads, split_heads
from tfexp.components.base import Attention, AttentionContext, Linear, in_compute_dtype, note
from tfexp.components.state import AttentionState, CrossState, StatePlan, TokenState
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range


@register(
    "attention",
    "mla",
    gives={"causal", "bidirectional", "cross", "cacheable", "query_key", "score_bias", "padding", "exact"},
)
class MultiHeadLatentAttention(Attention):
    """Compress keys and values of all heads into one latent vector per token; only that is cached.

    c_t = RMSNorm(W_DKV x_t),  k_t,h = [W_UK,h c_t ; rotate(W_KR x_t)],  v_t,h = W_UV,h c_t,
    q_t,h = [q^C_t,h ; rotate(q^R_t,h)] from W_UQ RMSNorm(W_DQ x_t), or from W_Q x_t without compression,
    head_h = softmax(q k^T / sqrt(dn + dr)) v,  out = concat(head_1 .. head_H) W_O.

    Decoding may keep the keys compressed: q^C.(W_UK c) = (W_UK^T q^C).c, so that all heads attend to the same
    latent vectors, and W_UV is applied to what they gather.

    Args:
        d_model: Width D.
        n_heads: Heads H; each has its own keys and values, so n_kv_heads has no meaning here.
        head_dim: Sets the sizes left open below.
        attention_dropout: Rate on the attention weights.
        q_rank: Width qr of the compressed queries; null = queries are not compressed. V3: 1536.
        kv_rank: Width r of the latent vector; null = 4 head_dim, as in V2 and V3 (512).
        nope_dim: Width dn of the part of a query or key that positions leave alone; null = head_dim. V3: 128.
        rope_dim: Width dr of the part that positions rotate, one key for all heads; even; null = head_dim / 2,
            rounded up to an even number. V3: 64.
        value_dim: Width dv of a value head; null = head_dim. V3: 128.
        absorb: In decoding, map queries into the latent space (true) or expand all keys and values (false);
            null = whichever takes fewer operations.
        form: How softmax attention is computed: `plain`, `fused`, or `auto`, the measured faster.

    Shapes:
        x (B, T, D), memory (B, S, D) or None = x -> (B, T, D).
        D qr + qr + qr H (dn + dr) + D (r + dr) + r + r H (dn + dv) + H dv D parameters; without compressed
        queries D H (dn + dr) in place of the first three. State: r + dr numbers a token.

    Source: DeepSeek-AI, 2024, arXiv:2405.04434, section 2.1; 2024, arXiv:2412.19437, section 2.1.1.
    Differs: a position that adds to the embeddings or the scores serves as well; rope_dim is then a part
        like the rest whose key all heads share.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        head_dim: int,
        attention_dropout: float,
        *,
        q_rank: Annotated[int | None, Range(ge=1)] = None,
        kv_rank: Annotated[int | None, Range(ge=1)] = None,
        nope_dim: Annotated[int | None, Range(ge=1)] = None,
        rope_dim: Annotated[int | None, Range(ge=2)] = None,
        value_dim: Annotated[int | None, Range(ge=1)] = None,
        absorb: bool | None = None,
        form: Form = "auto",
    ) -> None:
        super().__init__()
        self.n_heads, self.dropout, self.absorb = n_heads, attention_dropout, absorb
        self.form: Form = form
        self.kv_rank = 4 * head_dim if kv_rank is None else kv_rank
        self.nope_dim = head_dim if nope_dim is None else nope_dim
        self.rope_dim = 2 * -(-head_dim // 4) if rope_dim is None else rope_dim
        self.value_dim = head_dim if value_dim is None else value_dim
        if self.rope_dim % 2:
            raise ConfigError(f"model.attention.rope_dim: positions rotate pairs; must be even, got {self.rope_dim}")
        self.scale = (self.nope_dim + self.rope_dim) ** -0.5
        self.query = _query(d_model, q_rank, n_heads * (self.nope_dim + self.rope_dim))
        self.compress = Linear(d_model, self.kv_rank + self.rope_dim, bias=False)
        self.latent_norm = head_norm("rmsnorm", self.kv_rank)
        self.expand = Linear(self.kv_rank, n_heads * (self.nope_dim + self.value_dim), bias=False)
        self.output = Linear(n_heads * self.value_dim, d_model, bias=False, role="residual")

    def forward(
        self,
        x: Tensor,
        context: AttentionContext,
        memory: Tensor | None = None,
        state: AttentionState | None = None,
    ) -> Tensor:
        x = in_compute_dtype(x)
        query = split_heads(self.query(x), self.n_heads)  # (B, H, T, dn + dr)
        query, rotated = query.split((self.nope_dim, self.rope_dim), dim=-1)
        if context.signals.query is not None:
            rotated = context.signals.query(rotated)
        latent, shared_key = self._latent(x, context, memory, state)  # (B, 1, S, r), (B, 1, S, dr)
        if state is not None and self._absorbs(x.shape[1], latent.shape[2]):
            heads = self._attend_absorbed(query, rotated, latent, shared_key, context)
        else:
            heads = self._attend_expanded(query, rotated, latent, shared_key, context)
        return self.output(note("concat", merge_heads(heads)))  # (B, H, T, dv) -> (B, T, D)

    def _latent(
        self, x: Tensor, context: AttentionContext, memory: Tensor | None, state: AttentionState | None
    ) -> tuple[Tensor, Tensor]:
        """Of the source, or of all tokens so far; an encoder's are computed once."""
        assert state is None or isinstance(state, TokenState)
        if isinstance(state, CrossState) and state.length:
            latent, key = state.tensors
            return latent, key
        source = x if memory is None else in_compute_dtype(memory)
        compressed = self.compress(source).unsqueeze(1)  # (B, 1, S, r + dr)
        latent, key = compressed.split((self.kv_rank, self.rope_dim), dim=-1)
        latent = self.latent_norm(latent)
        if context.signals.key is not None:
            key = context.signals.key(key)
        if state is not None:
            latent, key = state.append(latent, key)
        return latent, key

    def _attend_expanded(
        self, query: Tensor, rotated: Tensor, latent: Tensor, shared_key: Tensor, context: AttentionContext
    ) -> Tensor:
        expanded = split_heads(self.expand(latent.squeeze(1)), self.n_heads)  # (B, H, S, dn + dv)
        key, value = expanded.split((self.nope_dim, self.value_dim), dim=-1)
        key = torch.cat((key, shared_key.expand(-1, self.n_heads, -1, -1)), dim=-1)  # (B, H, S, dn + dr)
        return self._attend(torch.cat((query, rotated), dim=-1), key, value, context)

    def _attend_absorbed(
        self, query: Tensor, rotated: Tensor, latent: Tensor, shared_key: Tensor, context: AttentionContext
    ) -> Tensor:
        weight = self.expand.weight.view(self.n_heads, self.nope_dim + self.value_dim, self.kv_rank)
        to_key, to_value = weight.split((self.nope_dim, self.value_dim), dim=1)  # (H, dn, r), (H, dv, r)
        query = torch.cat((query @ to_key, rotated), dim=-1)  # (B, H, T, r + dr)
        key = torch.cat((latent, shared_key), dim=-1)  # (B, 1, S, r + dr): one head for all
        gathered = self._attend(query, key, latent, context)  # (B, H, T, r)
        return gathered @ to_value.mT  # (B, H, T, dv)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, context: AttentionContext) -> Tensor:
        return attend(query, key, value, self.scale, context, self.dropout if self.training else 0.0, self.form)

    def _absorbs(self, n_queries: int, n_keys: int) -> bool:
        if self.absorb is not None:
            return self.absorb
        rank, nope, rope, value = self.kv_rank, self.nope_dim, self.rope_dim, self.value_dim
        pairs = n_queries * n_keys
        absorbed = pairs * (2 * rank + rope) + n_queries * rank * (nope + value)
        return absorbed < pairs * (nope + rope + value) + n_keys * rank * (nope + value)

    def init_state(self, plan: StatePlan) -> TokenState:
        return CrossState(plan.store()) if plan.cross else TokenState(plan.store())

    def state_numbers(self, n_tokens: int) -> int:
        return n_tokens * (self.kv_rank + self.rope_dim)

    def extra_flops(self, n_queries: int, n_keys: int) -> int:
        """Of the expanded form, the one of training."""
        return 2 * self.n_heads * (self.nope_dim + self.rope_dim + self.value_dim) * n_queries * n_keys


def _query(d_model: int, rank: int | None, width: int) -> nn.Module:
    if rank is None:
        return Linear(d_model, width, bias=False)
    down, up = Linear(d_model, rank, bias=False), Linear(rank, width, bias=False)
    return nn.Sequential(down, head_norm("rmsnorm", rank), up)
