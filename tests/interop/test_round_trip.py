"""tfexp -> transformers -> tfexp, in memory and by way of a folder: every bit, every choice, every id."""

import pytest
import torch

import tfexp
from tests.interop.tiny_hf import CASES, V, assert_same_logits, case, logits, make, without_float32
from tests.tiny import close
from tests.tiny import model as tiny
from tfexp.interop.convert import from_hf, to_hf
from tfexp.interop.family import described
from tfexp.model.ends import Ends

DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def assert_same_model(one, other):
    assert other.spec == one.spec
    assert other.ends == one.ends
    assert other.state_dict().keys() == one.state_dict().keys()
    for name, value in one.state_dict().items():
        assert other.state_dict()[name].dtype == value.dtype
        assert torch.equal(other.state_dict()[name], value), name


@pytest.mark.parametrize("name", CASES)
def test_there_and_back_is_the_same(name, tmp_path, monkeypatch):
    ours = from_hf(case(name))
    theirs = to_hf(ours, tmp_path)
    assert_same_model(ours, from_hf(theirs))
    assert_same_model(ours, from_hf(tmp_path))
    assert not theirs.training
    assert_same_logits(ours, without_float32(theirs, monkeypatch))


@pytest.mark.parametrize("name", CASES)
def test_back_and_there_is_the_same(name, tmp_path):
    theirs = case(name)
    back = to_hf(from_hf(theirs), tmp_path)
    assert back.state_dict().keys() == theirs.state_dict().keys()
    again = type(theirs).from_pretrained(tmp_path, dtype=torch.float64)
    for name, value in theirs.state_dict().items():
        if "embed_positions" not in name:  # computed anew, in another precision
            assert torch.equal(back.state_dict()[name], value), name
            assert torch.equal(again.state_dict()[name], value), name


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5-1.1", "marian"])
def test_the_dtype_of_the_weights_is_kept(name, dtype, tmp_path):
    theirs = make(*CASES[name], dtype=dtype)
    theirs.save_pretrained(tmp_path)
    ours = from_hf(tmp_path)
    assert {p.dtype for p in ours.parameters()} == {dtype}
    assert {p.dtype for p in to_hf(ours).parameters()} == {dtype}


def test_mixed_dtypes_become_the_one_that_holds_all():
    theirs = case("gpt2").float()
    theirs.transformer.ln_f.double()
    assert {p.dtype for p in from_hf(theirs).parameters()} == {torch.float64}


def test_rotations_are_not_rounded_to_the_dtype_of_the_weights():
    theirs = to_hf(from_hf(case("llama").to(torch.bfloat16)))
    assert theirs.model.rotary_emb.inv_freq.dtype == torch.float32


@pytest.mark.parametrize("name", ["marian", "gpt2"])
def test_ids_that_are_never_generated_go_along(name):
    bad = to_hf(from_hf(case(name))).generation_config.bad_words_ids
    assert bad == ([[0]] if name == "marian" else None)


OURS = {
    "gpt2": {
        "position": "learned",
        "attention": {"name": "softmax", "bias": True, "form": "plain"},
        "feedforward": {"name": "mlp", "bias": True, "activation": "gelu_tanh"},
    },
    "llama": {
        "position": "rope",
        "norm": "rmsnorm",
        "n_kv_heads": 1,
        "feedforward": {"name": "glu"},
        "decoder": {"attention": {"bias": True}},  # overrides of the only side are as good as shared choices
    },
    "t5": {
        "architecture": "encoder_decoder",
        "position": {"name": "t5", "n_buckets": 8},
        "attention": {"name": "softmax", "score": "dot"},
        "norm": "rmsnorm",
        "head_dim": 3,
        "decoder": {"position": {"bidirectional": False}},
        "layers": [{"where": ":", "attention": {"window": None}}],
    },
    "marian": {
        "architecture": "encoder_decoder",
        "position": {"name": "sinusoidal", "layout": "halves"},
        "attention": {"name": "softmax", "bias": True},
        "norm_placement": "post",
        "feedforward": {"name": "mlp", "bias": True},
        "head": {"name": "lm", "bias": True},
    },
}


@pytest.mark.parametrize("family", OURS)
def test_a_model_that_was_built_here_goes_out(family, monkeypatch):
    ours = tiny(vocab_size=V, **OURS[family])
    ours.ends = Ends(1, 2, 0)
    theirs = without_float32(to_hf(ours), monkeypatch)
    assert theirs.config.model_type == family
    assert_same_logits(ours, theirs)
    back = from_hf(theirs)
    assert described(back.spec) == described(ours.spec)
    close(logits(back), logits(ours))  # one of them attends in the plain form


def test_the_callers_generator_is_left_as_it_was():
    ours = from_hf(case("llama"))
    before = torch.get_rng_state()
    from_hf(to_hf(ours))
    assert torch.equal(torch.get_rng_state(), before)


def test_both_are_part_of_the_public_face():
    assert (tfexp.from_hf, tfexp.to_hf) == (from_hf, to_hf)
