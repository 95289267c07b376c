"""Independent references: every formula once more, from its paper, by loops over single numbers.

They read the parameters of a tfexp module and nothing else of it; gradients flow through them.
"""

import cmath
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: x if x > 0 else 0 * x,
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "relu_squared": lambda x: x * x if x > 0 else 0 * x,
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "none": lambda x: x,
}


def per_token(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function of one token's features to every token of (B, T, D)."""
    return torch.stack([torch.stack([function(token) for token in row]) for row in x])


def affine(layer: Any, x: Tensor) -> Tensor:
    """W x + b of one vector, one output at a time."""
    out = [(row * x).sum() for row in layer.weight]
    return torch.stack(out if layer.bias is None else [y + b for y, b in zip(out, layer.bias, strict=True)])


def token(module: Any, ids: Tensor) -> Tensor:
    rows = torch.stack([torch.stack([module.token.weight[i] for i in row]) for row in ids.tolist()])
    return rows * (math.sqrt(rows.shape[-1]) if module.factor != 1 else 1)


def ngram(module: Any, ids: Tensor) -> Tensor:
    out = torch.zeros(*ids.shape, module.token.weight.shape[1], dtype=module.token.weight.dtype)
    for b, row in enumerate(ids.tolist()):
        for t in range(len(row)):
            out[b, t] = module.token.weight[row[t]]
            for n in range(2, min(t + 1, len(module.grams) + 1) + 1):
                code = row[t]
                for back in range(1, n):
                    code = code * 1_000_003 + row[t - back] + 1
                out[b, t] += module.grams[n - 2].weight[code % module.buckets]
    return out * (math.sqrt(out.shape[-1]) if module.factor != 1 else 1)


def residual(module: Any, x: Tensor, update: Tensor) -> Tensor:
    return torch.stack([a + b for a, b in zip(x.flatten(), update.flatten(), strict=True)]).view(x.shape)


def layernorm(module: Any, x: Tensor) -> Tensor:
    def norm(token: Tensor) -> Tensor:
        values = list(token)
        mean = sum(values) / len(values)
        variance = sum((v - mean) ** 2 for v in values) / len(values)
        inside = module.eps_place == "inside"
        spread = torch.sqrt(variance + module.eps) if inside else torch.sqrt(variance) + module.eps
        out = torch.stack([(v - mean) / spread * g for v, g in zip(values, module.weight, strict=True)])
        return out if module.bias is None else out + module.bias

    return per_token(norm, x)


def rmsnorm(module: Any, x: Tensor) -> Tensor:
    def norm(token: Tensor) -> Tensor:
        spread = torch.sqrt(sum(v * v for v in token) / len(token) + module.eps)
        return torch.stack([v / spread * g for v, g in zip(token, module.weight, strict=True)])

    return per_token(norm, x)


def activated(name: str, x: Tensor) -> Tensor:
    return torch.stack([ACTIVATIONS[name](value) for value in x])


def mlp(module: Any, x: Tensor) -> Tensor:
    return per_token(lambda u: affine(module.outer, activated(module.activation, affine(module.inner, u))), x)


def nothing(module: Any, x: Tensor) -> Tensor:
    return per_token(lambda u: torch.stack([0.0 * value for value in u]), x)


def glu(module: Any, x: Tensor) -> Tensor:
    def gated(u: Tensor) -> Tensor:
        return affine(module.outer, activated(module.activation, affine(module.gate, u)) * affine(module.inner, u))

    return per_token(gated, x)


def lm(module: Any, hidden: Tensor) -> Tensor:
    scale = 1 / math.sqrt(hidden.shape[-1]) if module.factor != 1 else 1
    return per_token(lambda token: affine(module.project, token * scale), hidden)


def mlm(module: Any, hidden: Tensor) -> Tensor:
    turned = per_token(lambda token: activated(module.activation, affine(module.transform, token)), hidden)
    return per_token(lambda token: affine(module.project, token), layernorm(module.norm, turned))


def classification(module: Any, pooled: Tensor) -> Tensor:
    def logits(vector: Tensor) -> Tensor:
        first = list(module.hidden.children())
        return affine(module.project, torch.tanh(affine(first[0], vector)) if first else vector)

    return torch.stack([logits(vector) for vector in pooled])


def pre(module: Any, x: Tensor) -> Tensor:
    u = x + torch.tanh(layernorm(module.norms["attention"], x)) * 0.5
    return u + layernorm(module.norms["feedforward"], u).flip(-1) * 0.25


def post(module: Any, x: Tensor) -> Tensor:
    u = layernorm(module.norms["attention"], x + torch.tanh(x) * 0.5)
    return layernorm(module.norms["feedforward"], u + u.flip(-1) * 0.25)


# --- pooling -----------------------------------------------------------------------------------


def pooled(reduce: Callable[[list[Tensor]], Tensor], hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Reduce the real tokens of each row to one vector; zeros where there is none."""
    rows = []
    for b, row in enumerate(hidden):
        real = [token for t, token in enumerate(row) if mask is None or mask[b, t]]
        rows.append(reduce(real) if real else 0 * row[0])
    return torch.stack(rows)


def cls(module: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    return pooled(lambda real: real[0], hidden, mask)


def last(module: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    return pooled(lambda real: real[-1], hidden, mask)


def mean(module: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    return pooled(lambda real: sum(real) / len(real), hidden, mask)


def largest(module: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    return pooled(lambda real: torch.stack([max(feature) for feature in zip(*real, strict=True)]), hidden, mask)


def attention_pooling(module: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    def weighted(real: list[Tensor]) -> Tensor:
        return mix([affine(module.context, torch.tanh(affine(module.transform, token)))[0] for token in real], real)

    return pooled(weighted, hidden, mask)


# --- scores ------------------------------------------------------------------------------------


def dot(q: Tensor, k: Tensor) -> Tensor:
    return (q * k).sum()


def score(module: Any, q: Tensor, k: Tensor) -> Tensor:
    """One query, one key -> one number; the kind is the module's class name."""
    kind = type(module).__name__
    if kind == "Additive":
        return affine(module.combine, torch.tanh(affine(module.query, q) + affine(module.key, k)))[0]
    if kind == "Cosine":
        return module.factor * dot(q, k) / (torch.sqrt(dot(q, q)) * torch.sqrt(dot(k, k)))
    return dot(q, k) * (module.scale if kind == "ScaledDot" else 1)


def scores(module: Any, query: Tensor, key: Tensor) -> Tensor:
    def square(qs: Tensor, ks: Tensor) -> Tensor:
        return torch.stack([torch.stack([score(module, q, k) for k in ks]) for q in qs])

    pairs = zip(query.flatten(0, 1), key.flatten(0, 1), strict=True)
    return torch.stack([square(qs, ks) for qs, ks in pairs]).unflatten(0, query.shape[:2])


def mix(logits: list[Tensor], values: list[Tensor]) -> Tensor:
    """Softmax over the keys that are left, then the mean of their values."""
    top = max(logit.item() for logit in logits)
    weights = [torch.exp(logit - top) for logit in logits]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


# --- positions: what `cases.act_on_everything` gathers, in the same order ------------------------


def _gather(x: Tensor, embedded: Tensor, rotate: Callable[..., Tensor], bias: Tensor) -> Tensor:
    rows = []
    for b, sample in enumerate(x):
        places = [(t if b == 0 else t + 2) for t in range(len(sample))]
        for_queries = [rotate(sample[t].roll(h, dims=-1)[:4], places[t]) for h in range(4) for t in range(len(sample))]
        for_keys = [rotate(sample[t].roll(h, dims=-1)[:4], places[t]) for h in range(2) for t in range(len(sample))]
        rows.append(torch.cat([embedded[b].flatten(), *for_queries, *for_keys, bias.flatten()]))
    return torch.stack(rows)


def _stay(vector: Tensor, place: int) -> Tensor:
    return vector


def _no_bias(x: Tensor) -> Tensor:
    return x.new_zeros(4, x.shape[1], x.shape[1])


def no_position(module: Any, x: Tensor) -> Tensor:
    return _gather(x, x, _stay, _no_bias(x))


def learned(module: Any, x: Tensor) -> Tensor:
    rows = torch.stack([module.table.weight[2 * b : 2 * b + x.shape[1]] for b in range(len(x))])
    return _gather(x, x + rows, _stay, _no_bias(x))


def sinusoidal(module: Any, x: Tensor) -> Tensor:
    d = x.shape[-1]

    def encoding(place: int) -> list[float]:
        angles = [place / module.base ** (2 * i / d) for i in range(d // 2)]
        if module.layout == "halves":
            return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        return [f(a) for a in angles for f in (math.sin, math.cos)]

    table = [[encoding(t + 2 * b) for t in range(x.shape[1])] for b in range(len(x))]
    return _gather(x, x + torch.tensor(table, dtype=x.dtype), _stay, _no_bias(x))


def rope(module: Any, x: Tensor) -> Tensor:
    """A pair of features is one complex number, and the position multiplies it by exp(i angle)."""

    def rotate(vector: Tensor, place: int) -> Tensor:
        pairs = [(0, 1), (2, 3)] if module.layout == "interleaved" else [(0, 2), (1, 3)]
        out = [vector[0]] * 4
        for i, (a, b) in enumerate(pairs):
            turned = torch.complex(vector[a], vector[b]) * cmath.exp(1j * place * module.base ** (-2 * i / 4))
            out[a], out[b] = turned.real, turned.imag
        return torch.stack(out)

    return _gather(x, x, rotate, _no_bias(x))


def alibi(module: Any, x: Tensor) -> Tensor:
    bias = [[[-(2.0 ** (-2 * (h + 1))) * abs(t - s) for s in range(5)] for t in range(5)] for h in range(4)]
    return _gather(x, x, _stay, torch.tensor(bias, dtype=x.dtype)[:, : x.shape[1], : x.shape[1]])


def t5(module: Any, x: Tensor) -> Tensor:
    """By scalar logarithms; the options of its rows keep clear of the borders of buckets, where rounding decides."""

    def bucket(offset: int) -> int:
        one_side = module.n_buckets // 2 if module.bidirectional else module.n_buckets
        distance = abs(offset) if module.bidirectional else max(-offset, 0)
        exact = one_side // 2
        if distance >= exact:
            grown = math.log(distance / exact, module.max_distance / exact) * (one_side - exact)
            distance = min(exact + int(grown), one_side - 1)
        return distance + (one_side if module.bidirectional and offset > 0 else 0)

    places = range(x.shape[1])
    bias = [[torch.stack([module.table[bucket(s - t), h] for s in places]) for t in places] for h in range(4)]
    return _gather(x, x, _stay, torch.stack([torch.stack(rows) for rows in bias]))
