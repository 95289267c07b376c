"""Encoders, models of two sides and pooled heads: their invariances, and models known to break each."""

from itertools import product

import pytest
import torch

from tests.model import broken, checks, pair_checks
from tests.tiny import close, ids, model
from tfexp.components.base import AttentionContext
from tfexp.registry import names, register, resolve

POSITIONS, SCORES, NORMS, PLACEMENTS, FEEDFORWARDS, POOLINGS = map(
    names, ("position", "score", "norm", "norm_placement", "feedforward", "pooling")
)
FORMS = ("plain", "fused", "auto")
# Every position with every placement; the other slots take turns.
SOME = [
    (position, placement, SCORES[i % len(SCORES)], FORMS[i % 3], NORMS[i % len(NORMS)], FEEDFORWARDS[i // 2 % 2])
    for i, (position, placement) in enumerate(product(POSITIONS, PLACEMENTS))
]
ENCODER_CHECKS = [
    checks.check_bidirectional,
    checks.check_right_padding,
    checks.check_left_padding,
    checks.check_pad_ids,
    checks.check_batch_mates,
    checks.check_explicit_positions,
    checks.check_blocked_rows,
    checks.check_packed_documents,
    checks.check_logits_at,
]
ENDS = [*POOLINGS, "encoder_decoder"]


def variant(choice: tuple[str, ...], architecture: str, **changes):
    position, placement, score, form, norm, feedforward = choice
    return model(
        architecture=architecture,
        position=position,
        attention={"name": "softmax", "score": score, "form": form},
        norm=norm,
        norm_placement=placement,
        feedforward=feedforward,
        n_kv_heads=1,
        **changes,
    )


def classifier(pooling: str = "mean", **changes):
    return model(**{"architecture": "encoder", "pooling": pooling, "head": "classification", "n_labels": 3, **changes})


def name_of(value) -> str:
    return value if isinstance(value, str) else value.__name__.removeprefix("check_")


@pytest.mark.parametrize("choice", SOME, ids="-".join)
@pytest.mark.parametrize("check", ENCODER_CHECKS, ids=name_of)
def test_invariance_of_an_encoder(check, choice):
    check(variant(choice, "encoder"))


@pytest.mark.parametrize("choice", SOME, ids="-".join)
@pytest.mark.parametrize("check", pair_checks.CHECKS, ids=name_of)
def test_invariance_of_two_sides(check, choice):
    check(variant(choice, "encoder_decoder"))


@pytest.mark.parametrize("share", [True, False], ids=["shared", "own_tables"])
@pytest.mark.parametrize("check", pair_checks.CHECKS, ids=name_of)
def test_invariance_of_two_sides_that_differ(check, share):
    sides = {"encoder": {"position": "rope", "n_layers": 1, "norm_placement": "post"}, "decoder": {"position": "alibi"}}
    check(model(architecture="encoder_decoder", share_embeddings=share, cross_attention="softmax", **sides))


@pytest.mark.parametrize("position", ["none", "rope", "alibi", "sinusoidal"])
def test_an_encoder_without_positions_is_blind_to_order_and_only_then(position):
    made, tokens, order = model(architecture="encoder", position=position), ids(), torch.tensor([2, 0, 3, 1])
    moved, expected = made(tokens[:, order]).logits, made(tokens).logits[:, order]
    if position == "none":
        close(moved, expected, atol=checks.ATOL)
    else:
        with pytest.raises(AssertionError, match="not close"):
            close(moved, expected, atol=checks.ATOL)


@pytest.mark.parametrize("position", POSITIONS)
def test_only_relative_positions_forget_a_shift_of_the_source(position):
    made, places = model(architecture="encoder_decoder", position=position), torch.arange(5).expand(1, 5)
    here, there = (
        made(pair_checks.SOURCE, position_ids=places + shift, decoder_input_ids=pair_checks.TARGET).logits
        for shift in (0, 9)
    )
    if "absolute" in resolve("position", position).gives:
        with pytest.raises(AssertionError, match="not close"):
            close(here, there, atol=checks.ATOL)
    else:
        close(here, there, atol=checks.ATOL)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("form", ["plain", "fused"])
def test_h18_two_sides_in_half_precision_are_near_the_full_ones(form, dtype):
    attention = {"name": "softmax", "form": form}
    half = model(architecture="encoder_decoder", position="rope", attention=attention, dtype=dtype)
    source, target = torch.tensor([[0, 0, 3, 4], [1, 2, 0, 0], [0, 0, 0, 0]]), ids(3, 4)
    out = pair_checks.logits(half, source, target, source != 0, target != 3)
    assert out.dtype == dtype
    expected = pair_checks.logits(half.double(), source, target, source != 0, target != 3)
    # bfloat16 rounds to 2^-9, float16 to 2^-12, of logits up to 30, in some tens of steps.
    close(out.double(), expected, atol={torch.bfloat16: 1.0, torch.float16: 0.1}[dtype])


# --- heads that score sequences -----------------------------------------------------------------


def check_pooled(made) -> None:
    """A sequence alone, and with padding on either side beside a mate, gives the same logits."""
    tokens, pads, mate = ids(1, 4), torch.zeros(1, 2, dtype=torch.int64), ids(1, 6, seed=3)
    for parts in ((tokens, pads), (pads, tokens)):
        row = torch.cat(parts, dim=1)
        mask = torch.cat((row != 0, torch.ones(1, 6, dtype=torch.bool)))
        logits = made(torch.cat((row, mate)), mask).logits
        close(logits[:1], made(tokens).logits, atol=checks.ATOL)
        close(logits[1:], made(mate).logits, atol=checks.ATOL)


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("position", POSITIONS)
def test_padding_changes_no_class(position, pooling, architecture):
    check_pooled(classifier(pooling, position=position, architecture=architecture))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_two_sides_pool_the_target(pooling):
    made = classifier(pooling, architecture="encoder_decoder", position="rope")
    source, target = pair_checks.SOURCE, pair_checks.TARGET
    alone = made(source, decoder_input_ids=target)
    padded = torch.cat((target, target.new_zeros(1, 2)), dim=1)
    with_pads = made(source, decoder_input_ids=padded, decoder_attention_mask=padded != 0)
    assert alone.logits.shape == (1, 3)
    close(with_pads.logits, alone.logits, atol=checks.ATOL)
    close(alone.logits, made.head(made.pooling(alone.hidden, None)), atol=0.0)


# --- models that are known to break each ---------------------------------------------------------

EVERYTHING = {"causal", "bidirectional", "cross", "query_key", "score_bias", "padding", "exact", "token_logits"}
BROKEN_ENCODERS = [
    (checks.check_bidirectional, "attention", broken.Inattentive),
    (checks.check_right_padding, "feedforward", broken.LooksAhead),
    (checks.check_left_padding, "position", broken.CountsFromTheStart),
    (checks.check_pad_ids, "feedforward", broken.LooksAhead),
    (checks.check_batch_mates, "feedforward", broken.AveragesTheBatch),
    (checks.check_explicit_positions, "position", broken.SumsOverTheBatch),
    (checks.check_blocked_rows, "feedforward", broken.DividesByNothing),
    (checks.check_packed_documents, "feedforward", broken.LooksAhead),
    (checks.check_logits_at, "head", broken.ScoresDifferences),
]
BROKEN_PAIRS = [
    (pair_checks.check_target_causality, "feedforward", broken.LooksAhead),
    (pair_checks.check_whole_source_seen, "attention", broken.ReadsTheFirstOnly),
    (pair_checks.check_source_padding, "feedforward", broken.LooksAhead),
    (pair_checks.check_source_padding, "position", broken.CountsFromTheStart),
    (pair_checks.check_target_padding, "feedforward", broken.LooksAhead),
    (pair_checks.check_target_padding, "position", broken.CountsFromTheStart),
    (pair_checks.check_pad_ids, "feedforward", broken.LooksAhead),
    (pair_checks.check_batch_mates, "feedforward", broken.AveragesTheBatch),
    (pair_checks.check_blocked_rows, "feedforward", broken.DividesByNothing),
    (pair_checks.check_logits_at, "head", broken.ScoresDifferences),
    (pair_checks.check_source_positions, "position", broken.SumsOverTheBatch),
]
BROKEN = [("encoder", *row) for row in BROKEN_ENCODERS] + [("encoder_decoder", *row) for row in BROKEN_PAIRS]


@pytest.mark.parametrize(("architecture", "check", "slot", "component"), BROKEN, ids=name_of)
def test_a_broken_model_is_seen(scratch_registry, monkeypatch, architecture, check, slot, component):
    register(slot, "broken", gives=EVERYTHING)(component)
    if check in (checks.check_pad_ids, pair_checks.check_pad_ids):  # no component alone can read what is not looked up
        monkeypatch.setattr("tfexp.model.transformer.token_vectors", checks.looked_up)
    with pytest.raises(AssertionError):
        check(model(architecture=architecture, **{slot: "broken"}))


def test_every_check_has_a_broken_model():
    assert {row[1] for row in BROKEN} == {*ENCODER_CHECKS, *pair_checks.CHECKS}


def test_a_decoder_is_not_bidirectional():
    with pytest.raises(AssertionError, match="not every token sees every other"):
        checks.check_bidirectional(model())


def test_an_encoder_is_not_causal():
    with pytest.raises(AssertionError, match="the future leaks"):
        checks.check_causality(model(architecture="encoder"))


def test_a_pooling_of_the_padding_is_seen(scratch_registry):
    register("pooling", "broken")(broken.PoolsThePadding)
    with pytest.raises(AssertionError, match="not close"):
        check_pooled(classifier("broken"))


def test_a_decoder_that_ignores_the_sources_mask_is_seen(monkeypatch):
    monkeypatch.setattr("tfexp.model.transformer.cross_attention_context", lambda mask, dtype: AttentionContext())
    with pytest.raises(AssertionError, match="not close"):
        pair_checks.check_source_padding(model(architecture="encoder_decoder"))
