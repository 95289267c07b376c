import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.runs import ROOT, environment, write_text
from tfexp.data import prepare as cache_module
from tfexp.data.prepare import encode_with, prepare
from tfexp.errors import DataError, RunError
from tfexp.registry import check_choice

NEUTRAL = {"seq_len": 4, "batch_size": 3, "sampling": "windows", "workers": 2}
TELLING = {
    "tokenizer": {"tokenizer": "byte"},
    "tokenizer_key": {"tokenizer": {"name": "char", "specials": ["unk"]}},
    "split": {"val_fraction": 0.2},
}
TABLE = {"name": "table_files", "text": 1, "label": 0, "tokenizer": "word"}
ROWS = "".join(f"{i % 2}\ttext {i}\n" for i in range(40))
COUNTS = ("train_rows_read", "train_rows_kept", "train_rows_empty")
# How a text of 8 letters is replaced so that size and time stay, as `cp -p` and `rsync -t` do it.
UNSEEN = {
    "in_place": lambda path, text: path.write_text(text, encoding="utf-8"),
    "by_another_file": lambda path, text: (path.with_suffix(".new").write_text(text, encoding="utf-8"),
                                           path.with_suffix(".new").replace(path)),
}  # fmt: skip
SOURCE = """
from tfexp.data.corpus import Corpus
from tfexp.data.procedural import RuleSource
from tfexp.registry import register

@register("data", "mine")
class Mine(RuleSource):
    def read(self):
        return Corpus(("{} c",), ("c",))
"""
PREPARE = (
    "import json, pathlib; from tfexp.data.prepare import prepare; print(prepare({!r}, pathlib.Path({!r})).report)"
)


def node(folder: Path, **changes) -> dict:
    text = folder / "text.txt"
    if not text.exists():
        write_text(text)
    return check_choice("data", {"name": "text_files", "train": str(text), "tokenizer": "char", **changes}, "data")


def folders(cache: Path) -> list[str]:
    """Everything in a cache but locks and notes of where a known source lies."""
    return sorted(p.name for p in cache.iterdir() if not p.name.endswith((".lock", ".key")))


def test_an_encoded_set_is_complete_and_memory_mapped(tmp_path):
    data = prepare(node(tmp_path), tmp_path / "cache")
    (key,) = folders(tmp_path / "cache")
    files = sorted(p.name for p in (tmp_path / "cache" / key).iterdir())
    arrays = [f"{part}.text.{kind}.npy" for part in ("train", "val") for kind in ("ends", "ids")]
    assert files == ["meta.json", "tokenizer.json", *arrays]
    assert all(isinstance(part.ids, np.memmap) and part.ids.dtype == np.uint16 for part in data.parts.values())
    assert all(isinstance(part.columns["text"].ends, np.memmap) for part in data.parts.values())
    text = (tmp_path / "text.txt").read_text(encoding="utf-8")
    assert "".join(data.tokenizer.decode(part.ids.tolist()) for part in data.parts.values()) == text
    assert sum(part.n_bytes for part in data.parts.values()) == len(text)


def test_every_document_ends_with_the_end_token_if_there_is_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("ab", encoding="utf-8")
    choice = {"train": f"{tmp_path}/?.txt", "val": f"{tmp_path}/a.txt"}
    for specials, expected in ((["eos"], [1, 2, 0, 1, 2, 0]), ([], [0, 1, 0, 1])):
        tokenizer = {"name": "char", "specials": specials}
        data = prepare(node(tmp_path, tokenizer=tokenizer, **choice), tmp_path / "cache")
        assert data.parts["train"].ids.tolist() == expected


def test_a_second_call_reads_what_the_first_has_written(tmp_path, monkeypatch):
    first = prepare(node(tmp_path), tmp_path / "cache")
    monkeypatch.setattr(cache_module, "_encode", None)
    second = prepare(node(tmp_path), tmp_path / "cache")
    assert second.fingerprint == first.fingerprint
    assert second.report == first.report
    assert second.labels == first.labels
    for name, part in first.parts.items():
        np.testing.assert_array_equal(second.parts[name].ids, part.ids)
        np.testing.assert_array_equal(second.parts[name].columns["text"].ends, part.columns["text"].ends)


