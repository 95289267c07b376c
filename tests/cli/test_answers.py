"""`tfexp generate` on runs that answer: a class, a translation line for line, a text with its gaps filled."""

import json
import re
from pathlib import Path

import pytest

from tests.runs import TINY_RUN
from tfexp.cli.main import main

PAIRS = ["one two\teins zwei", "three\tdrei", "four five\tvier fünf", "six\tsechs", "two\tzwei", "five\tfünf"] * 3
LABELLED = ["good\tpos", "bad\tneg", "very good\tpos", "very bad\tneg"] * 4
WORD = [o for o in TINY_RUN if "tokenizer" not in o and not o.startswith("data=")]
RUNS = {
    "translation": ["task=translation", "data=table_files", "data.source=0", "data.target=1"],
    "classification": [
        *("task=classification", "data=table_files", "data.text=0", "data.label=1"),
        "model/embedding=token",
    ],
    "masked_lm": ["task=masked_lm", "data=text_files", "data.unit=line", "data.val_fraction=0.3"],
}
# Five lines: the second empty, the fourth too long for the model's 8 tokens (H24, H25).
LINES = ["one", "", "three", " ".join(["six"] * 300), "five"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, str]:
    """A run of each task, by its folder."""
    folder = tmp_path_factory.mktemp("answers")
    files = {"translation": PAIRS, "classification": LABELLED, "masked_lm": [p.replace("\t", " ") for p in PAIRS]}
    found = {}
    for task, lines in files.items():
        text = folder / f"{task}.tsv"
        text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        outputs = folder / task
        command = [*WORD, *RUNS[task], "data/tokenizer=word", f"data.train={text}", f"outputs={outputs}"]
        if task != "masked_lm":
            command.append(f"data.val={text}")
        assert main(["train", *command]) == 0
        (found[task],) = map(str, (outputs / "runs").iterdir())
    return found


def answers(capsys, run: str, path: Path, *more: str) -> tuple[list[str], str]:
    capsys.readouterr()
    assert main(["generate", run, "--file", str(path), *more]) == 0
    out, err = capsys.readouterr()
    return out.split("\n")[:-1], err


def test_h24_h25_a_translation_has_a_line_for_every_line(runs, tmp_path, capsys):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    lines, err = answers(capsys, runs["translation"], path)
    assert len(lines) == 5
    assert lines[1] == ""
    assert "text 4: 300 tokens, of which the first 7 are read" in err
    alone = tmp_path / "alone.txt"
    for number in (0, 2, 4):  # what stands beside a line changes nothing
        alone.write_text(LINES[number] + "\n", encoding="utf-8")
        assert answers(capsys, runs["translation"], alone)[0] == [lines[number]]


def test_h25_another_sign_than_a_newline_ends_no_line(runs, tmp_path, capsys):
    path = tmp_path / "lines.txt"
    path.write_bytes("one\u2028two\r\nthree\x0bfour\r\n".encode())
    assert len(answers(capsys, runs["translation"], path)[0]) == 2


def test_a_classifier_answers_with_a_class_and_its_probability(runs, tmp_path, capsys):
    path = tmp_path / "lines.txt"
    path.write_text("very good\n\nbad\n", encoding="utf-8")
    lines, _ = answers(capsys, runs["classification"], path)
    assert len(lines) == 3
    assert set(lines) <= {"pos", "neg"}
    (text,), _ = answers(capsys, runs["classification"], path, "--json")
    results = json.loads(text)["results"]
    assert [r["text"] for r in results] == lines
    assert all(0.5 <= r["probability"] <= 1 for r in results)


def test_a_masked_model_fills_gaps(runs, capsys):
    assert main(["generate", runs["masked_lm"], "--prompt", "one <mask> eins <mask>", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert len(result["fillings"]) == 2
    assert re.fullmatch(r"one \S+ eins \S+", result["text"])


def test_keys_of_a_strategy_are_refused_where_a_task_answers(runs, capsys):
    assert main(["generate", runs["classification"], "--prompt", "one", "temperature=0.5"]) == 1
    assert "this run's task answers by itself" in capsys.readouterr().err
