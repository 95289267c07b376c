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
