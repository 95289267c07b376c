"""Batches of examples of unequal length: what they hold, in which order, and how much of them is padding."""

from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.prepared import labelled, pairs, prepared, tagged
from tfexp.batch import Batch
from tfexp.data.buckets import EvalBuckets, TrainBuckets, cut
from tfexp.data.examples import LabelledExamples, PairExamples, PromptExamples, TaggedExamples, select
from tfexp.training.loader import train_loader

KINDS = {
    "labelled": (LabelledExamples, labelled(41)),
    "pairs": (PairExamples, pairs(41)),
    "prompts": (PromptExamples, pairs(41)),
    "tagged": (TaggedExamples, tagged(41)),
}
SIZES = {"by_number": (6, None), "by_tokens": (6, 30), "one_by_one": (1, None), "all": (100, None)}
# sorted lengths, batch_size, batch_tokens -> where batches begin and end; by hand
CUTS = {
    "number": ([1, 2, 3, 4, 5], 2, None, [0, 2, 4, 5]),
    "number_that_divides": ([1, 2, 3, 4], 2, None, [0, 2, 4]),
    "tokens": ([1, 2, 2, 3, 3], 9, 6, [0, 3, 5]),  # 3 x 2, then 2 x 3
    "padding_counts": ([1, 1, 4], 9, 8, [0, 2, 3]),  # 3 x 4 would be 12
    "one_too_long": ([2, 9, 9], 9, 4, [0, 1, 2, 3]),  # a row that fits nowhere is a batch of its own
    "all_in_one": ([1, 1, 1], 1, 100, [0, 3]),
    "no_tokens_at_all": ([0, 0, 1], 1, 2, [0, 2, 3]),
}


def buckets(kind: str = "labelled", size: str = "by_number", seed: int = 0, seq_len: int = 8) -> TrainBuckets:
    make, rows = KINDS[kind]
    data = prepared(rows)
    return TrainBuckets(make(data.parts["train"], data.tokenizer, seq_len), *SIZES[size], seed)


def same(one: Batch, other: Batch) -> bool:
    first, second = one.inputs() | {"labels": one.labels}, other.inputs() | {"labels": other.labels}
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def rows_of(made: TrainBuckets, epoch: int) -> list[list[int]]:
    """Which rows each batch of an epoch holds."""
    seen = []
    collate = type(made.examples)._collate

    def spy(examples, rows):
        seen.append(rows.tolist())
        return collate(examples, rows)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(made.examples), "_collate", spy)
        for place in range(made.per_epoch):
            made[epoch * made.per_epoch + place]
    return seen


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_a_function_of_seed_and_index_alone(kind, size):
    made, again = buckets(kind, size), buckets(kind, size)
    n = 2 * made.per_epoch + 1
    forwards = [made[k] for k in range(n)]
    backwards = [again[k] for k in reversed(range(n))][::-1]
    assert all(same(a, b) for a, b in zip(forwards, backwards, strict=True))
    assert not all(
        same(a, b) for a, b in zip(forwards, (buckets(kind, size, seed=1)[k] for k in range(n)), strict=True)
    )


@pytest.mark.parametrize("size", SIZES)
def test_each_epoch_holds_every_example_exactly_once(size):
    made = buckets(size=size)
    for epoch in range(3):
        assert sorted(row for batch in rows_of(made, epoch) for row in batch) == list(range(41))


def test_neighbours_in_length_share_a_batch_and_equals_change_partners():
    made = buckets()
    epochs = [rows_of(made, epoch) for epoch in range(3)]
    lengths = made.examples.lengths
    ranges = [sorted((min(lengths[b]), max(lengths[b])) for b in epoch) for epoch in epochs]
    assert ranges[0] == ranges[1] == ranges[2]  # the places of the cuts are those of every epoch
    assert all(first[1] <= second[0] for first, second in zip(ranges[0], ranges[0][1:], strict=False))
    groups = [{frozenset(batch) for batch in epoch} for epoch in epochs]
    assert groups[0] != groups[1] != groups[2]
    orders = [[max(lengths[batch]) for batch in epoch] for epoch in epochs]
    assert orders[0] != orders[1]
    assert all(order != sorted(order) for order in orders)  # not from short to long


