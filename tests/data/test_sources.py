import gzip
import sysconfig
from pathlib import Path

import pytest

from tests.runs import python_process
from tfexp.data.corpus import Corpus, Labelled, Pair, Tagged, in_fraction, split_by_name, split_tail
from tfexp.data.source.python_stdlib import PythonStdlib
from tfexp.data.source.text_files import TextFiles
from tfexp.errors import DataError

LATIN1 = b"one two three\nfour five six\ncaf\xe9 au lait\nseven eight\n"  # byte E9 in line 3
REFUSED = {
    "missing": (b"", "none.txt", "data.train: there is no file {folder}/none.txt (looked from {cwd})"),
    "no_match": (b"x", "*.text", "data.train: there is no file {folder}/*.text (looked from {cwd})"),
    "folder": (b"x", "", "data.train: {folder}/ is a folder; name files, such as {folder}/*.txt"),
    "empty": (b"", "text.txt", "data.train: {folder}/text.txt is empty"),
    "blank": (b" \n\n\t", "text.txt", "data.train: {folder}/text.txt is empty"),
    "latin1": (
        LATIN1,
        "text.txt",
        "data.train: {folder}/text.txt, line 3: byte 0xe9 is not utf-8; convert the file or set data.encoding",
    ),
    "binary": (b"\x80\x00", "text.txt", "data.train: {folder}/text.txt, line 1: byte 0x80 is not utf-8; convert"),
    "only_a_mark": (b"\xef\xbb\xbf", "text.txt", "data.train: {folder}/text.txt is empty"),
    "no_gzip": (
        b"text",
        "text.txt.gz",
        "data.train: {folder}/text.txt.gz is no gzip file, or a damaged one: Not a gzipped file (b'te')",
    ),
    "cut_gzip": (
        gzip.compress(b"text " * 99)[:-9],
        "text.txt",
        "data.train: {folder}/text.txt is no gzip file, or a damaged one: Compressed file ended before",
    ),
    "damaged_gzip": (
        gzip.compress(b"text " * 99)[:-8] + b"\0" * 8,
        "text.txt",
        "data.train: {folder}/text.txt is no gzip file, or a damaged one: CRC check failed",
    ),
    "mangled_gzip": (
        gzip.compress(b"text " * 99)[:10] + b"\xff" * 20,
        "text.txt",
        "data.train: {folder}/text.txt is no gzip file, or a damaged one: Error -3 while decompressing data",
    ),
    "latin1_gzip": (
        gzip.compress(LATIN1),
        "text.txt",
        "data.train: {folder}/text.txt, line 3: byte 0xe9 is not utf-8;",
    ),
    "latin1_of_old_macs": (
        LATIN1.replace(b"\n", b"\r"),
        "text.txt",
        "data.train: {folder}/text.txt, line 3: byte 0xe9 is not utf-8;",
    ),
    "one_letter": (b"x", "text.txt", "data.train: nothing left to train on after splitting 1 files; set data.val"),
}
PAGE = " = Title = \n\nOne.\u2028Two.\nThree.\n \t\n\nFour.\n"
UNITS = {
    "file": ("file", (PAGE,)),
    "line": ("line", (" = Title = ", "One.\u2028Two.", "Three.", "Four.")),
    "paragraph": ("paragraph", (" = Title = ", "One.\u2028Two.\nThree.", "Four.")),
}
ONE = (Labelled("x", ("y",)),)
DIFFERENT = {  # (train, val) of corpora that a digest without delimiters would take for one
    "documents": [(("ab", "c"), ("d",)), (("a", "bc"), ("d",)), (("ab", "c", "d"), ("e",)), (("ab",), ("c", "d"))],
    "labels": [
        ((Labelled("a", ("b",)), Labelled("c", ("d", "e"))), ONE),
        ((Labelled("a", ("b", "c")), Labelled("d", ("e",))), ONE),
        ((Labelled("a", ()), Labelled("b", ("c", "d", "e"))), ONE),
    ],
    "kinds": [((kind,), (kind,)) for kind in (Pair("a", "b"), Tagged("a", "b"), Labelled("a", ("b",)))],
    "digits": [(("1:a", "b"), ("c",)), (("1", "a1:b"), ("c",)), (("1:a1:b", ""), ("c",))],
}
# Files, keys -> repeated training documents, and documents of validation and test that are trained on, too.
SHARED = {
    "a_file_of_the_pattern": ({"a": "x", "b": "y", "c": "z"}, {"train": "?", "val": "b"}, 0, 1, None),
    "a_copy": ({"a": "x", "b": "y", "c": "y"}, {"train": "[ab]", "val": "c", "test": "a"}, 0, 1, 1),
    "none": ({"a": "x", "b": "y", "c": "z"}, {"train": "a", "val": "b", "test": "c"}, 0, 0, 0),
    "lines_of_one_file": ({"a": "x\n" * 400}, {"train": "a", "unit": "line"}, 359, 40, None),
    "some_lines": ({"a": "x\ny\nz\n", "b": "y\nw\n"}, {"train": "a", "val": "b", "unit": "line"}, 0, 1, None),
    "paragraphs": ({"a": "x\ny\n\nz", "b": "x\ny\n"}, {"train": "a", "val": "b", "unit": "paragraph"}, 0, 1, None),
    "twins_in_two_parts": ({str(i): "same" for i in range(9)}, {"train": "?", "val_fraction": 0.5}, 5, 3, None),
}
STDLIB = "from tfexp.data.source.python_stdlib import PythonStdlib as P; print(P().read().fingerprint())"
FINGERPRINT = "from tfexp.data.source.text_files import TextFiles as T; print(T(train={!r}).read().fingerprint())"


