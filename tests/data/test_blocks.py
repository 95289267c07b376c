import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.prepared import prepared
from tfexp.batch import IGNORE
from tfexp.data.blocks import EvalBlocks, TrainBlocks, next_token_batch
from tfexp.data.masking import MaskedEval, Masking
from tfexp.errors import DataError

IDS = np.arange(1, 101, dtype=np.uint16)  # every token says where it stood


def train(seed: int = 0, sampling: str = "blocks", seq_len: int = 7, batch_size: int = 4, ids=IDS) -> TrainBlocks:
    return TrainBlocks(ids, seq_len, batch_size, seed, sampling)


@pytest.mark.parametrize("sampling", ["blocks", "windows"])
def test_a_batch_is_a_function_of_seed_and_index_alone(sampling):
    forwards = [train(sampling=sampling)[k].input_ids for k in range(12)]
    blocks = train(sampling=sampling)
    backwards = [blocks[k].input_ids for k in reversed(range(12))][::-1]
    assert all(torch.equal(a, b) for a, b in zip(forwards, backwards, strict=True))
    assert not torch.equal(forwards[0], train(seed=1, sampling=sampling)[0].input_ids)
    assert not torch.equal(forwards[0], forwards[1])


@pytest.mark.parametrize("sampling", ["blocks", "windows"])
def test_labels_are_the_inputs_shifted_by_one(sampling):
    # G47 for a decoder: input w0 w1 w2, labels w1 w2 w3.
    for k in range(10):
        batch = train(sampling=sampling)[k]
        assert batch.input_ids.shape == batch.labels.shape == (4, 7)
        assert batch.input_ids.dtype == batch.labels.dtype == torch.int64
        assert torch.equal(batch.labels, batch.input_ids + 1)
        assert torch.equal(batch.labels[:, :-1], batch.input_ids[:, 1:])
        assert batch.attention_mask is None


