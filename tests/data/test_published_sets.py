"""Real sets against their published sizes; they are not part of the repository."""

from collections import Counter

import pytest

from tests.real_data import FOLDER
from tfexp.data.corpus import Corpus, Pair
from tfexp.registry import check_choice, create

TEXT_LABEL = {"text": "text", "label": "label"}
POSITIONS = {"text": 1, "label": 0}
PAIR = {"source": "source", "target": "target"}
SCAN = "IN: (?P<source>.+) OUT: (?P<target>.+)"
TREC = r"(?P<coarse>\w+):(?P<fine>\S+) (?P<text>.+)"
SST = {"pattern": r"(?P<label>\d) (?P<text>.+)", **TEXT_LABEL}
PUBLISHED = {  # files of train, val, test; options; rows of each part read; what else the record says
    "trec": (
        ("trec/TREC.train", None, "trec/TREC.test"),
        {"pattern": TREC, "text": "text", "label": "coarse", "encoding": "latin-1"},
        (5_452, None, 500),
        {"train_rows_duplicate": 71, "test_rows_in_train": 10},
    ),
    "sst2": ([f"sst/stsa.binary.{p}" for p in ("train", "dev", "test")], SST, (6_920, 872, 1_821), {}),
    "sst5": ([f"sst/stsa.fine.{p}" for p in ("train", "dev", "test")], SST, (8_544, 1_101, 2_210), {}),
    "ag_news": (("ag_news/test.csv", None, None), {"text": [1, 2], "label": 0}, (7_600, None, None), {}),
    "sms_spam": (
        ("sms_spam/SMSSpamCollection", None, None),
        {**POSITIONS, "format": "tsv"},
        (5_574, None, None),
        {"train_rows_duplicate": 403 + 11},  # published: repeated lines; and those that differ in spaces at the end
    ),
    "scan": (
        ("scan/tasks_train_addprim_jump.txt.gz", None, "scan/tasks_test_addprim_jump.txt"),
        {**PAIR, "pattern": SCAN},
        (14_670, None, 7_706),
        {"train_rows_duplicate": 14_670 - 13_204, "test_rows_in_train": 0},
    ),
    "scitldr": (
        ("scitldr/train.jsonl.gz", "scitldr/dev.jsonl", "scitldr/test.jsonl"),
        {**PAIR, "id": "paper_id"},
        (1_992, 619, 618),
        {"test_rows_with_more_targets": 618},
    ),
    "rotten_tomatoes": (
        (["rotten_tomatoes/rt-polarity.neg", "rotten_tomatoes/rt-polarity.pos"], None, None),
        {"text": 0, "label": "@suffix", "format": "lines", "encoding": "latin-1"},
        (10_662, None, None),
        {},
    ),
}
CLASSES = {
    "trec": {"ENTY": 1250, "HUM": 1223, "DESC": 1162, "NUM": 896, "LOC": 835, "ABBR": 86},
    "ag_news": dict.fromkeys("1234", 1900),
    "sms_spam": {"ham": 4827, "spam": 747},
    "rotten_tomatoes": {"pos": 5331, "neg": 5331},
}


def read(name: str, **options) -> Corpus:
    return create("data", check_choice("data", {"name": name, **options}, "data"), {}).read()


def below(*files: str) -> list[str]:
    """Paths below the folder of test data; skips the test where one is missing."""
    paths = [FOLDER / file for file in files]
    if not all(path.is_file() for path in paths):
        pytest.skip(f"no {files[0]} below TFEXP_TEST_DATA")
    return [str(path) for path in paths]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sets_have_their_published_sizes(name):
    files, options, sizes, more = PUBLISHED[name]
    listed = [[names] if isinstance(names, str) else names for names in files]
    train, val, test = (None if names is None else below(*names) for names in listed)
    corpus = read("table_files", train=train, val=val, test=test, **options)
    found = tuple(corpus.report.get(f"{part}_rows_read") for part in ("train", "val", "test"))
    assert found == sizes
    assert corpus.report.items() >= more.items()
    assert not any(corpus.report.get(f"{part}_rows_empty") for part in ("train", "val", "test"))
    if name in CLASSES:
        assert Counter(row.labels[0] for row in corpus.train + corpus.val) == CLASSES[name]
    if name == "scan":  # the one primitive that is repeated must train
        assert sum(row == Pair("jump", "I_JUMP") for row in corpus.train) == 1_467


def test_multi30k_has_its_published_sizes():
    parts = {"train": ("train.en", "train.de.gz"), "val": ("val.en", "val.de")}
    parts["test"] = ("test_2016_flickr.en", "test_2016_flickr.de")
    paths = {part: below(*(f"multi30k/{file}" for file in files)) for part, files in parts.items()}
    corpus = read("parallel_files", **paths)
    assert [len(rows) for rows in corpus.parts().values()] == [29_000, 1_014, 1_000]
    assert corpus.report["train_rows_empty"] == 0
    assert corpus.train[0] == Pair(
        "Two young, White males are outside near many bushes.",
        "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    )


def test_wikitext2_has_its_published_number_of_tokens():
    train, val = below("wikitext2/train.txt.gz", "wikitext2/valid.txt")
    corpus = read("text_files", train=train, val=val)
    n_tokens = {name: len(text.split()) + text.count("\n") for name, (text, *_) in list(corpus.parts().items())[:2]}
    assert n_tokens == {"train": 2_088_628, "val": 217_646}  # with one <eos> per line
    lines = read("text_files", train=train, val=val, unit="line")
    assert lines.report["lines_empty"] + len(lines.train) == 36_718
