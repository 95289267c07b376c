"""Every generated source: its parts, its first examples, and what it refuses."""

import os
from collections import Counter
from hashlib import sha256
from itertools import groupby

import pytest

from tests.runs import python_process
from tfexp.data.corpus import texts_of
from tfexp.data.procedural import Lengths, Sizes, StringTask, letters, part_of
from tfexp.errors import ConfigError, DataError
from tfexp.registry import check_choice, create

FEW = {"n_train": 300, "n_val": 60, "n_test": 60}
FEW_BRACKETS = {"train_tokens": 20_000, "val_tokens": 4_000, "test_tokens": 10_000}
FLAT = {"n_types": 2, "max_depth": 1, "max_length": 18, "test_min_length": 20}
SMALL_LISTOPS = {"max_depth": 5, "min_length": 50, "max_length": 200}  # the setting for a CPU in its file
# id -> name, options, sha256 of the first hundred training examples.
SOURCES = {
    "mqar": ("mqar", FEW, "e6988344eb9e8034"),
    "mqar_random_filler": ("mqar", {**FEW, "random_filler": True, "vocabulary": 64}, "26213d1bd4841588"),
    "mqar_long": ("mqar", {**FEW, "input_len": 256, "n_pairs": 64}, "0ee2f2ac133bea2f"),
    "copy": ("copy", FEW, "54876aacfd7b94cf"),
    "reverse": ("reverse", FEW, "c4d84f48ca94ce09"),
    "sort": ("sort", FEW, "64f0de2623264e9d"),
    "scan": ("scan", {}, "0ce203e0bfa65d4a"),
    "listops": ("listops", {"n_train": 110, "n_val": 10, "n_test": 10}, "d4b436f1e321b815"),
    "listops_small": ("listops", {**FEW, **SMALL_LISTOPS}, "cc1d83b305b22172"),
    "induction": ("induction", FEW, "0b0dbeea6ac30fff"),
    "induction_several": ("induction", {**FEW, "n_triggers": 4}, "ae02c0495c3b3635"),
    "dyck": ("dyck", FEW_BRACKETS, "5fcde516574a4348"),
    "dyck_flat": ("dyck", {**FEW_BRACKETS, **FLAT}, "f2b9c26e2e1b2e17"),
    "modular_addition": ("modular_addition", {}, "16069033c1b37da4"),
    "modular_subtract": ("modular_addition", {"operation": "subtract", "modulus": 12}, "90447cc3421ca02c"),
    "modular_multiply": ("modular_addition", {"operation": "multiply", "modulus": 12}, "c1cfe952e4625ff9"),
    "modular_divide": ("modular_addition", {"operation": "divide", "modulus": 13}, "0262c129f8abffe0"),
    "passkey": ("passkey", FEW, "d3a8ed49e039106d"),
    "passkey_short": ("passkey", {**FEW, "n_values": 999, "min_length": 5, "test_min_length": 5}, "4c062e00158b1c06"),
}
FIXED_SIZE = ("scan", "modular_addition")
PRINT = """
from tfexp.registry import check_choice, create
for name, options in {!r}:
    print(create("data", check_choice("data", {{"name": name, **options}}, "data"), {{}}).read().fingerprint())
print(hash("a word"))
"""
ORDER = "data.{0}min_length: must be at most data.{0}max_length=4, got 5"
REFUSED = {
    "odd": ("mqar", {"input_len": 17}, "data.input_len: must be even (keys are asked for in slots of two), got 17"),
    "short": ("mqar", {"n_pairs": 5, "input_len": 18}, "data.input_len: 5 pairs and a slot for each need >= 20 tokens"),
    "few_keys": ("mqar", {"vocabulary": 9}, "data.vocabulary: 4 keys need >= 10 tokens, got 9"),
    "copy_order": ("copy", {"min_length": 5, "max_length": 4}, ORDER.format("")),
    "sort_order": ("sort", {"test_min_length": 5, "test_max_length": 4}, ORDER.format("test_")),
    "dyck_order": ("dyck", {"min_length": 5, "max_length": 4}, ORDER.format("")),
    "dyck_test_order": ("dyck", {"test_min_length": 5, "test_max_length": 4}, ORDER.format("test_")),
    "passkey_order": ("passkey", {"min_length": 5, "max_length": 4}, ORDER.format("")),
    "dyck_odd": (
        "dyck",
        {"min_length": 7, "max_length": 7},
        "data.min_length: no string of 7 to 7 brackets can be drawn with data.max_depth=10; allow an even length, sho",
    ),
    "dyck_flat": (
        "dyck",
        {"max_depth": 1, "test_min_length": 4000, "test_max_length": 4010},
        "data.test_min_length: no string of 4000 to 4010 brackets can be drawn with data.max_depth=1; allow an even",
    ),
    "no_room": (
        "passkey",
        {"test_min_length": 6},
        "data.test_min_length: the number up to 50000, its marker and the question need 7 tokens, got 6",
    ),
    "no_length": (
        "listops",
        {"min_length": 9, "max_length": 10},
        "data.max_length: no length is between 9 and 10; set it to >= 11",
    ),
    "too_flat": (
        "listops",
        {"max_depth": 3},
        "data.min_length: with max_depth=3 and max_args=10 the longest expression has 122 tokens, which is not more",
    ),
    "no_prime": (
        "modular_addition",
        {"operation": "divide", "modulus": 91},
        "data.modulus: data.operation=divide needs a prime, got 91",
    ),
    "none_trains": (
        "modular_addition",
        {"modulus": 3, "train_fraction": 0.01},
        "data.train_fraction: 0.01 of 9 equations leaves none to train on",
    ),
    "none_validates": (
        "modular_addition",
        {"modulus": 3, "train_fraction": 0.99},
        "data.train_fraction: 0.99 of 9 equations leaves none to validate on",
    ),
    "alphabet": ("copy", {"alphabet": 1}, "data.alphabet: must be >= 2 and <= 702, got 1"),
    "operation": ("modular_addition", {"operation": "ad"}, "data.operation: expected one of add, subtract, multiply"),
}
EXHAUSTED = {
    "strings": ("reverse", {"max_length": 1}, "data=reverse: after 0 of 60 examples for 'val', 1,000 draws gave no"),
    "rows": ("mqar", {"vocabulary": 4, "input_len": 4, "n_pairs": 1}, "data=mqar: after 0 of 60 examples for '"),
    "trees": (
        "listops",
        {"max_depth": 2, "max_args": 2, "min_length": 0, "max_length": 5, "n_train": 500},
        "data=listops: after ",
    ),
}


