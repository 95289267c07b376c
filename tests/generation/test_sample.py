"""Sampling: the law that is drawn from, against transformers and by hand, and the draws."""

import math

import pytest
import torch

from tests.generation.engines import TableEngine, answers, call
from tests.tiny import close, normal
from tfexp.errors import ConfigError
from tfexp.generation.base import Strategy
from tfexp.generation.law import Law, draw
from tfexp.generation.token_loop import TokenStrategy
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
    "top_k_before_top_p": ([0.4, 0.3, 0.2, 0.1], {"top_k": 2, "top_p": 0.57}, [1, 0, 0, 0]),
    "temperature_before_top_p": ([0.5, 0.3, 0.2], {"temperature": 0.5, "top_p": 0.6}, [1, 0, 0]),
    "min_p": ([0.5, 0.3, 0.15, 0.05], {"min_p": 0.29}, [10 / 19, 6 / 19, 3 / 19, 0]),
    "epsilon": ([0.6, 0.3, 0.1], {"epsilon": 0.2}, [2 / 3, 1 / 3, 0]),
    "epsilon_keeps_one": ([0.4, 0.3, 0.3], {"epsilon": 0.9}, [1, 0, 0]),
    "sharpened": ([0.8, 0.2], {"temperature": 0.5}, [16 / 17, 1 / 17]),
    "flattened": ([0.8, 0.2], {"temperature": 2.0}, [2 / 3, 1 / 3]),
    # Entropy of the first is 1.12: 0.4 (0.92) is nearest, then 0.2 (1.61) and 0.2 before 0.1 and 0.1 (2.30).
    "typical": ([0.4, 0.2, 0.2, 0.1, 0.1], {"typical_p": 0.5}, [0.5, 0.25, 0.25, 0, 0]),
}
# G52: logits [0, ln 4, ...]-like values of the page: temperature -> probabilities of [1, 2, 1, 1] logs
G52 = {0.25: [1 / 19, 16 / 19, 1 / 19, 1 / 19], 0.5: [1 / 7, 4 / 7, 1 / 7, 1 / 7], 2.0: [0.2265409, 0.3203772]}
LIBRARY = {
    "top_k": ({"top_k": 5}, [("TopKLogitsWarper", {"top_k": 5})]),
    "top_p": ({"top_p": 0.7}, [("TopPLogitsWarper", {"top_p": 0.7})]),
    "min_p": ({"min_p": 0.1}, [("MinPLogitsWarper", {"min_p": 0.1})]),
    "typical": ({"typical_p": 0.6}, [("TypicalLogitsWarper", {"mass": 0.6})]),
    "epsilon": ({"epsilon": 0.03}, [("EpsilonLogitsWarper", {"epsilon": 0.03})]),
    "all": (
        {"temperature": 1.3, "top_k": 15, "top_p": 0.95, "min_p": 0.02, "typical_p": 0.95, "epsilon": 0.02},
        [
            ("TemperatureLogitsWarper", {"temperature": 1.3}),
            ("TopKLogitsWarper", {"top_k": 15}),
            ("TopPLogitsWarper", {"top_p": 0.95}),
            ("MinPLogitsWarper", {"min_p": 0.02}),
            ("TypicalLogitsWarper", {"mass": 0.95}),
            ("EpsilonLogitsWarper", {"epsilon": 0.02}),
        ],
    ),
}
REFUSED = {
    "zero": ("temperature", 0, "must be > 0, got 0"),
    "negative": ("temperature", -1, "must be > 0, got -1"),
    "nan": ("temperature", math.nan, "expected float > 0, got nan"),
    "p_zero": ("top_p", 0, "must be > 0 and <= 1, got 0"),
    "p_above_one": ("top_p", 1.5, "must be > 0 and <= 1, got 1.5"),
    "k_zero": ("top_k", 0, "must be >= 1, got 0"),
    "min_p": ("min_p", -0.1, "must be >= 0 and <= 1, got -0.1"),
    "typical": ("typical_p", 0, "must be > 0 and <= 1, got 0"),
    "epsilon": ("epsilon", 1, "must be >= 0 and < 1, got 1"),
    "no_tokens": ("max_new_tokens", 0, "must be >= 1, got 0"),
    "none": ("top_k", "None", "expected int or null >= 1, got 'None'; write null for no value"),
}


def strategy(name: str = "sample", **keys) -> TokenStrategy:
    return create("generation", check_choice("generation", {"name": name, **keys}, "generation"), {})


def logits(probabilities) -> torch.Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log().float() + 3.0  # a shift changes nothing


def draws(chosen: TokenStrategy, values: torch.Tensor, n: int = 200) -> list[int]:
    generator = torch.Generator().manual_seed(0)
    return [int(chosen.choose(values, [generator])) for _ in range(n)]


@pytest.mark.parametrize(("probabilities", "keys", "expected"), NUCLEUS.values(), ids=NUCLEUS)
def test_h23_the_distribution_that_is_drawn_from(probabilities, keys, expected):
    close(Law(**keys).probabilities(logits(probabilities))[0], expected, atol=1e-6)  # the logits are float32


