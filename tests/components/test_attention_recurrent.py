"""Recurrences: parallel, chunked and token by token are one function, and its gradients are one."""

import math

import pytest
import torch

from tests.components.cases import Case, D
from tests.tiny import close, normal
from tfexp.components.attention.delta import FadingRate
from tfexp.components.attention.retention import decays
from tfexp.components.base import AttentionContext
from tfexp.components.delta_rule import delta_rule
from tfexp.components.recurrence import decayed_recurrence
from tfexp.components.short_convolution import ShortConvolution

B, G, R, T, K, V = 2, 2, 2, 11, 4, 3
ATOL = 1e-10  # float64 over 11 tokens
FORMS = {
    "parallel": ("parallel", 64),
    "recurrent": ("recurrent", 64),
    "one_chunk": ("chunked", 11),
    "chunks_of_1": ("chunked", 1),
    "chunks_of_3": ("chunked", 3),
    "chunks_of_5": ("chunked", 5),
    "auto": ("auto", 4),
}
REAL = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 0]]).bool()
STARTS = torch.tensor([[0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0]]).bool()
CONTEXTS = {
    "plain": AttentionContext(),
    "padding": AttentionContext(real=REAL),
    "documents": AttentionContext(starts=STARTS),
    "documents_of_all_rows": AttentionContext(starts=STARTS[0]),
    "both": AttentionContext(real=REAL, starts=STARTS),
}
NAMES = ["linear", "retention", "delta"]

every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
every_context = pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
with_or_without_delta = pytest.mark.parametrize("delta", [False, True], ids=["sums", "delta"])