def source(name: str, **options):
    return create("data", check_choice("data", {"name": name, **options}, "data"), {})


def read(name: str, **options):
    return source(name, **options).read()


@pytest.fixture(scope="module")
def corpora():
    return {id: read(name, **options) for id, (name, options, _) in SOURCES.items()}


@pytest.mark.parametrize("id", SOURCES)
def test_the_first_hundred_examples_stay_what_they_are(corpora, id):
    rows = corpora[id].train[:100]
    text = "\n".join("\t".join(texts_of(row)) for row in rows)
    assert sha256(text.encode()).hexdigest()[:16] == SOURCES[id][2]


@pytest.mark.parametrize("id", [id for id, (name, _, _) in SOURCES.items() if name not in FIXED_SIZE])
def test_more_training_examples_change_nothing_in_those_that_are_there(corpora, id):
    name, options, _ = SOURCES[id]
    key = "train_tokens" if name == "dyck" else "n_train"
    more = read(name, **{**options, key: options[key] * 2})
    few = corpora[id]
    assert more.train[: len(few.train)] == few.train
    assert len(more.train) > len(few.train)
    assert (more.val, more.test) == (few.val, few.test)


@pytest.mark.parametrize("id", SOURCES)
def test_parts_have_the_sizes_asked_for_and_the_kind_that_was_declared(corpora, id):
    name, options, _ = SOURCES[id]
    corpus = corpora[id]
    assert corpus.kind == source(name, **options).kind
    for part, rows in corpus.parts().items():
        assert len(rows) == options.get(f"n_{part}", len(rows))
    if name == "dyck":
        for part, strings in corpus.parts().items():
            written = sum(len(s.split()) for s in strings)
            assert 0 <= written - options[f"{part}_tokens"] < 1400


def overlap(corpus, one: str, other: str) -> set:
    first, second = ({texts_of(row)[0] for row in corpus.parts()[part]} for part in (one, other))
    return first & second