@pytest.mark.parametrize(("temperature", "expected"), G52.items())
def test_G52_temperature(temperature, expected):
    found = Law(temperature).probabilities(logits([0.2, 0.4, 0.2, 0.2]))[0]
    close(found[: len(expected)], expected, atol=1e-6)


@pytest.mark.parametrize(("keys", "warpers"), LIBRARY.values(), ids=LIBRARY)
def test_the_law_is_that_of_transformers(keys, warpers):
    transformers = pytest.importorskip("transformers")
    scores = normal(6, 30, seed=1) * 2
    expected = scores.clone()
    for name, arguments in warpers:
        expected = getattr(transformers, name)(**arguments)(None, expected)
    close(Law(**keys).probabilities(scores), expected.softmax(dim=-1), atol=1e-9)


@pytest.mark.parametrize(("key", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_h22_a_value_without_meaning_is_refused(key, value, message):
    with pytest.raises(ConfigError) as error:
        strategy(**{key: value})
    assert str(error.value) == f"generation.{key}: {message}"


def test_a_k_over_the_vocabulary_is_refused():
    with pytest.raises(ConfigError, match=r"^generation\.top_k: 500 is more than the vocabulary's 260 tokens$"):
        strategy(top_k=500).check(260)
    strategy(top_k=260).check(260)


@pytest.mark.parametrize("temperature", [1e-8, 1e-30, 1e-300])
def test_h22_a_tiny_temperature_equals_greedy(temperature):
    values = torch.randn(1, 50, generator=torch.Generator().manual_seed(1)) * 20
    assert torch.isfinite(Law(temperature).probabilities(values)).all()
    assert set(draws(strategy(temperature=temperature), values)) == {int(strategy("greedy").choose(values, []))}


def test_extreme_logits_stay_finite():
    values = torch.tensor([[1e30, -1e30, 0.0, -math.inf]])
    for keys in ({}, {"temperature": 1e-8}, {"temperature": 1e8}, {"top_k": 2}, {"top_p": 0.9}, {"typical_p": 0.5}):
        probabilities = Law(**keys).probabilities(values)
        assert torch.isfinite(probabilities).all()
        close(probabilities.sum(), 1.0, atol=1e-9)


def test_draws_follow_the_distribution_and_nothing_else_is_drawn():
    counts = torch.bincount(torch.tensor(draws(strategy(top_p=0.8), logits([0.4, 0.3, 0.2, 0.1]), 3000)), minlength=4)
    assert counts[3] == 0
    close(counts / 3000, [4 / 9, 3 / 9, 2 / 9, 0], atol=0.03)  # three standard deviations of 3000 draws


def test_a_draw_is_never_of_probability_zero():
    p = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    assert {int(draw(p, [generator])) for _ in range(200)} == {1, 3}


def test_a_request_draws_the_same_whatever_stands_beside_it():
    table = TableEngine({}, {4: 0.4, 5: 0.3, 6: 0.2, 2: 0.1}, 7)
    together, _ = answers(strategy(), call(table, [[1]] * 4, 12, end=2))
    assert len({tuple(h.ids) for (h,) in together}) == 4
    one = call(table, [[1]], 12, end=2)
    for k in range(4):
        one.generators = call(table, [[1]] * 4).generators[k : k + 1]
        (alone,), _ = answers(strategy(), one)
        assert alone[0].ids == together[k][0].ids


def test_log_probabilities_are_the_models_own():
    table = TableEngine({}, {4: 0.75, 2: 0.25}, 7)
    (found,), tokens = answers(strategy("greedy"), call(table, [[1]], 3, end=2))
    assert found[0].logprobs == pytest.approx([math.log(0.75)] * 3, abs=1e-6)
    assert [token.id for token in tokens] == found[0].ids == [4, 4, 4]
    assert found[0].score == pytest.approx(3 * math.log(0.75), abs=1e-6)


def test_rows_that_finish_leave_the_batch():
    class ByOrigin(TableEngine):
        def logits_after(self, text, origin):
            table = super().logits_after(text, origin)
            return table if origin else table.flip(0)

    table = ByOrigin({}, {2: 0.9, 4: 0.1}, 7)
    found, _ = answers(strategy("greedy"), call(table, [[1], [1], [1]], 5, end=2))
    assert [h.reason for (h,) in found] == ["length", "end", "end"]
    assert table.n_rows == [3, 1, 1, 1, 1]


def test_greedy_takes_the_first_of_equals_and_draws_nothing():
    assert strategy("greedy").choose(torch.tensor([[0.0, 2.0, 2.0]]), []).tolist() == [1]


def test_draws_come_from_the_given_generator_only():
    torch.manual_seed(1)
    first = draws(strategy(), logits([0.5, 0.5]))
    torch.manual_seed(2)
    assert draws(strategy(), logits([0.5, 0.5])) == first


def test_a_strategy_must_write():
    with pytest.raises(NotImplementedError):
        next(Strategy().run(call(TableEngine({}, {2: 1.0}, 7), [[1]])))
    with pytest.raises(NotImplementedError):
        TokenStrategy().choose(torch.zeros(1, 2), [])