def test_what_does_not_change_the_ids_shares_one_set(tmp_path):
    prepare(node(tmp_path), tmp_path / "cache")
    prepare(node(tmp_path, **NEUTRAL), tmp_path / "cache")
    assert len(folders(tmp_path / "cache")) == 1


@pytest.mark.parametrize("changes", TELLING.values(), ids=TELLING)
def test_what_changes_the_ids_makes_another_set(tmp_path, changes):
    prepare(node(tmp_path), tmp_path / "cache")
    prepare(node(tmp_path, **changes), tmp_path / "cache")
    assert len(folders(tmp_path / "cache")) == 2


def test_a_changed_text_makes_another_set(tmp_path):
    before = prepare(node(tmp_path), tmp_path / "cache")
    write_text(tmp_path / "text.txt", seed=1)
    after = prepare(node(tmp_path), tmp_path / "cache")
    assert before.fingerprint != after.fingerprint
    assert len(folders(tmp_path / "cache")) == 2


@pytest.mark.parametrize("replace", UNSEEN.values(), ids=UNSEEN)
def test_a_text_whose_size_and_time_were_kept_is_read_again(tmp_path, replace):
    path = tmp_path / "text.txt"
    path.write_text("abcd" * 20, encoding="utf-8")
    before, state = prepare(node(tmp_path), tmp_path / "cache"), path.stat()
    replace(path, "abce" * 20)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (state.st_size, state.st_mtime_ns)
    after = prepare(node(tmp_path), tmp_path / "cache")
    assert after.fingerprint != before.fingerprint
    assert after.tokenizer.decode(after.parts["val"].ids.tolist()) == "abceabce"


def test_what_was_read_is_that_of_the_file_named(tmp_path):
    (tmp_path / "plain.tsv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "gaps.tsv").write_text(ROWS.replace("\n", "\n\n", 6) + "0\t\n1\t \n", encoding="utf-8")
    choices = {n: check_choice("data", {**TABLE, "train": f"{tmp_path}/{n}.tsv"}, "data") for n in ("plain", "gaps")}
    for _ in range(2):  # read, and remembered
        found = {name: prepare(choice, tmp_path / "cache") for name, choice in choices.items()}
        assert found["plain"].fingerprint == found["gaps"].fingerprint
        assert [found["plain"].report[name] for name in COUNTS] == [40, 40, 0]
        assert [found["gaps"].report[name] for name in COUNTS] == [48, 40, 8]
    assert len(folders(tmp_path / "cache")) == 1


@pytest.mark.parametrize("content", ["", "[1]", '{"set": 1}', '{"set": "none", "read": {}}', '"a"'])
def test_a_damaged_note_is_made_anew(tmp_path, content):
    whole = prepare(node(tmp_path), tmp_path / "cache")
    (note,) = (tmp_path / "cache").glob(".*.key")
    good = note.read_text(encoding="utf-8")
    note.write_text(content, encoding="utf-8")
    assert prepare(node(tmp_path), tmp_path / "cache").report == whole.report
    assert note.read_text(encoding="utf-8") == good


def test_an_edited_source_of_ones_own_is_read_again(tmp_path, scratch_registry):
    found, file = [], tmp_path / "source.py"
    for word in ("a", "a", "longer"):
        file.write_text(SOURCE.format(word), encoding="utf-8")
        scratch_registry._discovered.discard(str(file))
        scratch_registry.discover([str(file)])
        choice = check_choice("data", {"name": "mine", "tokenizer": "char"}, "data")
        found.append(prepare(choice, tmp_path / "cache").fingerprint)
        del scratch_registry._components["data"]["mine"]
        cache_module._read.cache_clear()
    assert found[0] == found[1] != found[2]


def test_a_crash_leaves_nothing_half_made(tmp_path, monkeypatch):
    save, calls = np.save, []

    def fail_at_the_second(path, ids):
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        save(path, ids)

    monkeypatch.setattr(np, "save", fail_at_the_second)
    with pytest.raises(OSError, match="No space left"):
        prepare(node(tmp_path), tmp_path / "cache")
    assert folders(tmp_path / "cache") == []
    monkeypatch.undo()
    assert prepare(node(tmp_path), tmp_path / "cache").report["train_tokens"] > 0


def test_a_folder_that_a_killed_process_left_is_not_taken_for_a_set(tmp_path):
    whole = prepare(node(tmp_path), tmp_path / "cache")
    (key,) = folders(tmp_path / "cache")
    (tmp_path / "cache" / key).rename(tmp_path / "cache" / f".{key}-left")
    (tmp_path / "cache" / f".{key}-left" / "val.text.ids.npy").unlink()
    assert prepare(node(tmp_path), tmp_path / "cache").report == whole.report


def test_two_processes_at_once_make_one_set(tmp_path):
    write_text(tmp_path / "text.txt", words=20_000)
    code = PREPARE.format(node(tmp_path, tokenizer="bpe"), str(tmp_path / "cache"))
    env = environment(PYTHONPATH=str(ROOT))
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env) for _ in range(2)]
    first, second = (process.communicate(timeout=120)[0] for process in both)
    assert first == second != b""
    assert [process.returncode for process in both] == [0, 0]
    assert len(folders(tmp_path / "cache")) == 1


