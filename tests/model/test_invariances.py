"""Invariances of the whole tiny model, over everything that is registered, and models known to break each."""

from itertools import product

import pytest
import torch

from tests.model import checks
from tests.model.broken import (
    AveragesTheBatch,
    CountsFromTheStart,
    DividesByNothing,
    LooksAhead,
    RemembersOtherDocuments,
    RemembersPadding,
    Restless,
    ScoresDifferences,
    SumsOverTheBatch,
)
from tests.tiny import close, ids, model
from tfexp.registry import names, register, resolve

POSITIONS, SCORES, NORMS, PLACEMENTS, FEEDFORWARDS = map(
    names, ("position", "score", "norm", "norm_placement", "feedforward")
)
EVERY = list(product(POSITIONS, SCORES, NORMS, PLACEMENTS, FEEDFORWARDS))
# Every position with every score; the other slots take turns.
SOME = [
    (position, score, NORMS[i % len(NORMS)], PLACEMENTS[i // 2 % len(PLACEMENTS)], FEEDFORWARDS[i % len(FEEDFORWARDS)])
    for i, (position, score) in enumerate(product(POSITIONS, SCORES))
]
CHECKS = [
    checks.check_right_padding,
    checks.check_left_padding,
    checks.check_pad_ids,
    checks.check_batch_mates,
    checks.check_explicit_positions,
    checks.check_blocked_rows,
    checks.check_packed_documents,
    checks.check_logits_at,
]


def variant(choice: tuple[str, ...], form: str = "auto", **changes):
    position, score, norm, placement, feedforward = choice
    return model(
        position=position,
        attention={"name": "softmax", "score": score, "form": form},
        norm=norm,
        norm_placement=placement,
        feedforward=feedforward,
        n_kv_heads=1,
        **changes,
    )


@pytest.mark.parametrize("choice", EVERY, ids="-".join)
def test_g23_no_gradient_comes_from_the_future(choice):
    checks.check_causality(variant(choice))


@pytest.mark.parametrize("choice", SOME, ids="-".join)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_invariance(check, choice):
    check(variant(choice))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("check", [checks.check_causality, *CHECKS], ids=lambda check: check.__name__[6:])
def test_invariance_in_the_plain_form(check, position):
    check(variant((position, "scaled_dot", "layernorm", "pre", "mlp"), form="plain"))


ATTENTIONS = {name: {"name": name} for name in names("attention")} | {"window": {"name": "softmax", "window": 3}}
DECODERS = [
    pytest.param(options, position, id=f"{attention}-{position}")
    for (attention, options), position in product(ATTENTIONS.items(), POSITIONS)
    if resolve("attention", options["name"]).gives >= resolve("position", position).needs | {"causal"}
]
ENCODERS = [name for name, o in ATTENTIONS.items() if "bidirectional" in resolve("attention", o["name"]).gives]


@pytest.mark.parametrize(("attention", "position"), DECODERS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__[6:])
def test_invariance_whatever_the_attention(check, attention, position):
    check(model(attention=attention, position=position, n_heads=4, n_kv_heads=2, head_dim=4))


@pytest.mark.parametrize(
    "attention", [o for name, o in ATTENTIONS.items() if name != "window"], ids=lambda o: o["name"]
)
def test_g23_no_gradient_comes_from_the_future_whatever_the_attention(attention):
    checks.check_causality(model(attention=attention))


@pytest.mark.parametrize("attention", ENCODERS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__[6:])
def test_invariance_of_an_encoder_whatever_the_attention(check, attention):
    check(model(architecture="encoder", position="rope", attention=ATTENTIONS[attention]))


@pytest.mark.parametrize("attention", [name for name in ENCODERS if name != "window"])
def test_an_encoder_looks_both_ways_whatever_the_attention(attention):
    checks.check_bidirectional(model(architecture="encoder", attention=ATTENTIONS[attention]))


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_rope_forgets_a_shift_whatever_the_attention(attention):
    checks.check_shift(model(attention=ATTENTIONS[attention], position="rope"))


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_packed_row_without_its_documents_is_seen_whatever_the_attention(attention):
    with pytest.raises(AssertionError, match="not close"):
        checks.check_packed_documents(model(attention=ATTENTIONS[attention]), documents=[0] * 9)


@pytest.mark.parametrize("choice", SOME, ids="-".join)
def test_h11_evaluation_is_deterministic_whatever_the_dropout(choice):
    rates = {"embedding": 0.5, "attention": 0.5, "residual": 0.5, "hidden": 0.5}
    with_dropout = variant(choice, dropout=rates)
    checks.check_deterministic(with_dropout)
    close(with_dropout(ids()).logits, variant(choice)(ids()).logits, atol=0.0)
    with pytest.raises(AssertionError):
        checks.check_deterministic(with_dropout.train())


@pytest.mark.parametrize("site", ["embedding", "attention", "residual", "hidden"])
def test_g38_each_dropout_site_acts_alone(site):
    trained = model(position="rope", dropout={site: 0.5}).train()
    with pytest.raises(AssertionError):
        checks.check_deterministic(trained)


@pytest.mark.parametrize("position", POSITIONS)
def test_relative_positions_and_only_they_forget_a_shift(position):
    if {"relative"} & resolve("position", position).gives or position == "none":
        checks.check_shift(model(position=position))
    else:
        with pytest.raises(AssertionError, match="not close"):
            checks.check_shift(model(position=position))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("form", ["plain", "fused"])
@pytest.mark.parametrize("position", POSITIONS)
def test_h18_a_model_in_half_precision_is_near_the_full_one(position, form, dtype):
    half = model(position=position, attention={"name": "softmax", "form": form}, dtype=dtype)
    tokens, mask = ids(), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    out = half(tokens, mask).logits
    assert out.dtype == dtype
    expected = half.double()(tokens, mask).logits
    # bfloat16 rounds to 2^-9, float16 to 2^-12, of logits up to 30, in some tens of steps.
    close(out.double(), expected, atol={torch.bfloat16: 1.0, torch.float16: 0.1}[dtype])


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize("position", POSITIONS)
def test_a_packed_row_without_its_documents_is_seen(position, architecture):
    with pytest.raises(AssertionError, match="not close"):
        checks.check_packed_documents(model(position=position, architecture=architecture), documents=[0] * 9)


@pytest.mark.parametrize("position", POSITIONS)
def test_a_packed_row_whose_positions_run_on_is_seen_by_absolute_ones_only(position):
    def check():
        checks.check_packed_documents(model(position=position), places=list(range(9)))

    if "absolute" in resolve("position", position).gives:
        with pytest.raises(AssertionError, match="not close"):
            check()
    else:
        check()


# --- models that are known to break each ---------------------------------------------------------


BROKEN = [
    (checks.check_causality, "feedforward", LooksAhead),
    (checks.check_right_padding, "feedforward", LooksAhead),
    (checks.check_left_padding, "position", CountsFromTheStart),
    (checks.check_batch_mates, "feedforward", AveragesTheBatch),
    (checks.check_explicit_positions, "position", SumsOverTheBatch),
    (checks.check_blocked_rows, "feedforward", DividesByNothing),
    (checks.check_packed_documents, "feedforward", LooksAhead),
    (checks.check_left_padding, "attention", RemembersPadding),
    (checks.check_packed_documents, "attention", RemembersOtherDocuments),
    (checks.check_logits_at, "head", ScoresDifferences),
    (checks.check_deterministic, "feedforward", Restless),
    (checks.check_shift, "position", SumsOverTheBatch),
]


GIVES = {"head": {"token_logits"}, "attention": {"causal", "padding"}}


@pytest.mark.parametrize(("check", "slot", "broken"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_model_is_seen(scratch_registry, check, slot, broken):
    register(slot, "broken", gives=GIVES.get(slot, ()))(broken)
    with pytest.raises(AssertionError):
        check(model(**{slot: "broken"}))


@pytest.mark.parametrize(("slot", "broken"), [("feedforward", LooksAhead), ("attention", RemembersPadding)])
def test_a_model_that_reads_pad_ids_is_seen(scratch_registry, monkeypatch, slot, broken):
    register(slot, "broken", gives=GIVES.get(slot, ()))(broken)
    monkeypatch.setattr("tfexp.model.transformer.token_vectors", checks.looked_up)
    with pytest.raises(AssertionError):
        checks.check_pad_ids(model(**{slot: "broken"}))


def test_a_model_without_the_mask_is_seen(monkeypatch):
    monkeypatch.setattr("tfexp.model.masks.causal_mask", lambda q, k: torch.ones(len(q), len(k), dtype=torch.bool))
    open_model = model(attention={"name": "softmax", "form": "plain"})
    with pytest.raises(AssertionError, match="the future leaks"):
        checks.check_causality(open_model)
    assert (checks.future_gradients(open_model) > 0).all()
