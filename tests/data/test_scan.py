"""SCAN against the published files, where they are there, and against a second reading of its commands."""

import gzip
from collections import Counter

import pytest

from tests.real_data import FOLDER as DATA
from tfexp.data.corpus import Pair
from tfexp.data.source.scan import Scan, commands
from tfexp.errors import ConfigError

FOLDER = DATA / "scan"
published = pytest.mark.skipif(not FOLDER.is_dir(), reason="no scan folder below TFEXP_TEST_DATA")
SIZES = {  # distinct training commands, test commands, longest output of each: as published; and who validates
    "simple": (16_728, 4_182, 48, 48, 836),
    "length": (16_990, 3_920, 22, 48, 850),
    "addprim_jump": (13_204, 7_706, 48, 48, 660),
}
KNOWN = {
    "jump": "I_JUMP",
    "turn left twice": "I_TURN_LEFT I_TURN_LEFT",
    "run opposite right": "I_TURN_RIGHT I_TURN_RIGHT I_RUN",
    "turn around left": "I_TURN_LEFT I_TURN_LEFT I_TURN_LEFT I_TURN_LEFT",
    "look around right": "I_TURN_RIGHT I_LOOK I_TURN_RIGHT I_LOOK I_TURN_RIGHT I_LOOK I_TURN_RIGHT I_LOOK",
    "walk after jump left thrice": "I_TURN_LEFT I_JUMP I_TURN_LEFT I_JUMP I_TURN_LEFT I_JUMP I_WALK",
    "look twice and run": "I_LOOK I_LOOK I_RUN",
}


def lines(part: str, split: str) -> list[Pair]:
    stem = f"tasks_{part}_{split}.txt"
    plain, packed = FOLDER / stem, FOLDER / f"{stem}.gz"
    text = plain.read_text() if plain.is_file() else gzip.decompress(packed.read_bytes()).decode()
    return [Pair(*line.removeprefix("IN: ").split(" OUT: ")) for line in text.splitlines()]


def actions_of(command: str) -> list[str]:
    """What a command asks for, read from its last word to its first."""
    for word, second_first in ((" and ", False), (" after ", True)):
        if word in command:
            first, second = map(actions_of, command.split(word))
            return second + first if second_first else first + second
    *words, last = command.split()
    if last in ("twice", "thrice"):
        return actions_of(" ".join(words)) * (2 if last == "twice" else 3)
    if last in ("left", "right"):
        turn, act = [f"I_TURN_{last.upper()}"], [] if words[0] == "turn" else [f"I_{words[0].upper()}"]
        if "around" in words:
            return (turn + act) * 4
        return turn * (2 if "opposite" in words else 1) + act
    return [f"I_{last.upper()}"]


def test_there_are_all_commands_once():
    assert len(commands()) == len({pair.source for pair in commands()}) == 20_910


@pytest.mark.parametrize(("command", "actions"), KNOWN.items())
def test_a_command_asks_for_its_actions(command, actions):
    assert Pair(command, actions) in commands()
    assert Pair(command, f"{actions} I_RUN") not in commands()


def test_every_command_means_what_a_second_reading_says():
    assert all(pair.target.split() == actions_of(pair.source) for pair in commands())


@pytest.mark.parametrize("split", SIZES)
def test_a_split_has_the_published_sizes(split):
    corpus = Scan(split=split).read()
    train, test = corpus.train + corpus.val, corpus.test
    longest = [max(len(pair.target.split()) for pair in part) for part in (train, test)]
    assert (len(set(train)), len(set(test)), *longest, len(set(corpus.val))) == SIZES[split]
    assert (len(test), len(corpus.val)) == (len(set(test)), len(set(corpus.val)))
    assert len(set(train) | set(test)) == 20_910


def test_jump_always_trains_and_no_other_command_with_it_does():
    for fraction in (0.05, 0.9):
        corpus = Scan(split="addprim_jump", val_fraction=fraction).read()
        with_jump = Counter(pair.source for pair in corpus.train + corpus.val if "jump" in pair.source)
        assert with_jump == {"jump": 1467}
        assert "jump" not in {pair.source for pair in corpus.val + corpus.test}
        assert all("jump" in pair.source for pair in corpus.test)
    others = [pair.source for pair in Scan(split="length").read().train if "jump" in pair.source]
    assert len(set(others)) > 5000  # not so in another split


def test_the_simple_split_is_another_one_for_another_seed():
    one, other = (set(Scan(data_seed=seed).read().test) for seed in (0, 1))
    assert 600 < len(one & other) < 1100  # a fifth of a fifth of all is 836


@pytest.mark.parametrize(("fraction", "part"), [(1e-6, "validate"), (1 - 1e-6, "train")])
def test_a_fraction_that_leaves_a_part_empty_is_refused(fraction, part):
    with pytest.raises(ConfigError) as error:
        Scan(split="length", val_fraction=fraction)
    assert str(error.value) == f"data.val_fraction: {fraction} of 16990 commands leaves none to {part} on"


@published
def test_the_rule_gives_every_published_command():
    assert set(commands()) == {*lines("train", "simple"), *lines("test", "simple")}


@published
@pytest.mark.parametrize("split", ["length", "addprim_jump"])
def test_a_split_by_rule_is_the_published_one(split):
    corpus = Scan(split=split).read()
    assert Counter(corpus.train + corpus.val) == Counter(lines("train", split))
    assert Counter(corpus.test) == Counter(lines("test", split))


@published
def test_the_random_split_has_the_published_size_but_is_not_the_published_one():
    corpus = Scan().read()
    train, test = lines("train", "simple"), lines("test", "simple")
    assert (len(corpus.train + corpus.val), len(corpus.test)) == (len(train), len(test))
    assert set(corpus.test) != set(test)