def inputs(delta: bool, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Queries, keys, values, with the delta rule strengths, and log decays."""
    query, key, value = normal(B, G, R, T, K), normal(B, G, 1, T, K, seed=3), normal(B, G, 1, T, V, seed=4)
    log_decay = -normal(B, G, 1, T, 1, seed=6).exp()
    strength = [normal(B, G, 1, T, 1, seed=5).sigmoid()] if delta else []
    key = key / key.norm(dim=-1, keepdim=True)
    return [part.to(dtype).requires_grad_() for part in (query, key, value, *strength, log_decay)]


def earlier(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return normal(B, G, 1, K, V, seed=7).to(dtype).requires_grad_()


def run(delta: bool, parts, context: AttentionContext, state, form) -> tuple[torch.Tensor, torch.Tensor]:
    return (delta_rule if delta else decayed_recurrence)(*parts, context, state, *form)


def loop(delta: bool, parts, context: AttentionContext, state) -> tuple[torch.Tensor, torch.Tensor]:
    """One row, one head, one token at a time."""
    query, key, value, *strength, log_decay = parts
    starts = None if context.starts is None else context.starts.expand(B, T)
    outs, lasts = [], []
    for b in range(B):
        for g in range(G):
            memory = torch.zeros(K, V, dtype=query.dtype) if state is None else state[b, g, 0]
            rows = []
            for t in range(T):
                if starts is not None and starts[b, t]:
                    memory = memory * 0
                if context.real is None or context.real[b, t]:
                    k, v = key[b, g, 0, t], value[b, g, 0, t]
                    memory = memory * log_decay[b, g, 0, t].exp()
                    new = strength[0][b, g, 0, t] * (v - memory.T @ k) if strength else v
                    memory = memory + torch.outer(k, new)
                rows.append(torch.stack([memory.T @ query[b, g, r, t] for r in range(R)]))
            outs.append(torch.stack(rows, dim=1))
            lasts.append(memory)
    return torch.stack(outs).view(B, G, R, T, V), torch.stack(lasts).view(B, G, 1, K, V)


@every_form
@every_context
@with_or_without_delta
@pytest.mark.parametrize("continued", [False, True], ids=["from_nothing", "continued"])
def test_every_form_equals_the_loop_with_its_gradients(delta, context, form, continued):
    parts, state = inputs(delta), earlier() if continued else None
    wanted = [*parts, state] if continued else parts
    ours, theirs = run(delta, parts, context, state, form), loop(delta, parts, context, state)
    for one, other in zip(ours, theirs, strict=True):
        close(one, other, ATOL)
    gradients = [
        torch.autograd.grad(
            (out * normal(*out.shape, seed=8)).sum() + (last * normal(*last.shape, seed=9)).sum(), wanted
        )
        for out, last in (ours, theirs)
    ]
    for one, other in zip(*gradients, strict=True):
        close(one, other, ATOL)


@every_form
@with_or_without_delta
def test_gradients_equal_differences(delta, form):
    parts = [part.detach()[:1, :1, :, :5].requires_grad_() for part in inputs(delta)]
    context = AttentionContext(real=REAL[1:, :5], starts=STARTS[1:, :5])
    assert torch.autograd.gradcheck(lambda *given: run(delta, given, context, None, form), parts, atol=1e-6)


@every_form
@with_or_without_delta
def test_a_form_that_forgets_nothing_is_seen(delta, form):
    parts = inputs(delta)
    lasting = [*parts[:-1], torch.zeros_like(parts[-1])]
    expected, _ = loop(delta, parts, AttentionContext(), None)
    with pytest.raises(AssertionError, match="not close"):
        close(run(delta, lasting, AttentionContext(), None, form)[0], expected, ATOL)


@pytest.mark.parametrize("blind", [{"real": None}, {"starts": None}], ids=["to_padding", "to_documents"])
@every_form
@with_or_without_delta
def test_a_form_that_is_blind_is_seen(delta, form, blind):
    seen = {"real": REAL, "starts": STARTS}
    parts = inputs(delta)
    expected, _ = loop(delta, parts, AttentionContext(**seen), None)
    with pytest.raises(AssertionError, match="not close"):
        close(run(delta, parts, AttentionContext(**{**seen, **blind}), None, form)[0], expected, ATOL)


@every_form
@with_or_without_delta
def test_pieces_equal_the_whole(delta, form):
    parts, state, outs = inputs(delta), None, []
    for some in zip(*(part.split([4, 1, 6], dim=-2) for part in parts), strict=True):
        out, state = run(delta, some, AttentionContext(), state, form)
        outs.append(out)
    whole, last = run(delta, parts, AttentionContext(), None, form)
    close(torch.cat(outs, dim=-2), whole, ATOL)
    close(state, last, ATOL)


@pytest.mark.parametrize("rate", [0.0, -1e-4, -30.0, -1e4], ids=str)
@with_or_without_delta
def test_weak_and_strong_decays_stay_finite(delta, rate):
    *parts, log_decay = inputs(delta, torch.float32)
    parts = [part.detach().repeat_interleave(30, dim=-2).requires_grad_() for part in parts]  # 330 tokens
    decay = torch.full_like(log_decay.repeat_interleave(30, dim=-2), rate, requires_grad=True)
    out, last = run(delta, [*parts, decay], AttentionContext(), None, ("chunked", 64))
    gradients = torch.autograd.grad(out.sum() + last.sum(), [*parts, decay])
    assert all(part.isfinite().all() for part in (out, last, *gradients))
    exact = run(delta, [part.double() for part in (*parts, decay)], AttentionContext(), None, ("recurrent", 64))
    close(out.double(), exact[0], 1e-5 * exact[0].abs().max().item())  # float32 over 330 tokens


# --- whole layers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_forms_of_a_layer_agree(name):
    x = normal(2, 40, D).requires_grad_()
    results = []
    for form in ({"form": "parallel"}, {"form": "recurrent"}, {"form": "chunked", "chunk": 16}, {"chunk": 7}):
        out = Case("attention", name, form).make()(x, AttentionContext(left_to_right=True))
        results.append((out, torch.autograd.grad(out.square().sum(), x)[0]))
    for out, gradient in results[1:]:
        close(out, results[0][0], ATOL)
        close(gradient, results[0][1], 1e-9 * results[0][1].abs().max().item())


@pytest.mark.parametrize("name", NAMES)
def test_autocast_does_not_reach_the_sums(name):
    module, x = Case("attention", name).make(torch.float32), normal(2, 40, D).float()
    exact = module(x, AttentionContext(left_to_right=True))
    with torch.autocast("cpu", torch.bfloat16):
        out = module(x, AttentionContext(left_to_right=True))
    close(out.float(), exact, 0.05 * exact.abs().max().item())  # the projections are rounded to 2^-9


@pytest.mark.parametrize("name", NAMES)
def test_a_model_on_meta_computes_shapes(name):
    with torch.device("meta"):
        out = Case("attention", name).make()(
            torch.empty(2, 100, D, dtype=torch.float64), AttentionContext(left_to_right=True)
        )
    assert out.shape == (2, 100, D)


# --- linear ----------------------------------------------------------------------------------------


def test_linear_attention_of_one_key_returns_its_value():
    module, x = Case("attention", "linear", {"eps": 1e-12}).make(), normal(1, 1, D)
    value = module.value(x).view(1, 1, 2, 4).repeat_interleave(2, dim=2).flatten(2)
    close(module(x, AttentionContext(left_to_right=True)), module.output(value), 1e-9)


def test_linear_attention_is_a_weighted_mean_and_the_last_causal_token_sees_all():
    module, x = Case("attention", "linear").make(), normal(2, 6, D)
    causal, open_ = (module(x, AttentionContext(left_to_right=order)) for order in (True, False))
    close(causal[:, -1], open_[:, -1], 1e-11)
    with pytest.raises(AssertionError, match="not close"):
        close(causal[:, 0], open_[:, 0], 1e-11)


def test_the_feature_map_keeps_small_numbers():
    from tfexp.components.attention.linear import phi

    x = torch.tensor([-60.0, -1.0, 0.0, 2.0, 1000.0], requires_grad=True)
    out = phi(x)
    close(out.detach(), [math.exp(-60), math.exp(-1), 1.0, 3.0, 1001.0], 1e-6)
    assert out[0] > 0  # elu(x) + 1 is 0 there in float32
    close(torch.autograd.grad(out.sum(), x)[0], [0.0, math.exp(-1), 1.0, 1.0, 1.0], 1e-6)


# --- retention -------------------------------------------------------------------------------------


def test_decays_of_four_heads_are_the_papers():
    close(decays(4, torch.zeros((), dtype=torch.float64)), [0.96875, 0.984375, 0.9921875, 0.99609375], 0.0)


@pytest.mark.parametrize("value_dim", [None, 8])
def test_parameters_of_retention(value_dim):
    module = Case("attention", "retention", {"value_dim": value_dim}).make(n_heads=2, n_kv_heads=2, head_dim=4)
    wide = value_dim or 4
    assert sum(p.numel() for p in module.parameters()) == D * (2 * 2 * 4 + 2 * wide) + 2 * 2 * wide * D


# --- delta -----------------------------------------------------------------------------------------


def test_a_key_written_twice_holds_the_second_value():
    key = torch.eye(K, dtype=torch.float64)[[0, 1, 0]].view(1, 1, 1, 3, K)
    value, ones = normal(1, 1, 1, 3, V), torch.ones(1, 1, 1, 3, 1, dtype=torch.float64)
    out, state = delta_rule(key, key, value, ones, 0 * ones, AttentionContext(), None, "auto", 2)
    close(out[0, 0, 0], value[0, 0, 0], 1e-14)
    close(state[0, 0, 0, :2], value[0, 0, 0, [2, 1]], 1e-14)


def test_parameters_of_the_delta_rule():
    heads = {"n_heads": 2, "n_kv_heads": 2, "head_dim": 4}
    counts = {
        name: sum(p.numel() for p in Case("attention", "delta", options).make(**heads).parameters())
        for name, options in {
            "all": {},
            "plain": {"gated": False, "conv": None, "output_gate": False},
            "not_gated": {"gated": False},
            "no_conv": {"conv": None},
        }.items()
    }
    plain = 4 * D * 8 + D * 2 + 4
    assert counts == {
        "all": plain + D * 2 + 2 * 2 + 4 * 24 + D * 8,
        "plain": plain,
        "not_gated": plain + 4 * 24 + D * 8,
        "no_conv": plain + D * 2 + 2 * 2 + D * 8,
    }


def test_a_gate_that_is_shut_makes_deltanet():
    gated, plain = (Case("attention", "delta", {"gated": g}).make() for g in (True, False))
    shared = {name: value for name, value in gated.state_dict().items() if not name.startswith("decay.")}
    plain.load_state_dict(shared)
    with torch.no_grad():
        gated.decay.log_rate.fill_(-100.0)  # a = exp(-e^-100 ...) = 1
    x, context = normal(2, 6, D), AttentionContext(left_to_right=True)
    close(gated(x, context), plain(x, context), 1e-11)


def test_the_memory_starts_to_fade_within_the_papers_range():
    torch.manual_seed(3)
    rate = FadingRate(D, 500)
    step = torch.nn.functional.softplus(rate.bias)
    assert 1 <= rate.log_rate.exp().min() < 2 < 15 < rate.log_rate.exp().max() <= 16
    assert 1e-3 * 0.999 <= step.min() < 2e-3 < 0.08 < step.max() <= 0.1001
    assert step.log().mean().item() == pytest.approx(math.log(1e-2), abs=0.25)  # 500 draws: standard error 0.06


def test_the_convolution_is_torchs():
    convolution, x = ShortConvolution(3, 4).double(), normal(2, 7, 3)
    out, last = convolution(x, AttentionContext(), None), convolution.last_inputs(x, AttentionContext(), None)
    padded = torch.nn.functional.pad(x.mT, (3, 0))
    theirs = torch.nn.functional.conv1d(padded, convolution.weight.flip(-1).unsqueeze(1), groups=3).mT
    close(out, theirs, 1e-14)
    close(last, x[:, -3:])


@pytest.mark.parametrize("sizes", [[1] * 7, [2, 5], [7]], ids=str)
def test_the_convolution_skips_padding_and_goes_on(sizes):
    convolution, x = ShortConvolution(3, 4).double(), normal(2, 7, 3)
    real = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 0, 1, 0, 1, 1]]).bool()
    outs, last = [], None
    for piece, here in zip(x.split(sizes, dim=1), real.split(sizes, dim=1), strict=True):
        outs.append(convolution(piece, AttentionContext(real=here), last))
        last = convolution.last_inputs(piece, AttentionContext(real=here), last)
    out = torch.cat(outs, dim=1)
    for b in range(2):
        close(out[b, real[b]], convolution(x[b : b + 1, real[b]], AttentionContext(), None)[0], 1e-14)
        close(last[b], x[b, real[b]][-3:], 0.0)
