import gzip
from pathlib import Path

import pytest

from tests.runs import python_process
from tfexp.data.corpus import Corpus, Pair, in_fraction
from tfexp.data.source.parallel_files import ParallelFiles
from tfexp.errors import ConfigError, DataError
from tfexp.registry import check_choice, create

PAIRS = (
    Pair("one cat sits", "eine Katze sitzt"),
    Pair("two dogs run", "zwei Hunde laufen"),
    Pair("three birds sing", "drei Vögel singen"),
    Pair("four fish swim", "vier Fische schwimmen"),
    Pair("five goats eat", "fünf Ziegen fressen"),
    Pair("six cows sleep", "sechs Kühe schlafen"),
)
SOURCES, TARGETS = ([*side] for side in zip(*PAIRS, strict=True))
PATHS = {
    "one": (["a"], "data.train: expected [source file, target file], got 1 paths"),
    "three": (["a", "b", "c"], "data.train: expected [source file, target file], got 3 paths"),
    "none": ([], "data.train: expected [source file, target file], got 0 paths"),
}
VARIANTS = {  # how both files are written; whether the corpus stays the same
    "same": (lambda text: text.encode(), True),
    "windows": (lambda text: text.replace("\n", "\r\n").encode(), True),
    "byte_order_mark": (lambda text: b"\xef\xbb\xbf" + text.encode(), True),
    "gzip": (lambda text: gzip.compress(text.encode()), True),
    "spaces_at_ends": (lambda text: text.replace("\n", " \n").encode(), True),
    "no_last_newline": (lambda text: text[:-1].encode(), True),
    "line_separator": (lambda text: text.replace(" ", "\u2028", 1).encode(), False),
    "other_order": (lambda text: "".join(sorted(text.splitlines(keepends=True))).encode(), False),
}


def write(path: Path, lines: list[str] | bytes) -> str:
    path.write_bytes(lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode())
    return str(path)


def clean(folder: Path) -> list[str]:
    return [write(folder / "clean.en", SOURCES), write(folder / "clean.de", TARGETS)]


def read(train: list[str], **options) -> Corpus:
    return create(
        "data", check_choice("data", {"name": "parallel_files", "train": train, **options}, "data"), {}
    ).read()


def test_line_i_belongs_to_line_i(tmp_path):
    paths = clean(tmp_path)
    corpus = read(paths, val=paths, test=paths)
    assert corpus.train == corpus.val == corpus.test == PAIRS
    assert ParallelFiles(train=paths).kind == corpus.kind == "pairs"
    counts = {f"{part}_rows_{n}": k for part in corpus.parts() for n, k in (("read", 6), ("kept", 6), ("empty", 0))}
    assert corpus.report == {**counts, "train_rows_duplicate": 0, "val_rows_in_train": 6, "test_rows_in_train": 6}


@pytest.mark.parametrize(("paths", "message"), PATHS.values(), ids=PATHS)
def test_a_part_is_two_files(paths, message):
    with pytest.raises(ConfigError) as error:
        ParallelFiles(train=paths)
    assert str(error.value) == message
    for part in ("val", "test"):
        with pytest.raises(ConfigError, match=rf"^data\.{part}: expected \[source file, target file\]"):
            ParallelFiles(train=["a", "b"], **{part: paths})


def test_a_pattern_must_name_one_file(tmp_path):
    paths = clean(tmp_path)
    assert read([f"{tmp_path}/*.en", paths[1]], val=paths).train == PAIRS
    with pytest.raises(
        DataError, match=r"^data\.val: .*clean\.\* names 2 files; name one, since lines of two files are"
    ):
        read(paths, val=[f"{tmp_path}/clean.*", paths[1]])
    with pytest.raises(DataError, match=r"^data\.test: there is no file none\.de "):
        read(paths, val=paths, test=[paths[0], "none.de"])