@given(n=st.integers(2, 90), seq_len=st.integers(1, 30), batch_size=st.integers(1, 9), seed=st.integers(0, 5))
def test_no_token_comes_twice_in_an_epoch_and_few_are_left_out(n, seq_len, batch_size, seed):
    if n < seq_len + 1:
        return
    blocks = train(seed, seq_len=seq_len, batch_size=batch_size, ids=IDS[:n])
    per_epoch = max(1, (n - 1) // seq_len - 1)
    rows = torch.cat([blocks[k].labels for k in range(-(-2 * per_epoch // batch_size))])
    for epoch in range(2):
        seen = rows[epoch * per_epoch : (epoch + 1) * per_epoch].flatten().tolist()
        assert len(seen) == len(set(seen)) == per_epoch * seq_len
        assert n - 1 - len(seen) < 2 * seq_len  # a block less than would fit, so that the grid can shift


def test_every_epoch_has_an_order_and_a_start_of_its_own():
    blocks = train(batch_size=13)  # an epoch of 13 blocks is one batch
    starts = [blocks[epoch].input_ids[:, 0] for epoch in range(6)]
    assert all(start.sort().values.diff().tolist() == [7] * 12 for start in starts)
    assert len({tuple(start.argsort().tolist()) for start in starts}) == 6
    assert len({int(start.min()) for start in starts}) > 2


def test_windows_reach_the_first_and_the_last_token_and_nothing_beyond():
    blocks = train(sampling="windows", ids=IDS[:10], batch_size=8)
    starts = torch.cat([blocks[k].input_ids[:, 0] for k in range(20)])
    assert set(starts.tolist()) == {1, 2, 3}
    assert max(blocks[k].labels.max().item() for k in range(20)) == 10


@pytest.mark.parametrize("sampling", ["blocks", "windows"])
def test_a_text_of_exactly_one_block_is_enough(sampling):
    batch = train(sampling=sampling, ids=IDS[:8])[5]
    assert batch.labels.tolist() == [[2, 3, 4, 5, 6, 7, 8]] * 4


def test_a_text_shorter_than_a_block_is_refused_with_both_numbers():
    message = r"^data\.seq_len: a block of 16 needs 17 tokens, but the training part has 5$"
    with pytest.raises(DataError, match=message):
        train(seq_len=16, ids=IDS[:5])
    with pytest.raises(DataError, match=r"^data\.val: an evaluation part needs at least 2 tokens, got 1$"):
        EvalBlocks(IDS[:1], 4, 2, 1)


@given(n=st.integers(2, 60), seq_len=st.integers(1, 20), batch_size=st.integers(1, 9))
def test_an_evaluation_scores_every_token_but_the_first_exactly_once(n, seq_len, batch_size):
    blocks = EvalBlocks(IDS[:n], seq_len, batch_size, n)
    batches = [blocks[k] for k in range(len(blocks))]
    labels = torch.cat([batch.labels.flatten() for batch in batches])
    inputs = torch.cat([batch.input_ids.flatten() for batch in batches])
    scored = labels != IGNORE
    assert labels[scored].tolist() == list(range(2, n + 1))
    assert torch.equal(inputs[scored] + 1, labels[scored])
    assert all(batch.labels.shape[0] <= batch_size for batch in batches)
    assert all((batch.labels != IGNORE).any() for batch in batches)


def test_only_the_end_of_the_last_block_is_filled():
    blocks = EvalBlocks(IDS[:9], 5, 2, 9)
    (batch,) = [blocks[k] for k in range(len(blocks))]
    assert batch.labels.tolist() == [[2, 3, 4, 5, 6], [7, 8, 9, IGNORE, IGNORE]]
    assert batch.input_ids[1, :3].tolist() == [6, 7, 8]
    assert (batch.input_ids >= 0).all()
    with pytest.raises(IndexError):
        blocks[1]


def test_h25_a_line_shorter_than_a_block_is_refused_in_training_and_one_short_block_in_evaluation():
    # Never an epoch without end, and never one without a batch.
    data = prepared(["only five tokens are here"])
    ids = data.parts["train"].ids
    with pytest.raises(DataError, match=r"^data\.seq_len: a block of 16 needs 17 tokens, but the training part has 6$"):
        train(seq_len=16, ids=ids)
    blocks = EvalBlocks(ids, 16, 4, 25)
    assert len(blocks) == 1
    assert blocks[0].labels[0].tolist() == [*ids[1:].tolist(), *[IGNORE] * 11]
    masked = MaskedEval(ids, 16, 4, 25, Masking(0.15, 0.8, 0.1, 0, np.arange(4), 9))
    assert len(masked) == 1
    assert masked[0].attention_mask.sum() == 6


# A row, and where its positions and documents begin anew: the end of a document (9) begins the next one.
PACKED = {
    "in_the_middle": ([1, 2, 9, 3, 4, 5], [0, 1, 0, 1, 2], [0, 0, 1, 1, 1]),
    "at_the_start": ([9, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4], [1, 1, 1, 1, 1]),
    "twice": ([9, 9, 3, 9, 5, 6], [0, 0, 1, 0, 1], [1, 2, 2, 3, 3]),
    "never": ([1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4], [0, 0, 0, 0, 0]),
    "as_the_last_label": ([1, 2, 3, 4, 5, 9], [0, 1, 2, 3, 4], [0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize(("row", "positions", "documents"), PACKED.values(), ids=PACKED)
def test_inside_documents_positions_and_documents_start_anew(row, positions, documents):
    batch = next_token_batch(np.array([row, [1] * 6]), 9)
    assert batch.position_ids.tolist() == [positions, [0, 1, 2, 3, 4]]
    assert batch.document_ids.tolist() == [documents, [0] * 5]
    across = next_token_batch(np.array([row]), None)
    assert across.position_ids is across.document_ids is None
    assert torch.equal(across.input_ids, batch.input_ids[:1])
    assert torch.equal(across.labels, batch.labels[:1])


@pytest.mark.parametrize("sampling", ["blocks", "windows"])
def test_every_block_knows_its_documents(sampling):
    ids = np.where(np.arange(100) % 10 == 9, 9, 1)
    blocks = [TrainBlocks(ids, 12, 4, 0, sampling, boundary=9), EvalBlocks(ids, 12, 4, 0, boundary=9)]
    for batch in (made[k] for made in blocks for k in range(2)):
        begins = batch.input_ids == 9
        assert (batch.position_ids[begins] == 0).all()
        assert (batch.position_ids < 10).all()
        assert torch.equal(batch.document_ids.diff(dim=1) == 1, begins[:, 1:])
