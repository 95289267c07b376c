import math

import pytest
import torch

from tests.tiny import close
from tfexp.errors import ConfigError
from tfexp.generation.base import Strategy
from tfexp.registry import check_choice, create

# H23: probabilities, keys of `sample` -> the distribution that is drawn from.
NUCLEUS = {
    "crossing_token_is_kept": ([0.4, 0.3, 0.2, 0.1], {"top_p": 0.8}, [4 / 9, 3 / 9, 2 / 9, 0]),
    "two_of_four": ([0.5, 0.3, 0.15, 0.05], {"top_p": 0.6}, [0.625, 0.375, 0, 0]),
    "ties": ([0.25] * 4, {"top_p": 0.5}, [0.5, 0.5, 0, 0]),
    "reached_exactly": ([0.5, 0.3, 0.2], {"top_p": 0.8}, [0.625, 0.375, 0]),
    "all": ([0.4, 0.3, 0.2, 0.1], {"top_p": 1.0}, [0.4, 0.3, 0.2, 0.1]),
    "one_is_enough": ([0.9, 0.1], {"top_p": 0.1}, [1, 0]),
    "never_empty": ([0.25] * 4, {"top_p": 1e-30}, [1, 0, 0, 0]),
    "order_of_ids_does_not_matter": ([0.1, 0.2, 0.3, 0.4], {"top_p": 0.8}, [0, 2 / 9, 3 / 9, 4 / 9]),
    "top_k": ([0.4, 0.3, 0.2, 0.1], {"top_k": 2}, [4 / 7, 3 / 7, 0, 0]),
    "top_k_1": ([0.4, 0.3, 0.2, 0.1], {"top_k": 1}, [1, 0, 0, 0]),
    "top_k_beyond_the_vocabulary": ([0.6, 0.4], {"top_k": 9}, [0.6, 0.4]),
    "top_k_before_top_p": ([0.4, 0.3, 0.2, 0.1], {"top_k": 2, "top_p": 0.57}, [1, 0, 0, 0]),
    "temperature_before_top_p": ([0.5, 0.3, 0.2], {"temperature": 0.5, "top_p": 0.6}, [1, 0, 0]),
    "sharpened": ([0.8, 0.2], {"temperature": 0.5}, [16 / 17, 1 / 17]),
    "flattened": ([0.8, 0.2], {"temperature": 2.0}, [2 / 3, 1 / 3]),
}
REFUSED = {
    "zero": ("temperature", 0, "must be > 0, got 0"),
    "negative": ("temperature", -1, "must be > 0, got -1"),
    "nan": ("temperature", math.nan, "expected float > 0, got nan"),
    "p_zero": ("top_p", 0, "must be > 0 and <= 1, got 0"),
    "p_above_one": ("top_p", 1.5, "must be > 0 and <= 1, got 1.5"),
    "k_zero": ("top_k", 0, "must be >= 1, got 0"),
    "no_tokens": ("max_new_tokens", 0, "must be >= 1, got 0"),
    "none": ("top_k", "None", "expected int or null >= 1, got 'None'; write null for no value"),
}


def strategy(name: str = "sample", **keys) -> Strategy:
    return create("generation", check_choice("generation", {"name": name, **keys}, "generation"), {})


def logits(probabilities) -> torch.Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log().float() + 3.0  # a shift changes nothing


def draws(chosen: Strategy, values: torch.Tensor, n: int = 200) -> list[int]:
    generator = torch.Generator().manual_seed(0)
    return [chosen.choose(values, generator) for _ in range(n)]


@pytest.mark.parametrize(("probabilities", "keys", "expected"), NUCLEUS.values(), ids=NUCLEUS)
def test_the_distribution_that_is_drawn_from(probabilities, keys, expected):
    close(strategy(**keys).probabilities(logits(probabilities)), expected, atol=1e-6)  # the logits are float32


@pytest.mark.parametrize(("key", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_a_value_without_meaning_is_refused(key, value, message):
    # H22.
    with pytest.raises(ConfigError) as error:
        strategy(**{key: value})
    assert str(error.value) == f"generation.{key}: {message}"


@pytest.mark.parametrize("temperature", [1e-8, 1e-30, 1e-300])
def test_a_tiny_temperature_equals_greedy(temperature):
    values = torch.randn(50, generator=torch.Generator().manual_seed(1)) * 20
    sample = strategy(temperature=temperature)
    assert torch.isfinite(sample.probabilities(values)).all()
    assert set(draws(sample, values)) == {strategy("greedy").choose(values, torch.Generator())}


def test_extreme_logits_stay_finite():
    values = torch.tensor([1e30, -1e30, 0.0, -math.inf])
    for keys in ({}, {"temperature": 1e-8}, {"temperature": 1e8}, {"top_k": 2}, {"top_p": 0.9}):
        probabilities = strategy(**keys).probabilities(values)
        assert torch.isfinite(probabilities).all()
        close(probabilities.sum(), 1.0, atol=1e-9)


def test_draws_follow_the_distribution_and_nothing_else_is_drawn():
    counts = torch.bincount(torch.tensor(draws(strategy(top_p=0.8), logits([0.4, 0.3, 0.2, 0.1]), 3000)), minlength=4)
    assert counts[3] == 0
    close(counts / 3000, [4 / 9, 3 / 9, 2 / 9, 0], atol=0.03)  # three standard deviations of 3000 draws


def test_greedy_takes_the_first_of_equals_and_draws_nothing():
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert strategy("greedy").choose(torch.tensor([0.0, 2.0, 2.0]), generator) == 1
    assert torch.equal(generator.get_state(), before)


def test_draws_come_from_the_given_generator_only():
    torch.manual_seed(1)
    first = draws(strategy(), logits([0.5, 0.5]))
    torch.manual_seed(2)
    assert draws(strategy(), logits([0.5, 0.5])) == first


def test_a_strategy_must_choose():
    with pytest.raises(NotImplementedError):
        Strategy().choose(torch.zeros(2), torch.Generator())