@pytest.mark.parametrize("id", SOURCES)
def test_no_example_is_in_two_parts(corpora, id):
    assert not overlap(corpora[id], "train", "test")
    if SOURCES[id][0] != "dyck":
        assert not overlap(corpora[id], "train", "val")
        assert not overlap(corpora[id], "val", "test")


def test_short_strings_of_brackets_are_in_both_parts_and_this_is_seen(corpora):
    assert {"(0 )0", "(7 )7"} <= overlap(corpora["dyck"], "train", "val")


@pytest.mark.parametrize("id", [id for id, (name, _, _) in SOURCES.items() if name != "listops"])
def test_another_data_seed_is_another_data_set(corpora, id):
    name, options, _ = SOURCES[id]
    other = read(name, **options, data_seed=1)
    assert other.fingerprint() != corpora[id].fingerprint()
    if name not in (*FIXED_SIZE, "dyck"):  # what validates once never trains
        assert not {texts_of(row)[0] for row in corpora[id].val} & {texts_of(row)[0] for row in other.train}


def test_every_process_makes_the_same_data(corpora):
    code = PRINT.format([(name, options) for name, options, _ in SOURCES.values()])
    *printed, word = python_process(
        code, PYTHONHASHSEED="2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    ).splitlines()
    assert printed == [corpus.fingerprint() for corpus in corpora.values()]
    assert int(word) != hash("a word")  # what does depend on the process is seen


@pytest.mark.parametrize(("name", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_made_is_refused(name, options, message):
    with pytest.raises(ConfigError) as error:
        read(name, **options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(("name", "options", "message"), EXHAUSTED.values(), ids=EXHAUSTED)
def test_more_examples_than_there_are_are_refused(monkeypatch, name, options, message):
    monkeypatch.setattr("tfexp.data.procedural.PATIENCE", 1000)
    with pytest.raises(DataError) as error:
        read(name, **{**FEW, **options})
    assert str(error.value).startswith(message)
    assert str(error.value).endswith("; allow more lengths or symbols, or ask for fewer")


def test_a_task_on_strings_must_say_what_becomes_of_them():
    with pytest.raises(NotImplementedError):
        StringTask("x", 2, Lengths(1, 1, 1, 1), Sizes(1, 1, 1), 0).answer([0])


def test_tests_may_be_left_out():
    assert read("copy", n_train=5, n_val=5, n_test=0).test == ()
    assert (
        read("dyck", train_tokens=50, val_tokens=50, test_tokens=0, test_min_length=4001, test_max_length=4001).test
        == ()
    )


def test_an_alphabet_goes_on_after_z():
    assert letters(28)[-3:] == ["z", "aa", "ab"]
    assert len(set(letters(702))) == len(letters(9999)) == 702
    corpus = read("sort", **FEW, alphabet=100)
    assert {len(letter) for row in corpus.train for letter in row.source.split()} == {1, 2}
    ranks = {letter: i for i, letter in enumerate(letters(100))}
    assert all(row.target.split() == sorted(row.source.split(), key=ranks.__getitem__) for row in corpus.train)


def test_lengths_are_those_of_each_part_and_uniform():
    corpus = read("copy", n_train=8000, n_val=400, n_test=400)
    lengths = {part: Counter(len(row.source.split()) for row in rows) for part, rows in corpus.parts().items()}
    assert set(lengths["train"]) == set(lengths["val"]) == set(range(1, 21))
    assert set(lengths["test"]) == set(range(21, 41))
    # 400 of each length are expected; 5 standard deviations are 98.
    assert all(abs(n - 400) < 98 for n in lengths["train"].values())


def test_about_one_example_in_ten_validates_and_one_in_ten_tests():
    shares = Counter(part_of(f"example {i}") for i in range(5000))
    assert abs(shares["val"] - 500) < 110  # 5 standard deviations
    assert abs(shares["test"] - 500) < 110


def test_runs_of_letters_are_as_long_as_chance_makes_them():
    letters_drawn = " ".join(row.source for row in read("reverse", n_train=2000, n_val=1, n_test=0).train).split()
    runs = Counter(len(list(run)) for _, run in groupby(letters_drawn))
    assert abs(runs[1] / sum(runs.values()) - 0.5) < 0.03
