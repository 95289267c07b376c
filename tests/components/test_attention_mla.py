"""Multi-head latent attention: its two forms, its sizes, and the part that positions rotate."""

import pytest
import torch

from tests.components.cases import Case, D
from tests.tiny import close, normal
from tfexp.components.base import AttentionContext
from tfexp.components.state import StatePlan
from tfexp.errors import ConfigError
from tfexp.model.masks import step_context
from tfexp.registry import create

SIZES = {"q_rank": 5, "kv_rank": 6, "nope_dim": 3, "rope_dim": 4, "value_dim": 5}
OPTIONS = {"defaults": {}, "all_sizes": SIZES, "plain": {**SIZES, "form": "plain"}, "fused": {**SIZES, "form": "fused"}}
CHUNKS = {"one_by_one": [1] * 6, "prefill": [4, 1, 1], "chunks": [2, 3, 1], "whole": [6]}


def stepped(module, x: torch.Tensor, chunks: list[int], position: str, mask: torch.Tensor) -> torch.Tensor:
    place = create("position", {"name": position}, {"head_dim": 4, "n_heads": 4}).double()
    state, places, outs, seen = module.init_state(StatePlan()), (mask.cumsum(1) - 1).clamp(min=0), [], 0
    for piece in x.split(chunks, dim=1):
        now, seen = slice(seen, seen + piece.shape[1]), seen + piece.shape[1]
        context = step_context(place, places[:, now], places[:, :seen], mask[:, :seen], x.dtype)
        outs.append(module(piece, context, state=state))
    return torch.cat(outs, dim=1)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("position", ["none", "rope", "alibi"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_absorbed_and_expanded_forms_agree_with_their_gradients(options, position, chunks):
    x = normal(2, 6, D).requires_grad_()
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]]).bool()
    results = []
    for absorb in (True, False):
        module = Case("attention", "mla", {**options, "absorb": absorb}).make()
        out = stepped(module, x, chunks, position, mask)
        results.append((out, *torch.autograd.grad(out.square().sum(), [x, *module.parameters()])))
    for one, other in zip(*results, strict=True):
        close(one, other, 1e-10 * max(1.0, other.abs().max().item()))


def test_one_new_token_is_absorbed_and_many_are_expanded():
    module = Case("attention", "mla").make(n_heads=16, head_dim=128)  # of V3's proportions
    assert module._absorbs(1, 1000)
    assert not module._absorbs(1000, 1000)
    assert not module._absorbs(1, 1)
    for absorb in (True, False):
        assert Case("attention", "mla", {"absorb": absorb}).make()._absorbs(1000, 1000) is absorb


def test_parameters_equal_the_papers_formula():
    qr, r, dn, dr, dv, h = 5, 6, 3, 4, 5, 4
    latent = D * (r + dr) + r + r * h * (dn + dv) + h * dv * D
    whole = Case("attention", "mla", SIZES).make()
    assert sum(p.numel() for p in whole.parameters()) == D * qr + qr + qr * h * (dn + dr) + latent
    simple = Case("attention", "mla", {**SIZES, "q_rank": None}).make()
    assert sum(p.numel() for p in simple.parameters()) == D * h * (dn + dr) + latent


def test_sizes_of_v3():
    options = {"q_rank": 1536, "kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}
    with torch.device("meta"):
        module = create("attention", {"name": "mla", **options}, {**V3, "attention_dropout": 0.0})
    assert module.state_numbers(1) == 576
    assert module.scale == pytest.approx(192**-0.5)
    assert sum(p.numel() for p in module.parameters()) == 187_107_328


V3 = {"d_model": 7168, "n_heads": 128, "head_dim": 128}


@pytest.mark.parametrize(("head_dim", "rope_dim"), [(4, 2), (5, 4), (6, 4), (128, 64)])
def test_open_sizes_follow_from_the_head(head_dim, rope_dim):
    module = Case("attention", "mla").make(head_dim=head_dim)
    assert (module.kv_rank, module.nope_dim, module.value_dim) == (4 * head_dim, head_dim, head_dim)
    assert module.rope_dim == rope_dim


def test_an_odd_rotated_part_is_refused():
    with pytest.raises(ConfigError, match=r"model\.attention\.rope_dim: positions rotate pairs; must be even, got 3"):
        Case("attention", "mla", {"rope_dim": 3}).make()


# --- the part that positions rotate ------------------------------------------------------------------


def rotated(layout: str, head_dim: int, width: int) -> torch.Tensor:
    place = create("position", {"name": "rope", "layout": layout}, {"head_dim": head_dim})
    places = torch.arange(5)
    return place.signals(places, places, torch.float64).query(normal(1, 2, 5, width))


@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
def test_rope_turns_a_part_of_a_head_as_a_head_of_that_width(layout):
    close(rotated(layout, 16, 4), rotated(layout, 4, 4), 0.0)


def test_rope_serves_two_widths_in_one_pass():
    place, places = create("position", {"name": "rope"}, {"head_dim": 8}), torch.arange(5)
    rotate = place.signals(places, places, torch.float64).query
    for width in (8, 4, 8):
        close(rotate(normal(1, 2, 5, width)), rotated("half_split", width, width), 0.0)


def test_only_the_rotated_part_knows_the_distance():
    module, x = Case("attention", "mla", SIZES).make(), normal(1, 1, D).expand(1, 5, D)
    place, places = create("position", {"name": "rope"}, {"head_dim": 4}), torch.arange(5)
    signals = place.signals(places, places, torch.float64)
    moved = module(x + normal(1, 5, D, seed=3), AttentionContext(signals=signals))
    still = module(x + normal(1, 5, D, seed=3), AttentionContext())
    with pytest.raises(AssertionError, match="not close"):
        close(moved, still)
    with torch.no_grad():  # without the shared key nothing is left to turn
        module.compress.weight[-module.rope_dim :] = 0
    x = x + normal(1, 5, D, seed=3)
    close(module(x, AttentionContext(signals=signals)), module(x, AttentionContext()))
