"""What `table_files` refuses, and in which words."""

from pathlib import Path

import pytest

from tfexp.data.corpus import Corpus
from tfexp.data.source.table_files import TableFiles
from tfexp.errors import ConfigError, DataError
from tfexp.registry import check_choice, create

TEXT_LABEL = {"text": "text", "label": "label"}
POSITIONS = {"text": 1, "label": 0}
PAIR = {"source": "source", "target": "target"}
ROLES = {
    "none": ({}, "got none of them"),
    "label_alone": ({"label": "a"}, "got data.label"),
    "mixed": ({"text": "a", "source": "b"}, "got data.text and data.source"),
    "text_and_pair": ({"text": "a", **PAIR}, "got data.text and data.source and data.target"),
    "empty_list": ({"text": [], "label": "a"}, "got data.label"),
}
OPTIONS = {
    "negative": ({"text": -1}, r"data\.text: positions of columns count from 0, got -1"),
    "positions_and_names": (
        {"text": 0, "label": "label"},
        r"data\.text: 0 is a position in a table without header line, but data\.label names the column 'label'; "
        r"use positions or names for all",
    ),
    "separator": (
        {**TEXT_LABEL, "label_separator": ""},
        r"data\.label_separator: an empty text separates nothing; write null for one label a row",
    ),
    "pattern_with_tsv": (
        {"text": "t", "pattern": "(?P<t>.)", "format": "tsv"},
        r"data\.pattern: takes lines apart, but data\.format is tsv; set data\.format=lines",
    ),
    "pattern_broken": (
        {"text": "t", "pattern": "(?P<t>."},
        r"data\.pattern: no regular expression: .*; got '\(\?P<t>\.'",
    ),
    "pattern_without_group": (
        {"text": "text", "pattern": "(?P<test>.)"},
        r"data\.text: the pattern has no group 'text'; did you mean 'test'\?",
    ),
    "pattern_and_position": (
        {"text": 0, "pattern": "(?P<t>.)"},
        r"data\.text: the pattern has no group '0'; groups: t\.",
    ),
}
NO_TEXT = r"data\.train: {{path}}, line {}: data\.text: column 'a' holds {}, which is no text; write it as a string"
NO_NAME = (
    r"data\.train: {{path}}, line 1: data\.{0}: column '{0}' holds {1}, which names nothing; "
    "write a text or a whole number"
)
RETURN = "; a carriage return in it ends no line: use newlines"
REFUSED = {
    "header": (
        "a.tsv",
        "label\ttxt\npos\tx\n",
        TEXT_LABEL,
        r"data\.text: {path} has no column 'text'; did you mean "
        r"'txt'\? For a file without a header line give positions, counted from 0\.",
    ),
    "no_header": (
        "a.csv",
        "pos,good film\n",
        TEXT_LABEL,
        r"data\.text: {path} has no column 'text'; columns: @file, "
        r"@folder, @suffix, good film, pos\. For a file without a header line give positions, .*",
    ),
    "position": (
        "a.tsv",
        "pos\tx\n",
        {"text": 2, "label": 0},
        r"data\.text: {path} has no column '2'; columns: 0, 1, @.*",
    ),
    "id_column": ("a.tsv", "text\nx\n", {"text": "text", "id": "key"}, r"data\.id: {path} has no column 'key'; .*"),
    "header_twice": (
        "a.csv",
        "a,b,a\n1,2,3\n",
        {"text": "a"},
        r"data\.train: {path}, line 1: the header line has the "
        "column 'a' twice",
    ),
    "columns": (
        "a.tsv",
        "pos\tx\n\nneg\tx\ty\n",
        POSITIONS,
        r"data\.train: {path}, line 3: 3 columns, but line 1 has 2; "
        "give each row the same number, or choose another data.format",
    ),
    "csv_columns": (
        "a.csv",
        'a,b\n"1\n1",2\n3\n',
        {"text": "a"},
        r"data\.train: {path}, line 4: 1 columns, but line 1 .*",
    ),
    "csv_quote": (
        "a.csv",
        'x\n"a\nb\n',
        {"text": 0},
        r"data\.train: {path}: the row that starts in line 2 is no CSV: .*",
    ),
    "json": (
        "a.jsonl",
        '{"text": "x"}\n{text}\n',
        {"text": "text"},
        r"data\.train: {path}, line 2: not JSON: Expecting .*",
    ),
    "json_list": (
        "a.jsonl",
        '["x"]\n',
        {"text": "text"},
        r"data\.train: {path}, line 1: expected an object .*, got \[\"x\"\]",
    ),
    "json_key": (
        "a.jsonl",
        '{"a": {"b": "x", "c": 1}}',
        {"text": "a.d"},
        r"data\.text: {path}, line 1 has no column 'a.d'; "
        r"did you mean 'a\.[bc]'\?",
    ),
    "json_number": ("a.jsonl", '{"a": "x"}\n{"a": 2.5}', {"text": "a"}, NO_TEXT.format(2, "2\\.5")),
    "json_nan": ("a.jsonl", '{"a": NaN}', {"text": "a"}, NO_TEXT.format(1, "NaN")),
    "json_infinity": ("a.jsonl", '{"a": -Infinity}', {"text": "a"}, NO_TEXT.format(1, "-Infinity")),
    "json_too_large": ("a.jsonl", '{"a": 1e999}', {"text": "a"}, NO_TEXT.format(1, "Infinity")),
    "json_true": ("a.jsonl", '{"a": true}', {"text": "a"}, NO_TEXT.format(1, "true")),
    "json_number_in_a_list": ("a.jsonl", '{"a": ["x", 1]}', {"text": "a"}, NO_TEXT.format(1, "1")),
    "json_number_for_a_target": (
        "a.jsonl",
        '{"source": "x", "target": 3}',
        PAIR,
        NO_TEXT.replace("data\\.text: column 'a'", "data\\.target: column 'target'").format(1, "3"),
    ),
    "label_nan": ("a.jsonl", '{"text": "x", "label": NaN}', TEXT_LABEL, NO_NAME.format("label", "NaN")),
    "label_infinity": ("a.jsonl", '{"text": "x", "label": [1e999]}', TEXT_LABEL, NO_NAME.format("label", "Infinity")),
    "label_fraction": ("a.jsonl", '{"text": "x", "label": 0.5}', TEXT_LABEL, NO_NAME.format("label", "0\\.5")),
    "id_nan": ("a.jsonl", '{"text": "x", "id": NaN}', {"text": "text", "id": "id"}, NO_NAME.format("id", "NaN")),
    "label_null": (
        "a.jsonl",
        '{"text": "x", "label": null}',
        TEXT_LABEL,
        r"data\.train: {path}, line 1: the label is .*",
    ),
    "return_in_a_row": (
        "a.tsv",
        "pos\tx\nneg\ty\rpos\tz\n",
        POSITIONS,
        rf"data\.train: {{path}}, line 2: 3 columns, but line 1 has 2; .*data\.format{RETURN}",
    ),
    "return_in_json": (
        "a.jsonl",
        '{"text": "x"}\n{"text": "y"}\r{"text": "z"}\n',
        {"text": "text"},
        rf"data\.train: {{path}}, line 2: not JSON: Extra data: .*{RETURN}",
    ),
    "return_in_a_line": (
        "a.txt",
        "x\ny\rz\n",
        {"text": "t", "pattern": "(?P<t>.)"},
        rf"data\.train: {{path}}, line 2: does not fit data\.pattern as a whole: 'y\\rz'{RETURN}",
    ),
    "json_object": (
        "a.jsonl",
        '{"a": {"b": 1}}',
        {"text": "a"},
        r"data\.train: {path}, line 1: data\.text: column 'a' holds "
        "a dict, which is no text",
    ),
    "surrogate": (
        "a.jsonl",
        r'{"a": "\ud83d"}',
        {"text": "a"},
        r"data\.train: {path}, line 1: column 'a' holds half of a "
        "surrogate pair, which is no text",
    ),
    "pattern": (
        "a.txt",
        "1 x\n\n12 x\n",
        {"text": "t", "pattern": "(?P<t>. .)"},
        r"data\.train: {path}, line 3: does not fit "
        "data.pattern as a whole: '12 x'",
    ),
    "empty_label": ("a.tsv", "pos\tx\n \ty\n", POSITIONS, r"data\.train: {path}, line 2: the label is empty"),
    "suffix": (
        "a.dat",
        "x\n",
        {"text": 0},
        r"data\.format: the name of {path} does not tell its format; choose one of "
        "tsv, csv, jsonl, lines",
    ),
    "only_header": ("a.tsv", "text\n", {"text": "text"}, r"data\.train: none of 0 rows holds an example"),
    "only_empty": ("a.tsv", "text\tlabel\n\ta\n", TEXT_LABEL, r"data\.train: none of 1 rows holds an example"),
}


