import gzip
from pathlib import Path

import pytest

from tests.runs import python_process
from tfexp.data.corpus import Corpus, Labelled, Pair, in_fraction
from tfexp.data.source.table_files import TableFiles
from tfexp.registry import check_choice, create

TEXT_LABEL = {"text": "text", "label": "label"}
POSITIONS = {"text": 1, "label": 0}
PAIR = {"source": "source", "target": "target"}
FILMS = (Labelled("good film", ("pos",)), Labelled("bad film", ("neg",)))
SCAN = "IN: (?P<source>.+) OUT: (?P<target>.+)"
TREC = r"(?P<coarse>\w+):(?P<fine>\S+) (?P<text>.+)"
READ = {
    "tsv_header": ("a.tsv", "label\ttext\npos\tgood film\nneg\tbad film\n", TEXT_LABEL, FILMS),
    "tsv_positions": ("a.tsv", "pos\tgood film\nneg\tbad film", POSITIONS, FILMS),
    "tsv_has_no_quoting": ("a.tsv", 'pos\t"good" "film\n', POSITIONS, (Labelled('"good" "film', ("pos",)),)),
    "csv_header": ("a.csv", "text,id,label\ngood film,1,pos\nbad film,2,neg\n", TEXT_LABEL, FILMS),
    "csv_quoted": (
        "a.csv",
        'pos,"good, ""very"" good\nfilm"\r\nneg,bad film\r\n',
        POSITIONS,
        (Labelled('good, "very" good\nfilm', ("pos",)), FILMS[1]),
    ),
    "csv_title_and_text": (
        "a.csv",
        '"3","A title","A text."\n',
        {"text": [1, 2], "label": 0},
        (Labelled("A title A text.", ("3",)),),
    ),
    "csv_long_cell": ("a.csv", f"pos,{'x' * 200_000}\n", POSITIONS, (Labelled("x" * 200_000, ("pos",)),)),
    "jsonl": (
        "a.jsonl",
        '{"label": "pos", "text": "good film"}\n\n{"text": "bad film", "label": "neg", "more": 1}',
        TEXT_LABEL,
        FILMS,
    ),
    "jsonl_values": (
        "a.ndjson",
        '{"text": ["a", "b"], "label": 1}\n{"text": "2.5", "label": true}\n{"text": "c", "label": ["x", "y", "x"]}\n'
        '{"text": "d", "label": []}\n{"text": "e", "more": NaN, "label": 1.0}\n{"text": "f", "label": [-2.0, "1", 1]}',
        TEXT_LABEL,
        (
            *(Labelled("a b", ("1",)), Labelled("2.5", ("true",)), Labelled("c", ("x", "y")), Labelled("d", ())),
            *(Labelled("e", ("1",)), Labelled("f", ("-2", "1"))),  # a number has one name, however it is written
        ),
    ),
    "jsonl_nested": (
        "a.jsonl",
        '{"translation": {"de": "Hund", "en": "dog"}}',
        {"source": "translation.en", "target": "translation.de"},
        (Pair("dog", "Hund"),),
    ),
    "jsonl_dot_in_key": ("a.jsonl", '{"a.b": "text"}', {"text": "a.b"}, ("text",)),
    "jsonl_summaries": (
        "a.jsonl",
        '{"source": ["One.", "Two."], "target": ["first", "second"]}\n{"source": ["Three."], "target": ["only"]}',
        PAIR,
        (Pair("One. Two.", "first"), Pair("Three.", "only")),
    ),
    "several_labels": (
        "a.tsv",
        "a, b,a\tgood film\n\tbad film\n",
        {**POSITIONS, "label_separator": ","},
        (Labelled("good film", ("a", "b")), Labelled("bad film", ())),
    ),
    "pattern": (
        "a.any",
        "1 good film\n0 bad  film \n",
        {**TEXT_LABEL, "pattern": r"(?P<label>\d) (?P<text>.+)"},
        (Labelled("good film", ("1",)), Labelled("bad  film", ("0",))),
    ),
    "pattern_optional_group": (
        "a.txt",
        "x y\nz\n",
        {"text": ["a", "b"], "pattern": "(?P<a>x )?(?P<b>.+)"},
        ("x  y", "z"),
    ),
    "pattern_pairs": ("a", "IN: jump OUT: I_JUMP\n", {**PAIR, "pattern": SCAN}, (Pair("jump", "I_JUMP"),)),
    "fine_labels": (
        "a.txt",
        "DESC:manner How ?\n",
        {"text": "text", "label": ["coarse", "fine"], "pattern": TREC},
        (Labelled("How ?", ("DESC manner",)),),
    ),
    "lines": ("a.txt", "  one\n\ntwo \n", {"text": 0}, ("  one", "two ")),
    "lines_of_other_suffix": ("a.log", "one\n", {"text": 0, "format": "lines"}, ("one",)),
    "class_in_suffix": ("rt.pos", "good film\n", {"text": 0, "label": "@suffix", "format": "lines"}, FILMS[:1]),
    "class_in_name": ("pos.txt", "a\n", {"text": 0, "label": "@file"}, (Labelled("a", ("pos.txt",)),)),
    "class_in_folder": ("pos/1.txt", "good film\n", {"text": 0, "label": "@folder"}, FILMS[:1]),
    "lower_case": ("a.tsv", "POS\tGOOD Film\n", {**POSITIONS, "lowercase": True}, (Labelled("good film", ("POS",)),)),
    "line_separators": ("a.tsv", "pos\ta\u2028b\x85c\n", POSITIONS, (Labelled("a\u2028b\x85c", ("pos",)),)),
    "byte_order_mark": ("a.tsv", "\ufefflabel\ttext\npos\tgood film\n", TEXT_LABEL, FILMS[:1]),
    "old_macs": ("a.tsv", "label\ttext\rpos\tgood film\rneg\tbad film\r", TEXT_LABEL, FILMS),
    "old_macs_csv": ("a.csv", 'pos,"good film"\rneg,bad film\r', POSITIONS, FILMS),
    "old_macs_jsonl": ("a.jsonl", '{"text": "x"}\r{"text": "y"}\r', {"text": "text"}, ("x", "y")),
    "carriage_return_in_a_line": ("a.tsv", "pos\ta\rb\n", POSITIONS, (Labelled("a\rb", ("pos",)),)),
    "separators_before_the_header": ("a.csv", ",\nlabel,text\npos,good film\n", TEXT_LABEL, FILMS[:1]),
    "windows": ("a.tsv", "label\ttext\r\npos\tgood film\r\nneg\tbad film\r\n", TEXT_LABEL, FILMS),
}
NOTHING = {  # three rows, of which the second has neither source nor target
    "tsv": ("a.tsv", "a\tb\n\t\nc\td\n", {"source": 0, "target": 1}),
    "tsv_header": ("a.tsv", "source\ttarget\na\tb\n\t\nc\td\n", PAIR),
    "csv": ("a.csv", "a,b\n,\nc,d\n", {"source": 0, "target": 1}),
    "csv_quoted": ("a.csv", 'a,b\n"",""\nc,d\n', {"source": 0, "target": 1}),
    "csv_first": ("a.csv", "source,target\na,b\n , \nc,d\n", PAIR),
    "jsonl": (
        "a.jsonl",
        '{"source": "a", "target": "b"}\n{"source": null, "target": []}\n{"source": "c", "target": "d"}',
        PAIR,
    ),
}
FIVE = "pos\ta\nneg\tb\npos\tc\nneg\td\npos\te\n"
PRINT = """
from tfexp.data.source.table_files import TableFiles
print(TableFiles(train={!r}, text=1, label=0).read().fingerprint())
"""


