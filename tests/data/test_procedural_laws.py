"""The laws that the draws of the generated sources follow, against what can be worked out."""

import math
from collections import Counter

import numpy as np
import pytest

from tests.data.test_procedural import read, source
from tests.data.test_procedural_rules import GOLDEN, GOLDEN_ROW
from tfexp.data.procedural import part_random
from tfexp.data.source import mqar
from tfexp.streams import numpy_stream


def golden_draw(monkeypatch, slots) -> tuple[str, str]:
    """The first row of MQAR where keys, values and slots are those of the authors' example."""
    rows = iter([np.array([[2, 4]]) - 1, np.array([[8, 7]]) - 6])
    monkeypatch.setattr(mqar, "ROWS", 1)
    monkeypatch.setattr(mqar, "_distinct", lambda *_: next(rows))
    monkeypatch.setattr(mqar, "_weighted", lambda *_: np.array([slots]))
    texts, labels = source("mqar", **GOLDEN)._draw(numpy_stream(0, "x"))
    return " ".join(map(str, texts[0])), " ".join("_" if i == 12 else str(i) for i in labels[0])


def test_mqar_lays_out_the_authors_example(monkeypatch):
    assert golden_draw(monkeypatch, [4, 1]) == GOLDEN_ROW


def test_mqar_with_the_slots_the_other_way_round_is_another_row(monkeypatch):
    text, labels = golden_draw(monkeypatch, [1, 4])
    assert text == "2 8 4 7 0 0 2 0 0 0 0 0 4 0 0 0"
    assert labels == "_ _ _ _ _ _ 8 _ _ _ _ _ 7 _ _ _"


def first_slots(power: float) -> np.ndarray:
    rng = numpy_stream(0, "slots")
    return np.concatenate([mqar._weighted(rng, 6, 2, power) for _ in range(20)])


@pytest.mark.parametrize("power", [0.01, 0.5, 1.0, 2.0])
def test_mqar_draws_slots_by_their_weights_without_repeats(power):
    drawn = first_slots(power)
    p = np.arange(1, 7) ** (power - 1)
    p /= p.sum()
    assert np.allclose(np.bincount(drawn[:, 0], minlength=6) / 20_000, p, atol=0.018)  # 5 standard deviations
    # The second is drawn from what the first one left.
    second = [sum(p[i] * p[j] / (1 - p[i]) for i in range(6) if i != j) for j in range(6)]
    assert np.allclose(np.bincount(drawn[:, 1], minlength=6) / 20_000, second, atol=0.018)
    assert (drawn[:, 0] != drawn[:, 1]).all()


def test_mqar_another_power_is_seen():
    counts = np.bincount(first_slots(1.0)[:, 0], minlength=6) / 20_000
    assert not np.allclose(counts, np.arange(1, 7) ** -0.99 / (np.arange(1, 7) ** -0.99).sum(), atol=0.018)


def test_mqar_draws_every_ordered_choice_equally_often():
    rng = numpy_stream(0, "keys")
    drawn = Counter(map(tuple, np.concatenate([mqar._distinct(rng, 4, 3) for _ in range(24)]).tolist()))
    assert len(drawn) == 24
    assert all(abs(n - 1000) < 160 for n in drawn.values())  # 5 standard deviations
    assert sorted(mqar._distinct(rng, 5, 5)[0]) == [0, 1, 2, 3, 4]


def test_mqar_random_filler_changes_the_filler_only():
    plain, filled = (source("mqar", random_filler=on)._draw(numpy_stream(0, "x")) for on in (False, True))
    assert (plain[1] == filled[1]).all()
    assert (plain[0] == filled[0])[plain[0] > 0].all()
    noise = filled[0][plain[0] == 0]
    assert noise.min() >= 0
    assert noise.max() < 8192
    assert abs(noise.mean() - 4095.5) < 60  # 5 standard deviations of the mean of 52,000


def test_induction_has_one_trigger_in_half_of_the_sequences():
    rows = read("induction", n_train=4000, n_val=1, n_test=0, n_triggers=3, input_len=300).train
    triggers = Counter(row.source.split().count("=>") - 1 for row in rows)
    # Of three places in 298, two are equal or touch in about 3 %.
    assert abs(triggers[1] / 4000 - 0.5) < 0.04
    assert triggers[3] / 4000 > 0.44
    assert {row.source.split().count("=>") for row in read("induction").train[:500]} == {2}


def test_induction_triggers_stand_anywhere_but_at_the_end():
    rows = read("induction", n_train=2000, n_val=1, n_test=0, input_len=6).train
    assert {row.source.split().index("=>") for row in rows} == {0, 1, 2, 3}