def write(path: Path, content: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def read(**options) -> Corpus:
    return create("data", check_choice("data", {"name": "table_files", **options}, "data"), {}).read()


@pytest.mark.parametrize(("roles", "got"), ROLES.values(), ids=ROLES)
def test_roles_that_make_no_example_are_refused(roles, got):
    with pytest.raises(ConfigError) as error:
        TableFiles(train="a.tsv", **roles)
    assert str(error.value) == (
        "data.text: name the columns of text and label (labelled texts), of source and target (pairs), "
        f"or of text alone (documents); {got}"
    )


@pytest.mark.parametrize(("options", "message"), OPTIONS.values(), ids=OPTIONS)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        TableFiles(train="a.tsv", **options)


@pytest.mark.parametrize(("name", "content", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_with_its_place(tmp_path, name, content, options, message):
    path = write(tmp_path / name, content)
    with pytest.raises(DataError, match=f"^{message.replace('{path}', path)}$"):
        read(train=path, **options)


@pytest.mark.parametrize("content", ["pos\ta\n", "pos\ta\npos\ta\n", "pos\ta\nneg\tb\n"])
def test_too_few_rows_to_split_are_refused(tmp_path, content):
    with pytest.raises(DataError, match=r"^data\.train: \d rows are too few to split off some .*; set data\.val$"):
        read(train=write(tmp_path / "a.tsv", content), **POSITIONS)


def test_an_evaluation_part_without_rows_is_refused(tmp_path):
    train, val = write(tmp_path / "a.tsv", "label\ttext\nx\ty\n"), write(tmp_path / "b.tsv", "label\ttext\n")
    with pytest.raises(DataError, match=r"^data\.val: none of 0 rows holds an example$"):
        read(train=train, val=val, **TEXT_LABEL)


def test_case_cls_label_unseen(tmp_path):
    train = write(tmp_path / "train.tsv", "pos\tgood film\nneg\tbad film\npos\tgreat film\nneg\tawful film\n")
    valid = write(tmp_path / "valid.tsv", "pos\tgood play\nneutral\tplain play\nneg\tbad play\n")
    for part in ("val", "test"):
        with pytest.raises(DataError) as error:
            read(train=train, **{"val": train, part: valid}, **POSITIONS)
        assert str(error.value) == (
            f"data.{part}: {valid}, line 2: the label 'neutral' is not in the training part; labels there: neg, pos."
        )


def test_case_cls_dup_ids(tmp_path):
    rows = ['{"id": "a1", "text": "good"}\n', '{"id": "a1", "text": "bad"}\n', '{"id": "a2", "text": "fine"}\n']
    path = write(tmp_path / "a.jsonl", "".join(rows))
    with pytest.raises(DataError) as error:
        read(train=path, text="text", id="id")
    assert str(error.value) == f"data.train: {path}, line 2: the id 'a1' is that of {path}, line 1 too; ids must differ"
    assert len(read(train=path, val=path, text="text").train) == 3  # without `id` there is nothing to refuse


@pytest.mark.parametrize("second", ["1", "1.0", '"1"'])
@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_ids_differ_between_files_and_parts(tmp_path, part, second):
    names = {"a": "1", "b": second, "c": "3"}
    a, b, c = (write(tmp_path / f"{n}.jsonl", f'{{"id": {i}, "text": "{n}"}}') for n, i in names.items())
    parts = {"train": [a], "val": [c]}
    parts = {**parts, part: [*parts.get(part, []), b]}
    with pytest.raises(DataError) as error:
        read(**parts, text="text", id="id")
    assert str(error.value) == f"data.{part}: {b}, line 1: the id '1' is that of {a}, line 1 too; ids must differ"
    assert read(**parts, text="text").train  # without `id` there is nothing to refuse


def test_a_row_of_nothing_has_no_label_to_be_held_against(tmp_path):
    train, val = write(tmp_path / "a.tsv", "pos\tx\n"), write(tmp_path / "b.tsv", "pos\ty\n\t\n")
    with pytest.raises(DataError) as error:
        read(train=train, val=val, **POSITIONS)
    assert str(error.value) == f"data.val: {val}, line 2: the label is empty"
