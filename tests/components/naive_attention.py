"""Independent references of attention: one query of one head at a time, by loops, as in `naive.py`.

They read parameters, the mask and the signals, and nothing else of a module or a context.
"""

import math
from typing import Any

import torch
from torch import Tensor

from tests.components.naive import ACTIVATIONS, activated, affine, dot, mix, rmsnorm, score


def attention(module: Any, x: Tensor, context: Any, memory: Tensor | None = None) -> Tensor:
    """Multi-head attention, one query of one head at a time; reads mask, signals and open bias of the context."""
    source = x if memory is None else memory
    return torch.stack([_attend_sample(module, x[b], source[b], context, b, memory is None) for b in range(len(x))])


def projected(layers: list[tuple[Any, Tensor]]) -> list[Tensor]:
    """W x of every token, for each pair of a layer and its tokens (T, D)."""
    return [torch.stack([affine(layer, token) for token in tokens]) for layer, tokens in layers]


def _attend_sample(module: Any, x: Tensor, source: Tensor, context: Any, b: int, own: bool) -> Tensor:
    share, signals = module.n_heads // module.n_kv_heads, context.signals
    every_q, every_k, every_v = projected([(module.query, x), (module.key, source), (module.value, source)])
    window = module.window if own and module.window is not None else len(source)
    heads = []
    for h in range(module.n_heads):
        q = _signal(signals.query, _normed(module.query_norm, _head(every_q, h, module.head_dim)), b)
        k = _signal(signals.key, _normed(module.key_norm, _head(every_k, h // share, module.head_dim)), b)
        v = _head(every_v, h // share, module.value_dim)
        rows = []
        for t in range(len(x)):
            near = [s for s in range(len(source)) if not own or abs(t - s) < window]
            seen = [s for s in near if _allowed(context.mask, b, t, s)]
            logits = [score(module.score, q[t], k[s]) + _bias(signals.bias, b, h, t, s) for s in seen]
            rows.append(mix(logits, [v[s] for s in seen]) if seen else v.new_zeros(module.value_dim))
        heads.append(torch.stack(rows))
    return torch.stack([affine(module.output, concat) for concat in torch.cat(heads, dim=-1)])


def linear_attention(module: Any, x: Tensor, context: Any, memory: Tensor | None = None) -> Tensor:
    """A mean of values weighted by phi(q).phi(k), over the keys that the mask leaves."""
    source, share, signals = x if memory is None else memory, module.n_heads // module.n_kv_heads, context.signals

    def phi(tokens: Tensor) -> Tensor:
        return torch.stack([torch.stack([v + 1 if v > 0 else torch.exp(v) for v in token]) for token in tokens])

    def head(h: int, b: int, every: list[Tensor]) -> Tensor:
        q, k = phi(_head(every[0], h, module.head_dim)), phi(_head(every[1], h // share, module.head_dim))
        v = _head(every[2], h // share, module.value_dim)
        turned_q, turned_k = _signal(signals.query, q, b), _signal(signals.key, k, b)
        rows = []
        for t in range(len(q)):
            seen = [s for s in range(len(k)) if _allowed(context.mask, b, t, s)]
            top = sum((dot(turned_q[t], turned_k[s]) * v[s] for s in seen), 0 * v[0])
            rows.append(top / (sum(dot(q[t], k[s]) for s in seen) + module.eps))
        return torch.stack(rows)

    out = []
    for b in range(len(x)):
        every = projected([(module.query, x[b]), (module.key, source[b]), (module.value, source[b])])
        concat = torch.cat([head(h, b, every) for h in range(module.n_heads)], dim=-1)
        out.append(torch.stack([affine(module.output, token) for token in concat]))
    return torch.stack(out)


def retention(module: Any, x: Tensor, context: Any) -> Tensor:
    """Values weighted by q.k and a power of the head's decay: one for each real token between the two."""
    share, signals, out = module.n_heads // module.n_kv_heads, context.signals, []
    for b in range(len(x)):
        every = projected([(module.query, x[b]), (module.key, x[b]), (module.value, x[b]), (module.gate, x[b])])
        heads = []
        for h in range(module.n_heads):
            q = _signal(signals.query, _head(every[0], h, module.head_dim), b)
            k = _signal(signals.key, _head(every[1], h // share, module.head_dim), b)
            v, gamma, rows = _head(every[2], h // share, module.value_dim), 1 - 2.0 ** (-5 - h // share), []
            for t in range(len(q)):
                o = 0 * v[0]
                for s in range(t + 1):
                    if _allowed(context.mask, b, t, s):
                        between = sum(_is_real(context, b, u) for u in range(s + 1, t + 1))
                        o = o + gamma**between * dot(q[t], k[s]) / math.sqrt(module.head_dim) * v[s]
                mean = sum(o) / len(o)
                variance = sum((n - mean) ** 2 for n in o) / len(o)
                rows.append((o - mean) / torch.sqrt(variance + module.eps))
            heads.append(torch.stack(rows))
        gated = torch.cat(heads, dim=-1) * torch.stack([activated("silu", g) for g in every[3]])
        out.append(torch.stack([affine(module.output, token) for token in gated]))
    return torch.stack(out)


def delta(module: Any, x: Tensor, context: Any) -> Tensor:
    """Token by token: fade, take away what stood under the key, write the new value, read."""
    return torch.stack([_delta_sample(module, x[b], context, b) for b in range(len(x))])


def _convolved(module: Any, every: list[Tensor], context: Any, b: int) -> list[list[Tensor]]:
    """silu of q, k and v of each token, each mixed with its own last few real ones."""
    first, mixed = 0, []
    for part in every:
        rows = []
        for t in range(len(part)):
            if module.convolution is None:
                rows.append(activated("silu", part[t]))
                continue
            taps = module.convolution.weight[first : first + part.shape[1]]
            near = [s for s in range(t, -1, -1) if s == t or (_allowed(context.mask, b, t, s))]
            rows.append(activated("silu", sum(taps[:, o] * part[s] for o, s in enumerate(near[: taps.shape[1]]))))
        mixed.append(rows)
        first += part.shape[1]
    return mixed


def _delta_sample(module: Any, x: Tensor, context: Any, b: int) -> Tensor:
    share, signals = module.n_heads // module.n_kv_heads, context.signals
    every = projected([(module.query, x), (module.key, x), (module.value, x)])
    qs, ks, vs = (torch.stack(rows) for rows in _convolved(module, every, context, b))

    def unit(tokens: Tensor) -> Tensor:
        return torch.stack([token / torch.sqrt(dot(token, token) + 1e-6) for token in tokens])

    heads = []
    for h in range(module.n_heads):
        g, rows = h // share, []
        q = _signal(signals.query, unit(_head(qs, h, module.head_dim)), b) / math.sqrt(module.head_dim)
        k, v = _signal(signals.key, unit(_head(ks, g, module.head_dim)), b), _head(vs, g, module.value_dim)
        memory = [0 * v[0] for _ in range(module.head_dim)]  # a value for each feature of a key
        for t in range(len(x)):
            if t and not _allowed(context.mask, b, t, t - 1) and _is_real(context, b, t - 1):
                memory = [0 * row for row in memory]  # another document
            if _is_real(context, b, t):
                strength = ACTIVATIONS["sigmoid"](affine(module.strength, x[t])[g])
                if module.decay is not None:
                    step = affine(module.decay.project, x[t])[g] + module.decay.bias[g]
                    fade = torch.exp(-torch.exp(module.decay.log_rate[g]) * torch.log(1 + torch.exp(step)))
                    memory = [fade * row for row in memory]
                stood = sum(k[t][i] * row for i, row in enumerate(memory))
                memory = [row + strength * k[t][i] * (v[t] - stood) for i, row in enumerate(memory)]
            rows.append(sum(q[t][i] * row for i, row in enumerate(memory)))
        heads.append(rmsnorm(module.head_norm, torch.stack(rows).unsqueeze(0))[0])
    out = torch.cat(heads, dim=-1)
    if module.gate is not None:
        out = out * torch.stack([activated("silu", affine(module.gate, token)) for token in x])
    return torch.stack([affine(module.output, token) for token in out])


def mla(module: Any, x: Tensor, context: Any, memory: Tensor | None = None) -> Tensor:
    """Keys and values of every head from one latent vector; the rotated part of a key is one for all heads."""
    source, nope, signals, out = x if memory is None else memory, module.nope_dim, context.signals, []
    for b in range(len(x)):
        tokens = x[b]
        layers = list(module.query.children()) or [module.query]
        for layer in layers:
            tokens = _normed(layer, tokens) if layer.weight.dim() == 1 else projected([(layer, tokens)])[0]
        (compressed,) = projected([(module.compress, source[b])])
        latent = rmsnorm(module.latent_norm, compressed[None, :, : module.kv_rank])[0]
        shared = _signal(signals.key, compressed[:, module.kv_rank :], b)
        (expanded,) = projected([(module.expand, latent)])
        heads = []
        for h in range(module.n_heads):
            q, kv = _head(tokens, h, nope + module.rope_dim), _head(expanded, h, nope + module.value_dim)
            turned, rows = _signal(signals.query, q[:, nope:], b), []
            for t in range(len(x[b])):
                seen = [s for s in range(len(source[b])) if _allowed(context.mask, b, t, s)]
                logits = [
                    (dot(q[t, :nope], kv[s, :nope]) + dot(turned[t], shared[s])) / math.sqrt(nope + module.rope_dim)
                    + _bias(signals.bias, b, h, t, s)
                    for s in seen
                ]
                rows.append(mix(logits, [kv[s, nope:] for s in seen]) if seen else kv.new_zeros(module.value_dim))
            heads.append(torch.stack(rows))
        out.append(torch.stack([affine(module.output, concat) for concat in torch.cat(heads, dim=-1)]))
    return torch.stack(out)


def _is_real(context: Any, b: int, t: int) -> bool:
    return context.real is None or bool(context.real[b, t])


def _head(x: Tensor, h: int, width: int) -> Tensor:
    return x[:, h * width : (h + 1) * width]


def _normed(norm: Any, x: Tensor) -> Tensor:
    return x if not list(norm.parameters()) else rmsnorm(norm, x.unsqueeze(0))[0]


def _signal(rotate: Any, x: Tensor, b: int) -> Tensor:
    # Positions that differ within the batch rotate each sample its own way.
    return x if rotate is None else rotate(x.expand(2, 1, *x.shape))[b, 0]


def _allowed(mask: Tensor | None, b: int, t: int, s: int) -> bool:
    if mask is None:
        return True
    return bool(mask[b, 0, min(t, mask.shape[2] - 1), s] if mask.dim() == 4 else mask[t, s])  # T may be 1


def _bias(bias: Tensor | None, b: int, h: int, t: int, s: int) -> Tensor | float:
    if bias is None:
        return 0.0
    return bias[b, h, t, s] if bias.dim() == 4 else bias[h, t, s]
