"""Entropies and the most frequent class, against loops that count one by one."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfexp.data.encoded import Ragged
from tfexp.data.floors import majority, ngram_entropies

LN2 = math.log(2)
# text -> H(X), H(X | the one before), by hand
BY_HAND = {
    "one_token_over_and_over": ([3, 3, 3, 3], 0.0, 0.0),
    "two_in_turns": ([0, 1, 0, 1, 0], -(0.6 * math.log(0.6) + 0.4 * math.log(0.4)), 0.0),
    "four_at_random": ([0, 1, 2, 3], 2 * LN2, 0.0),  # each comes once: what follows is certain
    "what_follows_is_open": ([0, 0, 0, 1, 0], -(0.8 * math.log(0.8) + 0.2 * math.log(0.2)), 0.75 * 0.6365141682948128),
    # 257 words: as 16-bit numbers, the pairs (0, 0) and (255, 1) would be one.
    "more_pairs_than_16_bits": ([0, 0, 255, 1, 256], -(0.4 * math.log(0.4) + 0.6 * math.log(0.2)), LN2 / 2),
    "one": ([7], 0.0, 0.0),
    "nothing": ([], 0.0, 0.0),
}


def by_counting(ids: list[int]) -> tuple[float, float]:
    """H(X) and H(X_t | X_{t-1}), a token at a time."""
    unigram = -sum(math.log(ids.count(x) / len(ids)) for x in ids) / len(ids)
    pairs = list(pairwise(ids))
    before, together = Counter(first for first, _ in pairs), Counter(pairs)
    bigram = -sum(math.log(together[pair] / before[pair[0]]) for pair in pairs) / max(1, len(pairs))
    return unigram, bigram


@pytest.mark.parametrize(("ids", "unigram", "bigram"), BY_HAND.values(), ids=BY_HAND)
def test_entropies_by_hand(ids, unigram, bigram):
    found = ngram_entropies(np.array(ids, dtype=np.uint16))
    assert found == {
        "unigram_entropy": pytest.approx(unigram, abs=1e-12),
        "bigram_entropy": pytest.approx(bigram, abs=1e-12),
    }


@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=40) | st.lists(st.integers(0, 2), min_size=1, max_size=80))
def test_entropies_equal_counting(ids):
    unigram, bigram = by_counting(ids)
    found = ngram_entropies(np.array(ids, dtype=np.uint16))  # whose squares do not fit its type
    assert found["unigram_entropy"] == pytest.approx(unigram, abs=1e-9)
    assert found["bigram_entropy"] == pytest.approx(bigram, abs=1e-9)
    assert found["bigram_entropy"] >= 0


# training classes, validation classes by row -> accuracy
CLASSES = {
    "most_frequent": ([0, 1, 1, 2], [[1], [0], [1], [2]], 0.5),
    "of_equals_the_first": ([2, 0, 2, 0], [[0], [2], [2]], 1 / 3),
    "never_right": ([1], [[0], [0]], 0.0),
}


@pytest.mark.parametrize(("train", "val", "expected"), CLASSES.values(), ids=CLASSES)
def test_the_most_frequent_class_by_hand(train, val, expected):
    def column(rows):
        return Ragged(np.concatenate(rows).astype(np.uint16), np.cumsum([len(row) for row in rows]))

    assert majority(column(val), column([[label] for label in train])) == expected