def write(path: Path, content: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def read(**options) -> Corpus:
    return create("data", check_choice("data", {"name": "table_files", **options}, "data"), {}).read()


@pytest.mark.parametrize(("name", "content", "options", "rows"), READ.values(), ids=READ)
def test_what_a_file_holds(tmp_path, name, content, options, rows):
    path = write(tmp_path / name, content)
    corpus = read(train=path, val=path, **options)
    assert corpus.train == rows
    assert TableFiles(train=path, **options).kind == corpus.kind


@pytest.mark.parametrize(("name", "content", "options", "rows"), READ.values(), ids=READ)
def test_a_gzipped_file_is_the_same(tmp_path, name, content, options, rows):
    packed = write(tmp_path / f"{name}.gz", gzip.compress(content.encode()))
    assert read(train=packed, val=packed, **options).train == rows


def test_kinds_are_known_before_anything_is_read():
    kinds = [TableFiles(train="none.tsv", **roles).kind for roles in ({"text": 0}, POSITIONS, PAIR)]
    assert kinds == ["documents", "labelled", "pairs"]


def test_rows_without_text_do_not_train_but_are_evaluated(tmp_path):
    path = write(tmp_path / "a.tsv", "pos\tgood film\nneg\t \n\nneg\tbad film\npos\tgood film\n")
    corpus = read(train=path, val=path, **POSITIONS)
    assert corpus.train == (*FILMS, FILMS[0])
    assert corpus.val == (FILMS[0], Labelled("", ("neg",)), FILMS[1], FILMS[0])
    assert corpus.report == {
        **{"train_rows_read": 5, "train_rows_kept": 3, "train_rows_empty": 2, "train_rows_duplicate": 1},
        **{"val_rows_read": 5, "val_rows_kept": 4, "val_rows_empty": 2, "val_rows_in_train": 3},
    }


def test_pairs_lose_both_sides_and_documents_are_dropped_everywhere(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"a": "x", "b": null}\n{"a": " ", "b": "y"}\n{"a": "z", "b": "w"}')
    assert read(train=path, val=path, source="a", target="b").train == (Pair("z", "w"),)
    corpus = read(train=path, val=path, text="a")
    assert corpus.train == corpus.val == ("x", "z")


@pytest.mark.parametrize(("name", "content", "options"), NOTHING.values(), ids=NOTHING)
def test_a_row_of_nothing_stays_where_predictions_are_counted(tmp_path, name, content, options):
    path = write(tmp_path / name, content)
    corpus = read(train=path, val=path, test=path, **options)
    assert corpus.train == (Pair("a", "b"), Pair("c", "d"))
    assert corpus.val == corpus.test == (Pair("a", "b"), Pair("", ""), Pair("c", "d"))
    counts = {part: [corpus.report[f"{part}_rows_{n}"] for n in ("read", "kept", "empty")] for part in ("train", "val")}
    assert counts == {"train": [3, 2, 1], "val": [3, 3, 1]}


def test_a_labelled_row_of_nothing_does_not_train(tmp_path):
    path = write(tmp_path / "a.csv", "label,text\npos,good film\n,\nneg,bad film\n,\n")
    corpus = read(train=path, val=write(tmp_path / "b.csv", "label,text\npos,x\n"), **TEXT_LABEL)
    assert corpus.train == FILMS
    assert (corpus.report["train_rows_read"], corpus.report["train_rows_empty"]) == (4, 2)


def test_rows_validate_by_the_hash_of_their_text(tmp_path):
    texts = [f"text {i % 50}" for i in range(100)]
    path = write(tmp_path / "a.tsv", "".join(f"{i % 2}\t{text}\n" for i, text in enumerate(texts)))
    corpus = read(train=path, val_fraction=0.3, **POSITIONS)
    assert [row.text for row in corpus.val] == [text for text in texts if in_fraction(text, 0.3)]
    assert not {row.text for row in corpus.train} & {row.text for row in corpus.val}
    assert corpus.report["val_rows_split_off"] == len(corpus.val)
    assert corpus.report["train_rows_duplicate"] == 50


def test_a_label_that_would_be_missing_in_training_goes_back_there(tmp_path):
    held = [f"t{i}" for i in range(200) if in_fraction(f"t{i}", 0.1)][:2]
    rest = [f"t{i}" for i in range(200) if not in_fraction(f"t{i}", 0.1)][:3]
    labels = {held[0]: "rare", held[1]: "often", **dict.fromkeys(rest, "often")}
    corpus = read(train=write(tmp_path / "a.tsv", "".join(f"{v}\t{k}\n" for k, v in labels.items())), **POSITIONS)
    assert corpus.val == (Labelled(held[1], ("often",)),)
    assert corpus.train[-1] == Labelled(held[0], ("rare",))


def test_all_rows_of_a_text_go_back_together(tmp_path):
    held = [f"t{i}" for i in range(200) if in_fraction(f"t{i}", 0.1)][:2]
    rest = [f"t{i}" for i in range(200) if not in_fraction(f"t{i}", 0.1)][:3]
    rows = [("often", held[0]), ("rare", held[0]), *(("often", text) for text in rest), ("often", held[1])]
    corpus = read(train=write(tmp_path / "a.tsv", "".join(f"{v}\t{k}\n" for v, k in rows)), **POSITIONS)
    assert corpus.val == (Labelled(held[1], ("often",)),)
    assert corpus.train[-2:] == (Labelled(held[0], ("often",)), Labelled(held[0], ("rare",)))
    assert not {row.text for row in corpus.train} & {row.text for row in corpus.val}


def test_where_files_lie_and_how_their_lines_end_changes_nothing(tmp_path):
    variants = {
        "same": ("a.tsv", FIVE.encode(), True),
        "elsewhere": ("sub/b.tsv", FIVE.encode(), True),
        "gzip": ("a.tsv.gz", gzip.compress(FIVE.encode()), True),
        "windows": ("c.tsv", FIVE.replace("\n", "\r\n").encode(), True),
        "mark": ("d.tsv", b"\xef\xbb\xbf" + FIVE.encode(), True),
        "no_last_newline": ("e.tsv", FIVE.encode()[:-1], True),
        "other_order": ("f.tsv", "".join(sorted(FIVE.splitlines(keepends=True))).encode(), False),
        "other_letter": ("g.tsv", FIVE.replace("e\n", "f\n").encode(), False),
    }
    first = read(train=write(tmp_path / "first.tsv", FIVE), **POSITIONS).fingerprint()
    for name, content, same in variants.values():
        assert (read(train=write(tmp_path / name, content), **POSITIONS).fingerprint() == first) == same


def test_every_process_reads_the_same(tmp_path):
    path = write(tmp_path / "a.tsv", "".join(f"{i % 3}\ttext {i}\n" for i in range(100)))
    printed = {python_process(PRINT.format(path), PYTHONHASHSEED=seed) for seed in ("0", "12345")}
    assert printed == {read(train=path, **POSITIONS).fingerprint()}


def test_the_limit_of_pythons_csv_reader_is_put_back(tmp_path):
    import csv

    before = csv.field_size_limit()
    read(train=write(tmp_path / "a.csv", "pos,a\nneg,b\npos,c\nneg,d\npos,e\n"), val_fraction=0.5, **POSITIONS)
    assert csv.field_size_limit() == before