def write(path: Path, content: bytes | str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def read(train, **options) -> Corpus:
    return TextFiles(train=train, **options).read()


@pytest.mark.parametrize(("content", "name", "message"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_cannot_be_used_is_named(tmp_path, content, name, message):
    write(tmp_path / (name if name.endswith(".gz") else "text.txt"), content)
    with pytest.raises(DataError) as error:
        read(f"{tmp_path}/{name}")
    assert str(error.value).startswith(message.format(folder=tmp_path, cwd=Path.cwd()))


def test_an_empty_list_names_no_file():
    with pytest.raises(DataError, match=r"^data\.train: the list is empty; name at least one file$"):
        read([])


def test_the_key_of_the_bad_file_is_named(tmp_path):
    good = write(tmp_path / "good.txt", "text " * 10)
    for part in ("val", "test"):
        with pytest.raises(DataError, match=rf"^data\.{part}: there is no file "):
            read(good, **{"val": good, part: str(tmp_path / "none.txt")})


def test_a_file_that_the_system_refuses_to_read_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "text.txt", "text")

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DataError, match=r"^data.train: cannot read .*text\.txt: Permission denied$"):
        read(path)


def test_one_file_validates_on_its_last_tenth(tmp_path):
    corpus = read(write(tmp_path / "text.txt", "0123456789" * 9 + "abcdefghij"))
    assert corpus.train == ("0123456789" * 9,)
    assert corpus.val == ("abcdefghij",)
    assert corpus.test == ()
    assert read(str(tmp_path / "text.txt"), val_fraction=0.5).val == ("0123456789" * 4 + "abcdefghij",)


def test_a_validation_and_a_test_file_are_taken_as_they_are(tmp_path):
    train, val, test = (write(tmp_path / f"{n}.txt", f"the {n} text") for n in ("train", "val", "test"))
    corpus = read(train, val=val, test=test)
    assert corpus.parts() == {"train": ("the train text",), "val": ("the val text",), "test": ("the test text",)}


def test_several_files_and_patterns_are_documents_in_a_fixed_order(tmp_path):
    for name in ("b", "a", "sub/c"):
        write(tmp_path / f"{name}.txt", name)
    val = write(tmp_path / "val.md", "v")
    assert read(f"{tmp_path}/*.txt", val=val).train == ("a", "b")
    assert read(f"{tmp_path}/**/*.txt", val=val).train == ("a", "b", "sub/c")
    assert read([f"{tmp_path}/sub/c.txt", f"{tmp_path}/?.txt"], val=val).train == ("sub/c", "a", "b")
    assert read(f"{tmp_path}/*.txt", val=val).report == {
        **{"files_read": 2, "files_kept": 2, "train_rows_duplicate": 0, "val_rows_in_train": 0}
    }


@pytest.mark.parametrize("again", ["a.txt", "./a.txt", "../{folder}/a.txt", "*.txt", "{absolute}/a.txt"])
def test_a_file_that_is_named_twice_is_read_once(tmp_path, monkeypatch, again):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        write(tmp_path / f"{name}.txt", name)
    again = again.format(folder=tmp_path.name, absolute=tmp_path)
    corpus = read(["b.txt", "a.txt", again], val="b.txt", test=["b.txt", "b.txt"])
    assert (corpus.train, corpus.test, corpus.report["files_read"]) == (("b", "a"), ("b",), 2)


def test_links_of_other_names_are_files_of_their_own(tmp_path):
    # A class may be a folder of links to shared files: what a link is called is part of the data.
    write(tmp_path / "a.txt", "a")
    (tmp_path / "b.txt").symlink_to(tmp_path / "a.txt")
    corpus = read(f"{tmp_path}/*.txt", val=f"{tmp_path}/b.txt")
    assert corpus.train == ("a", "a")
    assert (corpus.report["train_rows_duplicate"], corpus.report["val_rows_in_train"]) == (1, 1)


@pytest.mark.parametrize(("texts", "options", "repeated", "of_val", "of_test"), SHARED.values(), ids=SHARED)
def test_documents_that_are_in_the_training_part_too_are_counted(tmp_path, texts, options, repeated, of_val, of_test):
    for name, text in texts.items():
        write(tmp_path / name, text)
    paths = {k: f"{tmp_path}/{v}" if k in ("train", "val", "test") else v for k, v in options.items()}
    report = read(**paths).report
    found = [report.get(name) for name in ("train_rows_duplicate", "val_rows_in_train", "test_rows_in_train")]
    assert found == [repeated, of_val, of_test]


def test_of_several_files_whole_ones_validate(tmp_path):
    texts = {f"{i}.txt": f"document {i}" for i in range(40)}
    for name, text in texts.items():
        write(tmp_path / name, text)
    corpus = read(f"{tmp_path}/*.txt")
    assert sorted(corpus.train + corpus.val) == sorted(texts.values())
    assert corpus.val == tuple(texts[name] for name in sorted(texts) if in_fraction(name, 0.1))


@pytest.mark.parametrize("fraction", [0.1, 0.9])
def test_of_few_files_neither_part_is_empty(tmp_path, fraction):
    names = [f"{i}.txt" for i in range(60) if in_fraction(f"{i}.txt", fraction) == (fraction > 0.5)][:3]
    for name in names:
        write(tmp_path / name, name)
    corpus = read(f"{tmp_path}/*.txt", val_fraction=fraction)
    assert sorted(corpus.train + corpus.val) == sorted(names)
    assert corpus.train
    assert corpus.val


def test_a_home_folder_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "text.txt", "0123456789")
    assert read("~/text.txt").train == ("012345678",)


