"""The verbs that take a finished run: evaluate, generate, report."""

import io
import json
import shutil

import pytest

from tests import runs
from tfexp.cli.main import main
from tfexp.training.record import Record

FOLDERS = {
    "space": "my runs/of today",
    "equals": "lr=0.1/step=3",
    "both": "a = b/c",
    "brackets_and_commas": "x[1],{y}",
}


GREEDY_KEYS = (
    "banned, batch_size, cache, dtype, fast, forced_end, forced_start, frequency_penalty, max_new_tokens, "
    "max_seconds, min_new_tokens, no_repeat_ngram"
)


@pytest.fixture
def outputs(trained) -> str:
    return str(trained.folder.parents[1])


@pytest.fixture(params=FOLDERS.values(), ids=FOLDERS)
def moved(request, trained, tmp_path) -> Record:
    """The trained run in a folder whose path the override grammar would not take (H33)."""
    folder = tmp_path / request.param / trained.folder.name
    return Record(shutil.copytree(trained.folder, folder))


def test_evaluate_prints_the_recorded_metrics(trained, outputs, capsys):
    assert main(["evaluate", "last", "--outputs", outputs]) == 0
    shown = dict(line.split() for line in capsys.readouterr().out.splitlines())
    best = {name: f"{value:.6g}" for name, value in trained.summary()["best"].items() if name != "step"}
    assert shown == best


def test_evaluate_as_json_prints_nothing_else(trained, outputs, capsys):
    arguments = ["evaluate", trained.hash[:5], "--json", "data.seq_len=4", "--outputs", outputs, "--weights", "last"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document["run"], document["weights"]) == (str(trained.folder), "last")
    assert document["metrics"]["val/loss"] > 0
    assert err == ""


