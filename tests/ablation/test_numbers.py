import pytest

from tfexp.ablation.report import numbers

DECIMALS = {
    # Two digits of the median uncertainty.
    "one": ([0.0123], [3.0], 3),
    "large": ([12.3], [400.0], 0),
    "tiny": ([0.000123], [3.0], 5),
    "carry": ([0.0996], [3.0], 2),  # 0.10
    "median": ([0.012, 0.034, 0.4], [3.0], 3),
    # One digit of the smallest at least.
    "smallest": ([0.3, 0.4, 0.004], [3.0], 3),
    # Without an uncertainty four digits of the largest value.
    "unknown": ([None, None], [3.14159, 12.5], 2),
    "zero_uncertainty": ([0.0], [3.14159], 3),
    "fraction": ([], [0.5213], 4),
    "nothing": ([], [], 3),
    "zero": ([], [0.0], 3),
    "never_more_than_six": ([1e-9], [1.0], 6),
    "never_negative": ([], [123456.0], 0),
    "not_finite": ([float("nan"), float("inf"), 0.012], [3.0], 3),
}
TEXTS = {
    numbers.p_value: {
        None: "-", 0.0: "<0.001", 0.00099: "<0.001", 0.001: "0.001", 0.0416: "0.042", 0.0994: "0.099", 0.0996: "0.10",
        0.5: "0.50", 1.0: "1.00",
    },
    numbers.count: {
        None: "-", 0: "0", 842: "842", 7421: "7,421", 12_288: "12.3 k", 99_949: "99.9 k", 99_950: "0.10 M",
        542_208: "0.54 M", 124_439_808: "124.44 M", 1_235_814_400: "1.24 G",
    },
    numbers.flops: {
        None: "-", 0.0: "0 FLOP", 999.0: "999 FLOP", 999.6: "1.0 kFLOP", 3_240_000.0: "3.2 MFLOP",
        123_400_000.0: "123 MFLOP", 2e12: "2.0 TFLOP", 5e20: "500,000 PFLOP",
    },
    numbers.memory: {None: "-", 512: "512 B", 800 * 2**20: "800 MiB", 3 * 2**29: "1.5 GiB"},
    numbers.rate: {None: "-", 12.6: "13", 12_345.4: "12,345", 1_234_567.0: "1,234,567"},
    numbers.percent: {None: "-", 0.0: "0 %", 0.726: "73 %", -0.2: "-20 %"},
}  # fmt: skip
CASES = [(function, value, text) for function, table in TEXTS.items() for value, text in table.items()]


@pytest.mark.parametrize(("uncertainties", "values", "expected"), DECIMALS.values(), ids=DECIMALS)
def test_the_uncertainty_decides_the_digits(uncertainties, values, expected):
    assert numbers.decimals_for(uncertainties, values) == expected


@pytest.mark.parametrize(("function", "value", "text"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_units_and_bounds(function, value, text):
    assert function(value) == text


def test_value_and_spread():
    assert numbers.plus_minus(3.01234, 0.0112, 3) == "3.012 ± 0.011"
    assert numbers.plus_minus(3.01234, None, 3) == "3.012"
    assert numbers.plus_minus(None, None, 3) == "-"


def test_signs():
    assert numbers.interval(-0.25, 0.1, 2) == "[-0.25, +0.10]"
    assert numbers.fixed(-0.0001, 2, sign=True) == "0.00"  # never minus zero
    assert numbers.fixed(0.5, 1, sign=True) == "+0.5"
