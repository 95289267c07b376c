import math

import pytest

from tfexp.errors import ConfigError
from tfexp.registry import check_choice, create, names
from tfexp.training.warmup import Schedule, progress_after

# name, keys, max_steps -> the factor of the first steps; step 0 is the first optimizer step. By hand.
BY_HAND = {
    "constant": ("constant", {}, 5, [1, 1, 1, 1, 1]),
    "constant_warm": ("constant", {"warmup_steps": 4}, 6, [0.25, 0.5, 0.75, 1, 1, 1]),
    "linear": ("linear", {"warmup_steps": 0}, 4, [1, 0.75, 0.5, 0.25, 0]),
    "linear_warm": ("linear", {"warmup_steps": 2, "final_ratio": 0.2}, 6, [0.5, 1, 1, 0.8, 0.6, 0.4, 0.2]),
    "cosine": ("cosine", {"warmup_steps": 0, "final_ratio": 0}, 4, [1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2]),
    "cosine_floor": ("cosine", {"warmup_steps": 1, "final_ratio": 0.1}, 3, [1, 1, 0.55, 0.1, 0.1]),
    "inverse_sqrt": ("inverse_sqrt", {"warmup_steps": 4}, 16, [0.25, 0.5, 0.75, 1, (4 / 5) ** 0.5, (4 / 6) ** 0.5]),
    "inverse_sqrt_cold": ("inverse_sqrt", {"warmup_steps": 0}, 4, [1, 2**-0.5, 3**-0.5, 0.5]),
    "warmup_longer_than_the_run": ("cosine", {"warmup_steps": 8}, 4, [1 / 8, 2 / 8, 3 / 8, 4 / 8]),
}


def schedule(name: str, max_steps: int = 100, d_model: int = 512, **keys):
    checked = check_choice("schedule", {"name": name, **keys}, "schedule")
    return create("schedule", checked, {"max_steps": max_steps, "d_model": d_model})


@pytest.mark.parametrize(("name", "keys", "max_steps", "factors"), BY_HAND.values(), ids=BY_HAND)
def test_factors_by_hand(name, keys, max_steps, factors):
    curve = schedule(name, max_steps, **keys)
    assert [curve(step) for step in range(len(factors))] == pytest.approx(factors, abs=1e-12)


def test_the_rate_of_2017():
    curve = schedule("noam", d_model=512, warmup_steps=4000)
    peak = max(range(3990, 4010), key=curve)
    assert peak == 3999  # the 4000th step
    assert curve(peak) == pytest.approx(6.98771e-4, rel=1e-6)
    assert curve(peak) == pytest.approx((512 * 4000) ** -0.5, rel=1e-12)
    assert curve(0) == pytest.approx(512**-0.5 * 4000**-1.5, rel=1e-12)
    assert curve(15999) == pytest.approx(curve(peak) / 2, rel=1e-12)


@pytest.mark.parametrize("name", names("schedule"))
def test_every_schedule_rises_to_its_peak_and_never_is_negative(name):
    curve = schedule(name, max_steps=40, warmup_steps=10)
    values = [curve(step) for step in range(60)]
    assert all(math.isfinite(value) and value >= 0 for value in values)
    assert values[0] > 0
    assert values[:10] == pytest.approx([values[9] * (step + 1) / 10 for step in range(10)])
    assert max(values) == pytest.approx(values[9])


@pytest.mark.parametrize("name", names("schedule"))
def test_a_negative_warmup_is_refused(name):
    with pytest.raises(ConfigError, match=r"^schedule\.warmup_steps: must be >= [01], got -1$"):
        schedule(name, warmup_steps=-1)


def test_progress_is_held_between_nothing_and_all():
    assert [progress_after(step, 2, 6) for step in (2, 4, 6, 9)] == [0.0, 0.5, 1.0, 1.0]
    assert progress_after(4, 4, 4) == 0.0  # a run that is all warm-up


def test_a_schedule_must_say_what_follows_its_warmup():
    assert Schedule(2)(1) == 1.0
    with pytest.raises(NotImplementedError):
        Schedule(2)(2)
