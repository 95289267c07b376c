"""Attention within a window: against full attention, and over what layers of a pass share."""

import pytest
import torch

from tests.components.cases import Case, D
from tests.tiny import close, model, normal
from tfexp.components import window as window_module
from tfexp.components.base import AttentionContext
from tfexp.components.window import windowed
from tfexp.errors import ConfigError
from tfexp.model.count import count_parameters
from tfexp.model.masks import cross_attention_context, self_attention_context, step_context
from tfexp.registry import create

T = 6
PADS = [None, [[1, 1, 1, 1, 0, 0], [1] * 6], [[0, 0, 1, 1, 1, 1], [1] * 6], [[0] * 6, [1] * 6]]


def context_of(position: str = "rope", mask=None, causal: bool = True) -> AttentionContext:
    place = create("position", {"name": position}, {"head_dim": 4, "n_heads": 4}).double()
    mask = None if mask is None else torch.tensor(mask).bool()
    return self_attention_context(place, torch.arange(T), mask, torch.float64, causal)


@pytest.mark.parametrize("window", [T, T + 3])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
@pytest.mark.parametrize("pads", PADS, ids=str)
@pytest.mark.parametrize("position", ["rope", "alibi"])
def test_a_window_as_long_as_the_text_is_full_attention(window, causal, pads, position):
    x, context = normal(2, T, D), context_of(position, pads, causal)
    full, cut = (Case("attention", "softmax", {"window": w}).make()(x, context) for w in (None, window))
    assert torch.equal(full, cut)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
def test_a_shorter_window_is_not_full_attention(causal):
    x, context = normal(2, T, D), context_of(causal=causal)
    full, cut = (Case("attention", "softmax", {"window": w}).make()(x, context) for w in (None, T - 1))
    with pytest.raises(AssertionError, match="not close"):
        close(cut, full)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
@pytest.mark.parametrize("form", ["plain", "fused"])
@pytest.mark.parametrize("window", [1, 2, 4])
def test_gradients_come_from_the_window_alone(causal, form, window):
    module, x = Case("attention", "softmax", {"window": window, "form": form}).make(), normal(1, T, D).requires_grad_()
    out = module(x, context_of(causal=causal))
    for t in range(T):
        (gradient,) = torch.autograd.grad(out[:, t].square().sum(), x, retain_graph=True)
        seen = [s for s in range(T) if abs(t - s) < window and (s <= t or not causal)]
        assert [s for s in range(T) if gradient[0, s].abs().sum() > 0] == seen


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
@pytest.mark.parametrize("pads", PADS, ids=str)
@pytest.mark.parametrize("position", ["rope", "alibi"])
def test_a_window_that_holds_padding_only_gives_zeros_and_finite_gradients(causal, pads, position):
    module, x = Case("attention", "softmax", {"window": 2}).make(), normal(2, T, D).requires_grad_()
    out = module(x, context_of(position, pads, causal))
    assert out.isfinite().all()
    assert torch.autograd.grad(out.square().sum(), x)[0].isfinite().all()
    if pads is not None:
        real = torch.tensor(pads).bool()
        empty = [
            (b, t) for b in range(2) for t in range(T) if not real[b, max(t - 1, 0) : t + (1 if causal else 2)].any()
        ]
        assert all((out[b, t] == 0).all() for b, t in empty)


def test_an_encoder_is_seen_whole():
    x, memory, context = normal(2, 3, D), normal(2, 5, D, seed=4), cross_attention_context(None, torch.float64)
    full, cut = (Case("attention", "softmax", {"window": w}).make()(x, context, memory) for w in (None, 1))
    assert torch.equal(full, cut)


def test_layers_of_a_pass_share_a_windows_mask():
    context, keys = context_of(), normal(2, 2, T, 4)
    first = windowed(context, 3, T, keys)
    assert windowed(context, 3, T, keys) is first
    assert windowed(context, 2, T, keys) is not first
    assert (first.causal, windowed(context, T, T, keys).causal) == (False, True)


