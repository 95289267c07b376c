"""The rule of every generated source, checked by code that shares nothing with the generator."""

import re
import statistics
from collections import Counter
from itertools import pairwise

import pytest

from tests.data.test_procedural import SOURCES, read
from tfexp.data.corpus import UNSCORED, Labelled, Pair, Tagged

GOLDEN = {"vocabulary": 12, "n_pairs": 2, "input_len": 16}
GOLDEN_ROW = Tagged("2 8 4 7 0 0 4 0 0 0 0 0 2 0 0 0", "_ _ _ _ _ _ 7 _ _ _ _ _ 8 _ _ _")
ASKS_11 = " ".join(str(i % 5) for i in range(26))
BROKEN = {
    "copy": (Pair("a b", "b a"), {}),
    "reverse": (Pair("a b", "a b"), {}),
    "sort": (Pair("b a a", "a b b"), {}),
    "mqar_values": (GOLDEN_ROW._replace(labels="_ _ _ _ _ _ 8 _ _ _ _ _ 7 _ _ _"), GOLDEN),
    "mqar_behind": (GOLDEN_ROW._replace(labels="_ _ _ _ _ _ _ 7 _ _ _ _ _ 8 _ _"), GOLDEN),
    "mqar_filler": (GOLDEN_ROW._replace(text="2 8 4 7 0 1 4 0 0 0 0 0 2 0 0 0"), GOLDEN),
    "mqar_once": (GOLDEN_ROW._replace(labels="_ _ _ _ _ _ 7 _ _ _ _ _ _ _ _ _"), GOLDEN),
    "induction": (Pair(f"{ASKS_11} => 11 0 7 =>", "0"), {}),
    "induction_two": (Pair(f"{ASKS_11} => 11 => 7 =>", "11"), {"n_triggers": 2}),
    "passkey": (Pair("w0 w1 key 3 0 7 w0 ?", "3 0 8"), {}),
    "passkey_run": (Pair("w0 w2 key 3 0 7 w0 ?", "3 0 7"), {}),
    "modular_addition": (Pair("5 + 95 =", "4"), {}),
    "dyck_crossed": ("(0 (1 )0 )1", {}),
    "dyck_deep": ("(0 (0 )0 )0", {"max_depth": 1}),
    "dyck_open": ("(0 (0 )0", {}),
    "listops": (Labelled("[MAX 1 2 ]", ("1",)), {"min_length": 0}),
    "listops_median": (Labelled("[MED 1 2 ]", ("2",)), {"min_length": 0}),
    "scan": (Pair("fly", "I_FLY"), {}),
}
RIGHT = {
    "mqar": (GOLDEN_ROW, GOLDEN),  # the example in the authors' generator
    "induction": (Pair(f"{ASKS_11} => 11 0 7 =>", "11"), {}),
    "listops": (Labelled("[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]", ("5",)), {"min_length": 0}),  # of the paper
    "listops_sum": (Labelled("[SM 9 9 [MED 1 2 ] ]", ("9",)), {"min_length": 0}),  # the median's whole part
    "passkey": (Pair("w0 w1 key 3 0 7 w0 ?", "3 0 7"), {}),
    "dyck": ("(0 (3 )3 )0 (1 )1", {}),
}


def value_of(tokens: list[str]) -> int:
    """What an expression is worth: a second evaluator, which eats the tokens from the left."""
    token = tokens.pop(0)
    if token.isdecimal():
        return int(token)
    arguments = []
    while tokens[0] != "]":
        arguments.append(value_of(tokens))
    tokens.pop(0)
    assert 2 <= len(arguments) <= 10
    worth = {"[MIN": min, "[MAX": max, "[SM": sum, "[MED": statistics.median}
    return int(worth[token](arguments)) % 10


def depth_of(text: str) -> int:
    depths = [0]
    for token in text.split():
        depths.append(depths[-1] + (token[0] in "[(") - (token[0] in ")]"))
    return max(depths)


def holds_copy(row: Pair, o: dict) -> bool:
    return row.target == row.source and set(row.source.split()) <= set("abcdefghijklmnopqrstuvwxyz")


def holds_reverse(row: Pair, o: dict) -> bool:
    return row.target.split() == list(reversed(row.source.split())) and set(row.source) <= {"a", "b", " "}


def holds_sort(row: Pair, o: dict) -> bool:
    found = Counter(row.source.split())
    return row.target.split() == [letter for letter in "abcde" for _ in range(found[letter])]