def test_passkey_stands_anywhere_and_lengths_count_every_token():
    corpus = read("passkey", n_train=3000, n_val=10, n_test=200, min_length=8, max_length=9, n_values=7)
    lengths = {part: {len(row.source.split()) for row in rows} for part, rows in corpus.parts().items()}
    assert lengths["train"] == {8, 9}
    assert min(lengths["test"]) >= 257
    assert max(lengths["test"]) <= 1024
    places = Counter(row.source.split().index("key") for row in corpus.train if len(row.source.split()) == 8)
    assert set(places) == {0, 1, 2, 3, 4, 5}
    assert {row.target for row in corpus.train} == set("1234567")


def test_passkey_numbers_have_as_many_digits_as_they_need():
    digits = Counter(row.target.count(" ") + 1 for row in read("passkey", n_train=2000, n_val=1, n_test=0).train)
    assert abs(digits[5] / 2000 - 0.8) < 0.05  # 40,001 of 50,000
    assert digits[1] + digits[2] < 20


def test_listops_grows_by_its_probabilities():
    lists = source("listops", max_depth=3, min_length=0, max_length=1000)
    rng = part_random(0, "listops", "law")
    shapes = [lists._grow(rng) for _ in range(8000)]
    roots = Counter(shape[0][0] for shape in shapes)
    assert abs(roots[0] / 8000 - 0.75) < 0.025  # 5 standard deviations
    assert set(roots) == {0, *range(2, 11)}
    assert all(abs(roots[n] - 2000 / 9) < 75 for n in range(2, 11))
    assert {len(shape) for shape in shapes} == {1, 2, 3}
    assert all(set(shape[2]) == {0} for shape in shapes if len(shape) == 3)


@pytest.mark.parametrize("options", [{}, {"max_depth": 5, "min_length": 50, "max_length": 200}], ids=["paper", "cpu"])
def test_listops_keeps_lengths_between_the_ends_and_every_operator(options):
    rows = read("listops", **{"n_train": 100, "n_val": 10, "n_test": 10, **options}).train
    lengths = [len(row.text.split()) for row in rows]
    assert options.get("min_length", 500) < min(lengths)
    assert max(lengths) < options.get("max_length", 2000)
    words = Counter(" ".join(row.text for row in rows).split())
    assert set(words) == {"[MIN", "[MAX", "[MED", "[SM", "]", *"0123456789"}
    assert words["]"] == sum(words[operator] for operator in ("[MIN", "[MAX", "[MED", "[SM"))


def strings(k: int, m: int, high: int, stack: tuple[int, ...] = (), length: int = 0, p: float = 1.0):
    """Every string up to a length with its probability, by walking the automaton."""
    if not stack and length:
        yield length, p / 2
    if length == high:
        return
    if len(stack) < m:
        for kind in range(k):
            yield from strings(k, m, high, (*stack, kind), length + 1, p / (2 if stack or length else 1) / k)
    if stack:
        yield from strings(k, m, high, stack[:-1], length + 1, p / (2 if len(stack) < m else 1))


@pytest.mark.parametrize(("k", "m", "high"), [(1, 1, 4), (2, 2, 8), (3, 1, 6), (1, 3, 10), (2, 10, 8)])
def test_dyck_entropy_is_that_of_all_strings(k, m, high):
    drawn = list(strings(k, m, high))
    total = sum(p for _, p in drawn)
    nats = -sum(p / total * math.log(p / total) for _, p in drawn)
    tokens = sum(p / total * (length + 1) for length, p in drawn)
    assert source("dyck", n_types=k, max_depth=m, max_length=high).entropy() == pytest.approx(nats / tokens, rel=1e-12)


def test_dyck_lengths_are_those_of_the_automaton():
    options = {"n_types": 1, "max_depth": 3, "min_length": 3, "max_length": 10, "test_tokens": 0}
    drawn = Counter(len(s.split()) for s in read("dyck", **options, train_tokens=60_000, val_tokens=1).train)
    expected = Counter()
    for length, p in strings(1, 3, 10):
        expected[length] += p if length >= 3 else 0
    total, n = sum(expected.values()), sum(drawn.values())
    assert set(drawn) == {4, 6, 8, 10}
    assert all(abs(drawn[length] / n - expected[length] / total) < 0.03 for length in drawn)
    assert abs(drawn[4] / n - 0.25) > 0.03  # uniform lengths would be seen


def test_dyck_test_strings_are_longer_than_any_training_string():
    corpus = read("dyck", train_tokens=100_000, val_tokens=100, test_tokens=20_000)
    assert all(701 <= len(s.split()) <= 1400 for s in corpus.test)
    assert all(2 <= len(s.split()) <= 700 for s in corpus.train)
    assert {token for s in corpus.train for token in s.split()} == {f"{b}{k}" for b in "()" for k in range(8)}


def test_modular_equations_are_all_there_once():
    corpus = read("modular_addition")
    assert len({row.source for row in corpus.train + corpus.val}) == 97 * 97
    assert (len(corpus.train), len(corpus.val), len(corpus.test)) == (4704, 4705, 0)
    divided = read("modular_addition", operation="divide", train_fraction=0.25)
    assert len({row.source for row in divided.train + divided.val}) == 97 * 96
    assert len(divided.train) == 97 * 24