def test_a_gzipped_file_and_a_byte_order_mark_change_nothing(tmp_path):
    text = "one two\nthree four\n"
    plain = read(write(tmp_path / "plain.txt", text))
    variants = {
        "packed.txt.gz": gzip.compress(text.encode()),
        "packed": gzip.compress(text.encode()),
        "mark.txt": b"\xef\xbb\xbf" + text.encode(),
        "both.gz": gzip.compress(b"\xef\xbb\xbf" + text.encode()),
    }
    for name, content in variants.items():
        assert read(write(tmp_path / name, content)) == plain
    # A mark that is not at the start is a character of the text.
    assert read(write(tmp_path / "inside.txt", text.replace("two", "\ufefftwo"))) != plain


@pytest.mark.parametrize(("unit", "documents"), UNITS.values(), ids=UNITS)
def test_a_document_is_a_file_a_line_or_a_paragraph(tmp_path, unit, documents):
    path = write(tmp_path / "text.txt", PAGE)
    corpus = read(path, val=path, test=path, unit=unit)
    assert corpus.train == corpus.val == corpus.test == documents
    n = len(documents)
    counts = {
        "files_read": 1,
        "files_kept": 1,
        "train_rows_duplicate": 0,
        "val_rows_in_train": n,
        "test_rows_in_train": n,
    }
    assert corpus.report == counts | ({"lines_empty": 3} if unit == "line" else {})


def test_of_one_file_the_last_lines_validate_and_none_is_cut(tmp_path):
    path = write(tmp_path / "text.txt", "".join(f"line {i}\n\n" for i in range(10)))
    for unit in ("line", "paragraph"):
        assert read(path, unit=unit, val_fraction=0.2).val == ("line 8", "line 9")
        assert len(read(path, unit=unit, val_fraction=0.01).val) == 1
        assert len(read(path, unit=unit, val_fraction=0.99).train) == 1
    with pytest.raises(
        DataError, match=r"^data\.train: nothing left to validate on after splitting 1 files; set data\.val$"
    ):
        read(write(tmp_path / "one.txt", "one line\n\n"), unit="line")