def test_h24_pairs_with_an_empty_side_are_dropped_together(tmp_path):
    source = write(tmp_path / "a.en", [*SOURCES[:1], "", *SOURCES[2:4], " ", *SOURCES[5:]])
    target = write(tmp_path / "a.de", [*TARGETS[:3], "\u3000", "", *TARGETS[5:]])
    corpus = read([source, target], val=[source, target])
    assert corpus.train == (PAIRS[0], PAIRS[2], PAIRS[5])
    assert {k: v for k, v in corpus.report.items() if k.startswith("train")} == {
        **{"train_rows_read": 6, "train_rows_kept": 3, "train_rows_empty": 3},
        "train_rows_duplicate": 0,
    }
    # Of what is evaluated nothing is dropped, so that output i belongs to line i.
    assert len(corpus.val) == 6
    assert corpus.val[1] == Pair("", TARGETS[1])


def test_h24_nothing_but_empty_sides_is_refused(tmp_path):
    source, target = write(tmp_path / "a.en", ["", "x"]), write(tmp_path / "a.de", ["y", ""])
    with pytest.raises(DataError, match=r"^data\.train: none of 2 rows holds an example$"):
        read([source, target])


def test_h26_a_byte_that_is_not_utf8_is_named_with_file_and_line(tmp_path):
    source = write(tmp_path / "a.en", b"plain\nplain\nun caf\xe9 noir\nplain\n")
    target = write(tmp_path / "a.de", TARGETS[:4])
    message = f"data.train: {source}, line 3: byte 0xe9 is not utf-8; convert the file or set data.encoding"
    for paths in ([source, target], [target, source]):
        with pytest.raises(DataError) as error:
            read(paths)
        assert str(error.value) == message
    assert read([source, source], val=[source, source], encoding="latin-1").train[2].source == "un café noir"


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_h27_unequal_numbers_of_lines_are_refused_with_both(tmp_path, part):
    good = clean(tmp_path)
    short = [good[0], write(tmp_path / "short.de", TARGETS[:2] + TARGETS[3:])]
    with pytest.raises(DataError) as error:
        read(**{"train": good, "val": good, part: short})
    assert str(error.value) == (
        f"data.{part}: {short[0]} has 6 lines, {short[1]} has 5; line i of one must belong to line i of the other"
    )


def test_h28_windows_line_ends_on_one_side_change_nothing(tmp_path):
    good = clean(tmp_path)
    windows = write(tmp_path / "windows.en", "\r\n".join([*SOURCES, ""]).encode())
    corpus = read([windows, good[1]], val=good)
    assert corpus == read(good, val=good)
    assert not any("\r" in text for pair in corpus.train for text in pair)


@pytest.mark.parametrize(("encode", "same"), VARIANTS.values(), ids=VARIANTS)
def test_how_the_files_are_written_changes_nothing(tmp_path, encode, same):
    good = clean(tmp_path)
    texts = ["".join(f"{line}\n" for line in side) for side in (SOURCES, TARGETS)]
    paths = [write(tmp_path / f"variant.{i}", encode(text)) for i, text in enumerate(texts)]
    assert (read(paths).fingerprint() == read(good).fingerprint()) == same


def test_separators_that_python_knows_end_no_line(tmp_path):
    strange = ["a\u2028b", "c\u2029d", "e\x85f", "g\x0bh\x0ci", "j\x1ck\x1dl\x1em"]
    paths = [write(tmp_path / "a.en", strange), write(tmp_path / "a.de", strange)]
    assert read(paths, val=paths).train == tuple(Pair(line, line) for line in strange)


def test_pairs_validate_by_their_hash(tmp_path):
    pairs = [(f"source {i % 80}", f"target {i % 80}") for i in range(160)]
    sides = [[*side] for side in zip(*pairs, strict=True)]
    corpus = read([write(tmp_path / "a", sides[0]), write(tmp_path / "b", sides[1])], val_fraction=0.3)
    assert corpus.val == tuple(Pair(*pair) for pair in pairs if in_fraction("\n".join(pair), 0.3))
    assert not set(corpus.train) & set(corpus.val)
    assert (corpus.report["val_rows_split_off"], corpus.report["train_rows_duplicate"]) == (len(corpus.val), 80)


def test_every_process_reads_the_same(tmp_path):
    paths = clean(tmp_path)
    code = (
        f"from tfexp.data.source.parallel_files import ParallelFiles as P; print(P(train={paths}).read().fingerprint())"
    )
    assert {python_process(code, PYTHONHASHSEED=s) for s in ("0", "12345")} == {read(paths).fingerprint()}