def test_the_report_counts_documents_tokens_bytes_and_unknowns(tmp_path):
    (tmp_path / "train.txt").write_text("hug pug pun bun hugs", encoding="utf-8")
    (tmp_path / "val.txt").write_text("mug é", encoding="utf-8")
    choice = {"train": str(tmp_path / "train.txt"), "val": str(tmp_path / "val.txt")}
    report = prepare(node(tmp_path, **choice), tmp_path / "cache").report
    assert report["train_unknown_rate"] == 0.0
    assert report["val_unknown_rate"] == 2 / 6  # m, é; the end token counts
    assert (report["val_documents"], report["val_tokens"], report["val_bytes"]) == (1, 6, 6)
    byte = prepare(node(tmp_path, tokenizer="bpe", **choice), tmp_path / "cache").report
    assert byte["val_unknown_rate"] == 0.0


def test_the_tokenizer_sees_the_training_part_only(tmp_path):
    (tmp_path / "train.txt").write_text("abc", encoding="utf-8")
    (tmp_path / "val.txt").write_text("xyz", encoding="utf-8")
    files = {part: str(tmp_path / f"{part}.txt") for part in ("train", "val")}
    data = prepare(node(tmp_path, **files), tmp_path / "cache")
    assert data.tokenizer.vocab_size == 4 + 3
    no_unknown = {**files, "tokenizer": {"name": "char", "specials": ["eos"]}}
    with pytest.raises(DataError, match="the character 'x' is not in the training part"):
        prepare(node(tmp_path, **no_unknown), tmp_path / "cache")


def test_other_text_is_encoded_with_a_vocabulary_that_is_there(tmp_path):
    tokenizer = prepare(node(tmp_path), tmp_path / "cache").tokenizer
    (tmp_path / "other.txt").write_text("ab cd xyz", encoding="utf-8")
    data = encode_with(tokenizer, (), node(tmp_path, val=str(tmp_path / "other.txt")))
    assert list(data.parts) == ["val"]
    assert tokenizer.decode(data.parts["val"].ids.tolist()) == "ab cd "
    assert data.parts["val"].n_bytes == 9


def test_a_cache_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "outputs").write_text("a file", encoding="utf-8")
    with pytest.raises(RunError, match=r"^outputs: cannot write to .*/outputs/cache: Not a directory$"):
        prepare(node(tmp_path), tmp_path / "outputs" / "cache")


def test_the_notes_of_a_set_are_json(tmp_path):
    prepare(node(tmp_path), tmp_path / "cache")
    (key,) = folders(tmp_path / "cache")
    meta = json.loads((tmp_path / "cache" / key / "meta.json").read_text(encoding="utf-8"))
    assert sorted(meta) == ["fingerprint", "labels", "parts", "report"]
    assert meta["parts"]["val"] == {"kind": "documents", "n_bytes": meta["report"]["val_bytes"], "columns": ["text"]}