def test_examples_that_were_left_out_stay_out():
    data = prepared(KINDS["labelled"][1])
    kept = select(LabelledExamples(data.parts["train"], data.tokenizer, 6), "drop")
    assert 0 < len(kept.rows) < 41
    made = TrainBuckets(kept, 5, None, 0)
    for epoch in range(2):
        assert sorted(row for batch in rows_of(made, epoch) for row in batch) == kept.rows.tolist()


@pytest.mark.parametrize("size", ["by_number", "by_tokens"])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_number_of_workers_changes_no_batch(workers, size):
    made = buckets(size=size)
    start = made.per_epoch - 2  # over the end of an epoch
    loaded = list(islice(train_loader(made, start, workers), 6))
    assert all(same(batch, made[start + k]) for k, batch in enumerate(loaded))


@pytest.mark.parametrize(("lengths", "batch_size", "batch_tokens", "expected"), CUTS.values(), ids=CUTS)
def test_cuts_by_hand(lengths, batch_size, batch_tokens, expected):
    assert cut(np.array(lengths), batch_size, batch_tokens).tolist() == expected


@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=60), batch_tokens=st.integers(1, 60))
def test_tokens_of_a_batch_are_exceeded_by_a_single_row_only(lengths, batch_tokens):
    lengths = np.sort(lengths)
    cuts = cut(lengths, 1, batch_tokens)
    assert (cuts[0], cuts[-1]) == (0, len(lengths))
    for start, end in pairwise(cuts):
        size = (end - start) * lengths[end - 1]
        assert size <= batch_tokens or end - start == 1
        if end < len(lengths):  # and one row more would be too many
            assert (end - start + 1) * lengths[end] > batch_tokens


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_of_a_batch_are_those_of_its_longer_side(kind):
    made = buckets(kind, "by_tokens")
    for k in range(made.per_epoch):
        batch = made[k]
        sides = [batch.input_ids, *([batch.decoder_input_ids] if batch.decoder_input_ids is not None else [])]
        assert max(side.numel() for side in sides) <= 30


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_share_of_padding_equals_counting(kind, size):
    made = buckets(kind, size)
    batches = [made[k] for k in range(made.per_epoch)]
    both = [b.decoder_input_ids.numel() if b.decoder_input_ids is not None else 0 for b in batches]
    places = sum(batch.input_ids.numel() + more for batch, more in zip(batches, both, strict=True))
    real = sum(batch.count_tokens() for batch in batches)
    assert made.padding_share() == pytest.approx(1 - real / places, abs=1e-12)
    assert (made.padding_share() == 0) == (size == "one_by_one")


def test_buckets_pad_less_than_chance():
    made = buckets()
    lengths = np.random.default_rng(0).permutation(made.examples.lengths)
    places = sum(len(part) * part.max() for part in np.array_split(lengths, made.per_epoch))
    assert made.padding_share() < 0.15 < 1 - lengths.sum() / places


def test_the_mean_length_is_that_of_an_example_as_it_stands_in_a_batch():
    made = buckets(seq_len=5)
    assert made.mean_length == np.minimum([len(row.text.split()) + 2 for row in KINDS["labelled"][1]], 5).mean()


@pytest.mark.parametrize("batch_size", [None, 1, 2, 7, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_an_evaluation_holds_every_example_once_from_short_to_long(kind, batch_size):
    make, rows = KINDS[kind]
    data = prepared(rows)
    made = EvalBuckets(make(data.parts["val"], data.tokenizer, 6), 24, batch_size)
    batches = [made[k] for k in range(len(made))]
    lengths = made.examples.lengths[made.order()]
    assert sorted(made.order().tolist()) == list(range(41))
    assert (np.diff(lengths) >= 0).all()
    assert [len(batch.labels) for batch in batches] == np.diff(made._cuts).tolist()
    assert sum(batch.count_tokens() for batch in batches) == sum(int(side.sum()) for side in made.examples.sides())
    if batch_size is None:
        assert all(batch.input_ids.numel() <= 24 for batch in batches)
    else:
        assert {len(batch.labels) for batch in batches[:-1]} <= {batch_size}
    assert made.n_bytes == 0
    with pytest.raises(IndexError):
        made[len(made)]


def test_many_examples_are_cut_in_no_time():
    lengths = np.sort(np.random.default_rng(0).integers(5, 60, 300_000))
    assert len(cut(lengths, 1, 512)) > 10_000  # each batch looks at the rows that could be in it, not at all
