import json
import os
import stat

import pytest

from tfexp.files import fingerprint, write_json, write_text, write_whole

SAME = {
    "order_of_keys": ({"a": 1, "b": [2, {"c": 3, "d": 4}]}, {"b": [2, {"d": 4, "c": 3}], "a": 1}),
    "tuple_as_yaml_reads_it": ({"a": (1, 2)}, {"a": [1, 2]}),
}
DIFFERENT = {
    "value": ({"a": 1}, {"a": 2}),
    "key": ({"a": 1}, {"b": 1}),
    "type": ({"a": 1}, {"a": "1"}),
    "order_of_a_list": ([1, 2], [2, 1]),
    "null_is_not_absent": ({"a": None}, {}),
    "nesting": ({"a": {"b": 1}}, {"a.b": 1}),
}


def fail_half_way(temporary):
    temporary.write_text("half of", encoding="utf-8")
    raise OSError("disk full")


def test_writes_a_new_file_and_nothing_else(tmp_path):
    write_text(tmp_path / "a.txt", "one\ntwo é\n")
    assert (tmp_path / "a.txt").read_bytes() == "one\ntwo é\n".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_replaces_the_old_file(tmp_path):
    write_text(tmp_path / "a.txt", "a long old text")
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "new"


def test_a_failing_writer_leaves_the_old_file_and_no_temporary_one(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(OSError, match="disk full"):
        write_whole(tmp_path / "a.txt", fail_half_way)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_failing_writer_makes_no_file(tmp_path):
    with pytest.raises(OSError, match="disk full"):
        write_whole(tmp_path / "a.txt", fail_half_way)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file(tmp_path, monkeypatch, step):
    write_text(tmp_path / "a.txt", "old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        write_text(tmp_path / "a.txt", "new")
    assert [p.read_text(encoding="utf-8") for p in tmp_path.iterdir()] == ["old"]


def test_a_reader_sees_the_old_file_while_the_new_one_is_written(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    seen = []

    def write(temporary):
        temporary.write_text("new", encoding="utf-8")
        seen.append(path.read_text(encoding="utf-8"))

    write_whole(path, write)
    assert (seen, path.read_text(encoding="utf-8")) == (["old"], "new")


def test_a_written_file_is_as_readable_as_any_other(tmp_path):
    (tmp_path / "plain").write_text("", encoding="utf-8")
    write_text(tmp_path / "whole", "")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "whole")]
    assert modes[0] == modes[1]


def test_json_comes_back_equal_and_is_readable(tmp_path):
    value = {"loss": 0.1, "name": "é", "list": [1, None, True]}
    write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == value
    assert "é" in text
    assert text.endswith("}\n")


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
def test_json_refuses_what_is_not_json(tmp_path, value):
    write_json(tmp_path / "a.json", {"loss": 1.0})
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": value})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"loss": 1.0}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_equal_values_have_one_fingerprint(one, other):
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_different_values_have_different_fingerprints(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_fingerprint_is_sha256_of_canonical_json():
    # printf '{"a":[1,2],"b":null}' | sha256sum
    expected = "f25109c4111335e4a32d49373585e7a788ff5b10e70023f7004b170e7f84716a"
    assert fingerprint({"b": None, "a": [1, 2]}) == expected


def test_fingerprint_refuses_nan():
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        fingerprint({"lr": float("nan")})