def test_any_path_of_a_run_is_taken(moved, capsys):
    assert main(["evaluate", str(moved.folder), "--json"]) == 0
    assert main(["generate", str(moved.folder), "--json", "-p", "ab", "max_new_tokens=2"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [document["run"] for document in documents] == [str(moved.folder)] * 2


def test_reports_of_runs_take_any_path(trained, tmp_path, capsys):
    folder = shutil.copytree(trained.folder, tmp_path / "a = b" / trained.folder.name)
    assert main(["report", str(folder), "--json", "--outputs", str(tmp_path / "out put=1")]) == 0
    assert json.loads(capsys.readouterr().out)
    assert (tmp_path / "out put=1" / "studies" / "runs" / "report.html").is_file()


def test_generate_prints_prompt_and_continuation(trained, outputs, capsys):
    arguments = ["generate", "last", "-p", "ab ", "-p", "cd", "--outputs", outputs, "-s", "greedy", "max_new_tokens=6"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert shown == "".join(f"{result['prompt']}{result['text']}\n" for result in document["results"])
    assert [result["prompt"] for result in document["results"]] == ["ab ", "cd"]
    assert all(len(result["text"]) == 6 for result in document["results"])
    assert document["generation"]["name"] == "greedy"


def test_generate_reads_prompts_from_a_file_and_from_standard_input(outputs, capsys, tmp_path, monkeypatch):
    (tmp_path / "prompts.txt").write_text("ab\ncd\n", encoding="utf-8")
    options = ["--outputs", outputs, "generation.max_new_tokens=2", "temperature=0.5", "--json"]
    results = []
    for source in (["-f", str(tmp_path / "prompts.txt")], ["-f", "-"], []):
        monkeypatch.setattr("sys.stdin", io.StringIO("ab\ncd\n"))
        assert main(["generate", "last", *source, *options]) == 0
        results.append(json.loads(capsys.readouterr().out)["results"])
    assert results[0] == results[1] == results[2]
    assert [result["prompt"] for result in results[0]] == ["ab", "cd"]


def test_generate_without_a_prompt_starts_a_document(outputs, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["generate", "last", "--outputs", outputs, "max_new_tokens=3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["prompt"] == ""


def test_at_a_terminal_prompts_are_answered_as_they_are_typed(outputs, capsys, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal("ab\nmuch too long for it\nb"))
    assert main(["generate", "last", "--outputs", outputs, "max_new_tokens=3", "-s", "greedy"]) == 0
    out, err = capsys.readouterr()
    assert [len(line) for line in out.splitlines()] == [5, 4]  # the refused one in between has no answer
    assert [line[:1] for line in out.splitlines()] == ["a", "b"]
    assert "prompt 1 has 20 tokens, but the model reads at most 8" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-s", "greedi"], "generation: unknown generation 'greedi'; did you mean 'greedy'?"),
        (["temperature=0"], "generation.temperature: must be > 0, got 0"),
        (["temperature=nan"], "generation.temperature: expected float > 0, got 'nan'"),
        (["generation.top_k=None"], "generation.top_k: expected int or null >= 1, got 'None'; write null for no value"),
        (["-s", "greedy", "temperature=1"], f"generation.temperature: unknown key; keys here: {GREEDY_KEYS}, ...."),
    ],
    ids=["name", "zero", "nan", "none", "key_of_another"],
)
def test_a_wrong_way_to_generate_is_refused(outputs, capsys, arguments, message):
    assert main(["generate", "last", "-p", "ab", "--outputs", outputs, *arguments]) == 1
    assert capsys.readouterr() == ("", f"error: {message}\n")


def test_a_strategy_of_the_runs_plugin_is_known(tmp_path, capsys, scratch_registry):
    code = (
        "from tfexp.registry import register\nfrom tfexp.generation.token_loop import TokenStrategy\n"
        "@register('generation', 'always')\nclass Always(TokenStrategy):\n"
        "    def __init__(self, *, token: int = 5) -> None:\n        self.token = token\n"
        "    def choose(self, scores, generators):\n        return scores.argmax(dim=-1) * 0 + self.token\n"
    )
    (tmp_path / "always.py").write_text(code, encoding="utf-8")
    overrides = runs.overrides(tmp_path, f"plugins=[{tmp_path}/always.py]", "trainer.max_steps=1")
    assert main(["train", *overrides]) == 0
    scratch_registry._components["generation"].pop("always")
    scratch_registry._discovered.discard(f"{tmp_path}/always.py")
    arguments = ["generate", "last", "-p", "ab", "-s", "always", "max_new_tokens=4"]
    assert main([*arguments, "--outputs", str(tmp_path / "outputs")]) == 0
    assert capsys.readouterr().out == "abaaaa\n"


def test_a_prompt_that_is_not_utf8_is_named(tmp_path, capsys):
    (tmp_path / "prompts.txt").write_bytes(b"caf\xe9\n")
    assert main(["generate", "last", "-f", str(tmp_path / "prompts.txt")]) == 1
    assert capsys.readouterr().err.startswith(f"error: --file: cannot read {tmp_path}/prompts.txt: 'utf-8' codec")


def test_a_run_that_is_not_finished_has_no_weights_yet(trained, tmp_path, capsys):
    folder = tmp_path / "outputs" / "runs" / trained.folder.name
    shutil.copytree(trained.folder, folder)
    shutil.rmtree(folder / "checkpoints")
    Record(folder).set_status("interrupted")
    assert main(["evaluate", str(folder)]) == 1
    assert (
        capsys.readouterr().err
        == f"error: {folder} has no best weights: its state is 'interrupted'; run its command again\n"
    )


def test_two_runs_are_reported_beside_each_other(tmp_path, capsys):
    for position in ("rope", "none"):
        overrides = runs.overrides(tmp_path, f"model/position={position}", "trainer.max_steps=2", "trainer.val_every=2")
        assert main(["train", *overrides]) == 0
    names = sorted(p.name.rpartition("-")[2] for p in (tmp_path / "outputs" / "runs").iterdir())
    assert main(["report", *names, "--outputs", str(tmp_path / "outputs")]) == 0
    out, err = capsys.readouterr()
    assert "position=rope" in out
    assert "position=none" in out
    assert f"page: {tmp_path}/outputs/studies/runs/report.html" in err