def holds_mqar(row: Tagged, o: dict) -> bool:
    text, labels = row.text.split(), row.labels.split()
    n, vocabulary = o.get("n_pairs", 4), o.get("vocabulary", 8192)
    value = dict(zip(text[0 : 2 * n : 2], text[1 : 2 * n : 2], strict=True))
    asked = [i for i, label in enumerate(labels) if label != UNSCORED]
    rest = [text[i] for i in range(2 * n, len(text)) if i not in asked]
    return (
        len(text) == len(labels) == o.get("input_len", 64)
        and all(1 <= int(key) < vocabulary // 2 <= int(v) < vocabulary for key, v in value.items())
        and len(set(value.values())) == n
        and all(i >= 2 * n and i % 2 == 0 and labels[i] == value[text[i]] for i in asked)
        and sorted(text[i] for i in asked) == sorted(value)
        and (o.get("random_filler", False) or set(rest) == {"0"})
    )


def holds_induction(row: Pair, o: dict) -> bool:
    *tokens, last = row.source.split()
    followers = {after for token, after in pairwise(tokens) if token == "=>"}
    return (
        len(tokens) == 30
        and last == "=>" != tokens[-1]
        and followers == {row.target}
        and tokens.count("=>") <= o.get("n_triggers", 1)
        and {*tokens, row.target} - {"=>"} <= {str(i) for i in range(20)}
    )


def holds_passkey(row: Pair, o: dict) -> bool:
    found = re.fullmatch(r"((?:w\d+ )*)key ((?:\d )+)((?:w\d+ )*)\?", row.source)
    if not found or found[2].strip() != row.target:
        return False
    runs = [[int(token[1:]) for token in group.split()] for group in (found[1], found[3])]
    value = int(row.target.replace(" ", ""))
    return all(run == [i % 19 for i in range(len(run))] for run in runs) and 1 <= value <= o.get("n_values", 50_000)


def holds_modular_addition(row: Pair, o: dict) -> bool:
    a, sign, b, equals = row.source.split()
    p, x, y, z = o.get("modulus", 97), int(a), int(b), int(row.target)
    sides = {"+": (x + y, z), "-": (x, y + z), "*": (x * y, z), "/": (x, y * z)}
    left, right = sides[sign]
    return equals == "=" and (left - right) % p == 0 and max(x, y, z) < p and (sign != "/" or y > 0)


def holds_dyck(row: str, o: dict) -> bool:
    left, right = row.replace(" ", ""), None
    while left != right:
        left, right = re.sub(r"\((\d)\)\1", "", left), left
    return left == "" and depth_of(row) <= o.get("max_depth", 10)


def holds_listops(row: Labelled, o: dict) -> bool:
    tokens = row.text.split()
    length = len(tokens)
    nested = depth_of(row.text) < o.get("max_depth", 10)
    return (str(value_of(tokens)),) == row.labels and not tokens and o.get("min_length", 500) < length and nested


def holds_scan(row: Pair, o: dict) -> bool:
    verb, *_ = row.source.split()
    return verb in ("walk", "look", "run", "jump", "turn") and set(row.target.split()) <= {
        *("I_WALK", "I_LOOK", "I_RUN", "I_JUMP", "I_TURN_LEFT", "I_TURN_RIGHT")
    }


HOLDS = {
    "copy": holds_copy,
    "dyck": holds_dyck,
    "induction": holds_induction,
    "listops": holds_listops,
    "modular_addition": holds_modular_addition,
    "mqar": holds_mqar,
    "passkey": holds_passkey,
    "reverse": holds_reverse,
    "scan": holds_scan,
    "sort": holds_sort,
}


def named(id: str) -> str:
    """The source of a row of the tables: what its id begins with."""
    return next(name for name in HOLDS if id.startswith(name))


@pytest.mark.parametrize(("name", "options", "_"), SOURCES.values(), ids=SOURCES)
def test_every_example_keeps_the_rule(name, options, _):
    for part, rows in read(name, **options).parts().items():
        assert all(HOLDS[name](row, options) for row in rows), part


@pytest.mark.parametrize("id", RIGHT)
def test_a_known_example_keeps_the_rule(id):
    row, options = RIGHT[id]
    assert HOLDS[named(id)](row, options)


@pytest.mark.parametrize("id", BROKEN)
def test_an_example_that_breaks_the_rule_is_seen(id):
    row, options = BROKEN[id]
    assert not HOLDS[named(id)](row, options)
