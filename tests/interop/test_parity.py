"""Logits of tfexp and of transformers from the same weights; and descriptions that are wrong in one place."""

import pytest
import torch

from tests.interop.tiny_hf import CASES, MASKS, V, assert_same_logits, case, changed, ids, logits, without_float32
from tests.tiny import close
from tfexp.interop.convert import from_hf
from tfexp.model.decoding import DecodingState, step
from tfexp.model.ends import Ends

WRONG = {
    "gpt2-activation": ("gpt2", lambda node: node["feedforward"].update(activation="gelu")),
    "gpt2-eps": ("gpt2-gelu-eps", lambda node: node["norm"].update(eps=1e-5)),
    "gpt2-scale": ("gpt2-no_scale", lambda node: node["attention"].update(score="scaled_dot")),
    "llama-layout": ("llama", lambda node: node["position"].update(layout="interleaved")),
    "llama-base": ("llama-theta", lambda node: node["position"].update(base=10000.0)),
    "llama-eps": ("llama-gelu-eps", lambda node: node["norm"].update(eps=1e-6)),
    "t5-output_scale": ("t5", lambda node: node["head"].update(scale=False)),
    "t5-1.1-output_scale": ("t5-1.1", lambda node: node["head"].update(scale=True)),
    "t5-score": ("t5", lambda node: node["attention"].update(score="scaled_dot")),
    "t5-encoder_buckets": ("t5-buckets", lambda node: node["encoder"].update(position={"bidirectional": False})),
    "t5-decoder_buckets": ("t5-buckets", lambda node: node["decoder"].update(position={"bidirectional": True})),
    "t5-distance": ("t5-buckets", lambda node: node["position"].update(max_distance=128)),
    "t5-gate": ("t5-1.1", lambda node: node["feedforward"].update(activation="silu")),
    "marian-layout": ("marian", lambda node: node["position"].update(layout="interleaved")),
    "marian-scale": ("marian-scaled-swish", lambda node: node["embedding"].update(scale=False)),
    "marian-activation": ("marian-scaled-swish", lambda node: node["feedforward"].update(activation="gelu")),
}


@pytest.mark.parametrize("pads", MASKS)
@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_transformers(name, pads, monkeypatch):
    if CASES[name][0] == "marian" and pads == "left_padding":
        return  # transformers counts its positions from the padding on, and takes no others
    theirs = without_float32(case(name), monkeypatch)
    assert_same_logits(from_hf(theirs), theirs, MASKS[pads])


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "t5-1.1", "marian"])
def test_logits_are_those_of_the_library_as_it_is(name):
    theirs = case(name).float()
    assert_same_logits(from_hf(theirs), theirs, atol=2e-4)  # float32, logits up to some tens


@pytest.mark.parametrize(("name", "change"), WRONG.values(), ids=WRONG)
def test_one_wrong_choice_is_seen(name, change, monkeypatch):
    theirs = without_float32(case(name), monkeypatch)
    with pytest.raises(AssertionError, match="not close"):
        assert_same_logits(changed(theirs, change), theirs)


@pytest.mark.parametrize("name", ["t5", "marian"])
def test_padding_of_the_target_changes_nothing_before_it(name):
    model = from_hf(case(name))
    source, target = ids(9), ids(6, seed=2)
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    whole = model(source, decoder_input_ids=target, decoder_attention_mask=mask).logits
    close(whole[1:, :4], model(source[1:], decoder_input_ids=target[1:, :4]).logits, atol=1e-11)


@pytest.mark.parametrize("name", ["gpt2", "llama-grouped"])
def test_token_by_token_equals_one_pass(name, monkeypatch):
    theirs = without_float32(case(name), monkeypatch)
    model, state = from_hf(theirs), DecodingState(from_hf(theirs))
    with torch.no_grad():
        stepped = torch.cat([step(model, token, state).logits for token in ids(9).split(2, dim=1)], dim=1)
        close(stepped, logits(theirs), atol=1e-10)


@pytest.mark.parametrize("name", ["t5", "t5-buckets", "marian"])
def test_token_by_token_equals_one_pass_of_two_sides(name, monkeypatch):
    theirs = without_float32(case(name), monkeypatch)
    model = from_hf(theirs)
    with torch.no_grad():
        state = DecodingState(model, model.encode(ids(9)))
        stepped = torch.cat([step(model, token, state).logits for token in ids(6, seed=2).split(1, dim=1)], dim=1)
        close(stepped, logits(theirs), atol=1e-10)


def test_a_model_comes_in_evaluation_mode_with_weights_of_its_own():
    theirs = case("gpt2").train()
    model = from_hf(theirs)
    before = logits(model)
    theirs.transformer.wte.weight.data.zero_()
    assert not model.training
    assert torch.equal(logits(model), before)
    assert model.head.project.weight is model.embedding.table()
    assert all(p.requires_grad for p in model.parameters())


ENDS = {
    "gpt2": Ends(1, 2, None),
    "llama": Ends(1, 2, 0),
    "t5": Ends(0, 1, 0),
    "marian": Ends(0, 3, 0, never=(0,)),
}


@pytest.mark.parametrize("name", ENDS)
def test_special_ids_come_along(name):
    assert from_hf(case(name)).ends == ENDS[name]


def test_of_several_end_ids_the_first_is_taken():
    assert from_hf(case("llama", eos_token_id=[7, 8])).ends == Ends(1, 7, 0)


def test_the_head_of_a_file_is_used_even_if_the_config_says_tied(monkeypatch):
    theirs = without_float32(case("t5-1.1"), monkeypatch)
    assert theirs.config.tie_word_embeddings
    model = from_hf(theirs)
    assert not model.spec.tie_embeddings
    assert model.head.project.weight.shape == (V, 8)


def test_a_model_without_its_head_is_tied(monkeypatch):
    whole = case("gpt2")
    assert torch.equal(logits(from_hf(whole.transformer)), logits(from_hf(whole)))
