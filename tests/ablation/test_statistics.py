import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tfexp.ablation.statistics import holm, mean, paired_difference, pairing_gain, standard_deviation

# Student's t in closed form: with 2 degrees of freedom p = 1 - t / sqrt(t^2 + 2), with 1 it is 1 - 2 atan(t) / pi.
T2, T1 = 4.302652729911275, 12.706204736432095  # quantiles at 97.5 %
PAIRED = {
    # values, baseline, mean, half the interval, p
    "one_two_three": ({0: 1.0, 1: 2.0, 2: 3.0}, {0: 0.0, 1: 0.0, 2: 0.0}, 2.0, T2 / 3**0.5, 1 - 12**0.5 / 14**0.5),
    "two_seeds": ({0: 1.0, 1: 3.0}, {0: 0.0, 1: 0.0}, 2.0, T1, 1 - 2 * math.atan(2) / math.pi),
    "shared_only": ({0: 1.0, 1: 3.0, 7: 99.0}, {0: 0.0, 1: 0.0, 8: -99.0}, 2.0, T1, 1 - 2 * math.atan(2) / math.pi),
    "no_effect": ({0: 1.0, 1: -1.0}, {0: 0.0, 1: 0.0}, 0.0, T1, 1.0),
}  # fmt: skip
EQUAL = {
    "identical": ([3.0, 3.1, 3.2], [3.0, 3.1, 3.2], 0.0),
    # In float64 these differences are 0.10000000000000003, 0.10000000000000009 and 0.10000000000000009.
    "equal_but_for_rounding": ([0.4, 1.1, 1.3], [0.3, 1.0, 1.2], 0.1),
}
GAIN = {
    # b, variants, 1 - sum var(x - b) / sum (var x + var b)
    "everything": ([0, 1, 2], [[1, 2, 3]], 1.0),
    "worse_than_nothing": ([0, 1, 2], [[2, 1, 0]], -1.0),
    "pooled": ([0, 1, 2], [[1, 2, 3], [2, 1, 0]], 0.0),
    "unrelated": ([0, 1, 0, 1], [[0, 0, 1, 1]], 0.0),
    "two_seeds_say_nothing": ([0, 1], [[1, 2]], None),
    "no_variance": ([1, 1, 1], [[2, 2, 2]], None),
    "no_variant": ([0, 1, 2], [], None),
}
HOLM = {
    "worked_example": ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
    "one": ([0.2], [0.2]),
    "none": ([], []),
    "capped": ([0.6, 0.7], [1.0, 1.0]),
    "ties": ([0.02, 0.02], [0.04, 0.04]),
}
finite = st.floats(-100, 100)
pairs = st.lists(st.tuples(finite, finite), min_size=2, max_size=8)


def seeds(values):
    return dict(enumerate(map(float, values)))


@pytest.mark.parametrize(("values", "base", "centre", "half", "p"), PAIRED.values(), ids=PAIRED)
def test_paired_difference_by_hand(values, base, centre, half, p):
    found = paired_difference(values, base)
    assert found.n == len(values.keys() & base.keys())
    assert [found.mean, found.low, found.high, found.p] == pytest.approx([centre, centre - half, centre + half, p])


@given(pairs)
def test_paired_difference_agrees_with_scipy(values):
    x, b = np.array(values).T
    found = paired_difference(seeds(x), seeds(b))
    if found.p is None:
        assert np.ptp(x - b) <= 1e-9
        return
    expected = stats.ttest_rel(x, b)
    interval = expected.confidence_interval(0.95)
    assert [found.low, found.high] == pytest.approx([interval.low, interval.high], rel=1e-6, abs=1e-9)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)


@pytest.mark.parametrize(("values", "base", "centre"), EQUAL.values(), ids=EQUAL)
def test_equal_differences_have_no_p(values, base, centre):
    found = paired_difference(seeds(values), seeds(base))
    assert found.p is None
    assert [found.mean, found.low, found.high] == pytest.approx([centre] * 3, abs=1e-12)


@pytest.mark.parametrize("values", [{}, {0: 1.0}, {5: 1.0, 6: 2.0}], ids=["none", "one_shared", "none_shared"])
def test_no_difference_below_two_shared_seeds(values):
    assert paired_difference(values, {0: 1.0, 1: 2.0}) is None


@given(pairs, st.floats(-10, 10))
def test_a_shift_of_a_seed_that_both_share_changes_nothing(values, shift):
    x, b = np.array(values).T
    moved = np.linspace(0, shift, len(x))
    one, two = paired_difference(seeds(x), seeds(b)), paired_difference(seeds(x + moved), seeds(b + moved))
    assert [two.mean, two.low, two.high] == pytest.approx([one.mean, one.low, one.high], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("base", "variants", "gain"), GAIN.values(), ids=GAIN)
def test_pairing_gain_by_hand(base, variants, gain):
    found = pairing_gain(seeds(base), [seeds(values) for values in variants])
    assert found == (None if gain is None else pytest.approx(gain, abs=1e-12))


@pytest.mark.parametrize(("p_values", "expected"), HOLM.values(), ids=HOLM)
def test_holm_by_hand(p_values, expected):
    assert holm(p_values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), max_size=9))
def test_holm_lies_between_raw_and_bonferroni_and_keeps_the_order(p_values):
    found = holm(p_values)
    assert all(p <= q <= min(1.0, len(p_values) * p) + 1e-12 for p, q in zip(p_values, found, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [found[i] for i in order] == sorted(found)


def test_mean_and_standard_deviation():
    assert mean([]) is None
    assert mean([1.0, 2.0]) == 1.5
    assert standard_deviation([1.0]) is None
    assert standard_deviation([1.0, 2.0, 3.0]) == pytest.approx(1.0)  # n - 1 in the denominator
