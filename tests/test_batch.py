import dataclasses

import pytest
import torch

from tfexp.batch import IGNORE, Batch


def batch(**changes) -> Batch:
    return Batch(input_ids=torch.tensor([[1, 2]]), labels=torch.tensor([[2, IGNORE]]), **changes)


def test_what_is_ignored_is_what_torch_ignores():
    logits = torch.zeros(2, 3)
    loss = torch.nn.functional.cross_entropy(logits, batch().labels.flatten(), reduction="none")
    assert (loss[0] > 0, loss[1] == 0) == (True, True)


def test_moving_a_batch_moves_what_is_there_and_keeps_the_rest():
    mask = torch.tensor([[True, False]])
    moved = batch(attention_mask=mask).to("meta")
    assert {moved.input_ids.device.type, moved.labels.device.type, moved.attention_mask.device.type} == {"meta"}
    assert moved.position_ids is None
    assert torch.equal(batch(attention_mask=mask).to("cpu").attention_mask, mask)


def test_a_batch_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError, match="input_ids"):
        batch().input_ids = torch.zeros(1, 2)


def test_a_model_is_given_what_is_there_and_no_answers():
    mask, at = torch.tensor([[True, True]]), torch.tensor([[True, False]])
    made = batch(attention_mask=mask, logits_at=at, cut_off=torch.tensor([1]), n_tokens=2)
    assert list(made.inputs()) == ["input_ids", "attention_mask", "logits_at"]
    assert list(batch().inputs()) == ["input_ids"]


def test_tokens_are_all_places_unless_it_is_said_which_are_real():
    assert batch().count_tokens() == 2
    assert batch(n_tokens=1).count_tokens() == 1
    assert batch(n_tokens=0).count_tokens() == 0


def test_scored_labels_are_those_of_the_chosen_positions():
    assert batch().scored_labels().tolist() == [[2, IGNORE]]
    assert batch(logits_at=torch.tensor([[True, False]])).scored_labels().tolist() == [2]