def test_keys_that_are_gone_are_cut_from_mask_and_bias():
    alibi, places = create("position", {"name": "alibi"}, {"n_heads": 4}), torch.arange(T)
    mask = torch.tensor([[0, 1, 1, 1, 1, 1], [1] * 6]).bool()
    context = step_context(alibi, places[4:], places, mask, torch.float64)
    cut = windowed(context, 3, 2, normal(2, 2, 4, 4))  # two new tokens, and two that were kept
    assert (cut.mask.shape, cut.logit_bias.shape) == ((2, 1, 2, 4), (2, 4, 2, 4))
    assert cut.mask[0, 0].tolist() == [[True, True, True, False], [False, True, True, True]]


def test_a_window_by_layer_is_a_line_of_yaml():
    tiny = model(n_layers=4, layers=[{"where": "::2", "attention": {"window": 3}}])
    assert [layer.attention.window for layer in tiny.decoder.layers] == [3, None, 3, None]
    assert count_parameters(tiny) == count_parameters(model(n_layers=4))


def test_a_window_without_a_token_is_refused():
    with pytest.raises(ConfigError, match=r"model\.attention\.window: must be >= 1, got 0"):
        model(attention={"name": "softmax", "window": 0})


# --- in blocks ---------------------------------------------------------------------------------------

LONG = 13
LONG_PADS = {
    "no_pads": None,
    "left": [[0] * 5 + [1] * 8, [1] * 13],
    "right": [[1] * 6 + [0] * 7, [1] * 13],
    "all": [[0] * 13, [1] * 13],
}
DOCUMENTS = [0] * 4 + [1] * 5 + [2] * 4


@pytest.mark.parametrize("form", ["plain", "fused"])
@pytest.mark.parametrize("documents", [None, DOCUMENTS], ids=["one_document", "documents"])
@pytest.mark.parametrize("pads", LONG_PADS.values(), ids=LONG_PADS)
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
@pytest.mark.parametrize("position", ["rope", "alibi"])
@pytest.mark.parametrize("window", [1, 2, 4])
def test_blocks_equal_the_masked_form(monkeypatch, window, position, causal, pads, documents, form):
    place = create("position", {"name": position}, {"head_dim": 4, "n_heads": 4}).double()
    mask = None if pads is None else torch.tensor(pads).bool()
    numbers = None if documents is None else torch.tensor(documents).expand(2, -1)
    module = Case("attention", "softmax", {"window": window, "form": form, "value_dim": 3}).make()
    x, results = normal(2, LONG, D).requires_grad_(), []
    for least in (1, LONG + 1):
        monkeypatch.setattr(window_module, "MIN_WINDOWS", least)
        context = self_attention_context(place, torch.arange(LONG), mask, torch.float64, causal, numbers)
        out = module(x, context)
        results.append((out, *torch.autograd.grad(out.square().sum(), [x, *module.parameters()])))
        assert (("blocks", window) in context.derived) == (least == 1)
    for one, other in zip(*results, strict=True):
        close(one, other, 1e-10)


def test_a_long_text_is_cut_into_blocks_and_a_short_one_is_not():
    module = Case("attention", "softmax", {"window": 2}).make()
    for length, in_blocks in ((11, False), (12, True)):
        context = self_attention_context(
            create("position", {"name": "none"}, {}), torch.arange(length), None, torch.float64
        )
        module(normal(2, length, D), context)
        assert (("blocks", 2) in context.derived) == in_blocks


def test_blocks_that_do_not_look_back_are_seen(monkeypatch):
    monkeypatch.setattr(window_module, "MIN_WINDOWS", 1)
    monkeypatch.setattr(window_module, "_neighbours", lambda x, window, order: _alone(x, window))
    module, x = Case("attention", "softmax", {"window": 3}).make(), normal(2, T, D)
    blind = module(x, context_of())
    monkeypatch.undo()
    with pytest.raises(AssertionError, match="not close"):
        close(blind, module(x, context_of()))


def _alone(x: torch.Tensor, window: int) -> torch.Tensor:
    """Each block with zeros in place of the one before it."""
    return torch.nn.functional.pad(window_module._blocks(x, window), (0, 0, window, 0))