def test_of_several_files_whole_ones_validate_whatever_a_document_is(tmp_path):
    for i in range(40):
        write(tmp_path / f"{i}.txt", f"{i} a\n{i} b\n")
    whole, lines = read(f"{tmp_path}/*.txt"), read(f"{tmp_path}/*.txt", unit="line")
    for part in ("train", "val"):
        assert lines.parts()[part] == tuple(line for text in whole.parts()[part] for line in text.splitlines())


@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["windows", "old_macs"])
@pytest.mark.parametrize("unit", ["file", "line"])
def test_other_line_ends_change_nothing(tmp_path, end, unit):
    text = "one\ntwo\nthree\nfour\n"
    unix, other = write(tmp_path / "unix.txt", text), write(tmp_path / "other.txt", text.replace("\n", end))
    corpora = [read(path, val_fraction=0.3, unit=unit) for path in (unix, other)]
    assert corpora[0] == corpora[1]
    assert corpora[0].fingerprint() == corpora[1].fingerprint()


def test_another_encoding_can_be_named(tmp_path):
    path = write(tmp_path / "text.txt", LATIN1)
    corpus = read(path, encoding="latin-1")
    assert "".join(corpus.train + corpus.val) == LATIN1.decode("latin-1")
    assert "�" not in corpus.train[0]
    with pytest.raises(DataError, match=r"^data\.encoding: Python knows no encoding 'latin-one'$"):
        read(path, encoding="latin-one")


def test_the_locale_changes_nothing(tmp_path):
    path = write(tmp_path / "text.txt", "Größe ☃ 你好 🙂 " * 20)
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    assert python_process(FINGERPRINT.format(path), **plain) == read(path).fingerprint()


def test_the_standard_library_is_the_same_text_in_every_process():
    fingerprints = {python_process(STDLIB, PYTHONHASHSEED=seed) for seed in ("0", "12345")}
    assert fingerprints == {PythonStdlib().read().fingerprint()}


def test_the_standard_library_is_large_and_split_by_file():
    corpus = PythonStdlib(val_fraction=0.2).read()
    sizes = {name: sum(map(len, documents)) for name, documents in corpus.parts().items()}
    assert sizes["train"] + sizes["val"] > 5_000_000
    assert 0.1 < len(corpus.val) / (len(corpus.train) + len(corpus.val)) < 0.3
    assert corpus.report["files_kept"] == len(corpus.train) + len(corpus.val)
    assert not any("\r\n" in text for text in corpus.train)


def test_the_standard_library_leaves_out_tests_and_what_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    for i in range(40):
        write(tmp_path / f"m{i}.py", f"x = {i}\r\n")
    for name in ("test/t.py", "site-packages/s.py", "json/tests/u.py", "notes.txt", "blank.py"):
        write(tmp_path / name, "" if name == "blank.py" else "left out")
    write(tmp_path / "bad.py", LATIN1)
    corpus = PythonStdlib().read()
    assert {*corpus.train, *corpus.val} == {f"x = {i}\n" for i in range(40)}
    assert corpus.report == {"files_read": 42, "files_kept": 40, "files_not_utf8": 1}


def test_a_python_without_sources_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(DataError, match=r"^data=python_stdlib: found 0 source files under .*; too few to split$"):
        PythonStdlib().read()


def test_a_document_keeps_its_part_when_others_come_and_go():
    named = [(f"file{i}", f"text {i}") for i in range(200)]
    train, val = split_by_name(named, 0.3)
    fewer_train, fewer_val = split_by_name(named[::3], 0.3)
    assert set(fewer_train) <= set(train)
    assert set(fewer_val) <= set(val)
    assert set(split_by_name(named, 0.5)[1]) > set(val)  # a larger share keeps what the smaller one had
    assert not set(train) & set(val)


@pytest.mark.parametrize("corpora", DIFFERENT.values(), ids=DIFFERENT)
def test_the_fingerprint_sees_where_fields_rows_and_parts_end(corpora):
    assert len({Corpus(train, val).fingerprint() for train, val in corpora}) == len(corpora)


def test_the_fingerprint_is_of_the_examples_alone():
    assert Corpus(("a",), ("b",), report={"files": 1}).fingerprint() == Corpus(("a",), ("b",)).fingerprint()


def test_split_tail_cuts_characters_not_bytes():
    assert split_tail("ééééé☃☃☃☃☃", 0.5) == ("ééééé", "☃☃☃☃☃")
    assert split_tail("abc", 0.1) == ("ab", "c")
