"""`tfexp train`: one run or a sweep, from the command line to the record."""

import os
import re
import shlex

from tests import runs
from tests.training import task_runs
from tfexp.cli.main import main
from tfexp.config.freeze import to_plain
from tfexp.tasks.next_token import NextToken
from tfexp.training.notes import closing_notes
from tfexp.training.record import Record, all_records

QUICK = ["trainer.max_steps=2", "trainer.val_every=2"]


def records(folder) -> list[Record]:
    return all_records(folder / "outputs")


def test_a_run_ends_with_its_path_and_the_next_command(tmp_path, capsys):
    assert main(["train", *runs.overrides(tmp_path, *QUICK)]) == 0
    (record,) = records(tmp_path)
    out, err = capsys.readouterr()
    assert out == ""
    summary = record.summary()
    final = ", ".join(f"{name} {value:.4g}" for name, value in summary["final"].items() if name != "step")
    assert err.splitlines()[-4:] == [
        f"{record.folder}: val/loss {summary['best']['val/loss']:.4f} at step 2",
        f"final: {final}",
        "floors: unigram_entropy 2.145, bigram_entropy 0.4374",
        f"next: tfexp generate {record.folder}    or: tfexp report {record.folder}",
    ]


def test_a_run_ends_with_what_its_task_watches_and_with_its_test(tmp_path, capsys):
    assert main(["train", *task_runs.overrides("classification", tmp_path, *QUICK)]) == 0
    (record,) = records(tmp_path)
    summary = record.summary()
    said = closing_notes(summary, to_plain(record.config())["data"])
    first, *lines = capsys.readouterr().err.splitlines()[-5 - len(said) :]
    assert first == f"{record.folder}: val/accuracy {summary['best']['val/accuracy']:.4f} at step 2"
    assert [line.partition(" ")[0] for line in lines if line not in said] == ["final:", "test:", "floors:", "next:"]
    assert f"test/accuracy {summary['test']['test/accuracy']:.4g}" in lines[1]
    assert lines[3:-1] == said


def test_examples_that_are_too_long_are_said_before_and_after_training(tmp_path, capsys):
    given = [*task_runs.overrides("next_token_of_pairs", tmp_path, *QUICK), "data.seq_len=9"]
    assert main(["train", *given]) == 0
    (record,) = records(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    said = closing_notes(record.summary(), to_plain(record.config())["data"])
    assert lines[0] == said[0]
    assert lines[-1 - len(said) : -1] == said
    assert [line.partition(":")[0] for line in said] == ["train", "val", "test"]
    assert main(["evaluate", str(record.folder)]) == 0
    assert capsys.readouterr().err.splitlines()[:2] == said[1:]
    assert main(["evaluate", str(record.folder), "data.seq_len=16"]) == 0
    assert "data.seq_len" not in capsys.readouterr().err


def test_text_that_is_trained_on_is_said(tmp_path, capsys):
    text = runs.write_text(tmp_path / "text.txt")
    assert main(["train", *runs.overrides(tmp_path, *QUICK, f"data.val={text}")]) == 0
    assert "\nval: 1 of 1 documents are in the training part too\nnext: " in capsys.readouterr().err


def test_the_default_outputs_need_no_path(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [o for o in runs.overrides(tmp_path, *QUICK) if not o.startswith("outputs=")]
    assert main(["train", *arguments]) == 0
    (record,) = records(tmp_path)
    assert f"next: tfexp generate {record.hash} " in capsys.readouterr().err
    assert main(["generate", record.hash, "-p", "ab", "max_new_tokens=3"]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["outputs", "text.txt"]  # Hydra leaves nothing


def test_the_same_command_twice_trains_once(tmp_path, capsys, monkeypatch):
    arguments = ["train", *runs.overrides(tmp_path, *QUICK)]
    assert main(arguments) == 0
    first = capsys.readouterr().err
    monkeypatch.setattr(NextToken, "loss", None)
    assert main(arguments) == 0
    assert capsys.readouterr().err == first.replace(
        " at step 2\n", " at step 2 (complete already; nothing was trained)\n"
    )


def test_evaluations_are_printed_where_there_is_no_terminal(tmp_path, capsys):
    assert main(["train", *runs.overrides(tmp_path, *QUICK, "trainer.progress=true")]) == 0
    assert re.match(r"step 2/2  train \d\.\d{4}  val \d\.\d{4}  [\d,]+ tokens/s\n", capsys.readouterr().err)


def test_a_sweep_trains_every_combination(tmp_path, capsys):
    # H34: values of a sweep arrive as numbers, in the run, the written config and the signature.
    overrides = runs.overrides(tmp_path, *QUICK, "trainer.val_every=2", "hydra/launcher=basic")
    assert main(["train", *overrides, "-m", "optim.lr=1e-3,1e-4,1e-05", "seed=0,1"]) == 0
    found = records(tmp_path)
    rates = sorted((r.config().optim.lr, r.config().seed) for r in found)
    assert rates == [(lr, seed) for lr in (1e-5, 1e-4, 1e-3) for seed in (0, 1)]
    assert all(isinstance(lr, float) for lr, _ in rates)
    assert {re.search(r"lr=([^],]+)", r.summary()["signature"]).group(1) for r in found} == {"0.001", "0.0001", "1e-05"}
    assert len(re.findall(r": val/loss [\d.]+ at step 2\n", capsys.readouterr().err)) == 6


def test_a_sweep_goes_on_past_a_job_that_fails(tmp_path, capsys):
    overrides = runs.overrides(tmp_path, *QUICK, "optim=sgd", "trainer.clip=null", "trainer.log_every=1")
    assert main(["train", "-m", *overrides, "optim.lr=0.1,1e30,0.01"]) == 1
    assert sorted(r.state for r in records(tmp_path)) == ["complete", "complete", "diverged"]
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2] == "error: 1 of 3 jobs failed:"
    assert lines[-1] == "  optim.lr=1e+30: DivergedError: val/loss is nan at step 2; lower optim.lr"


def test_a_sweep_is_refused_as_a_whole_before_its_first_job(tmp_path, capsys):
    assert main(["train", "-m", *runs.overrides(tmp_path, *QUICK), "model.n_heads=2,3"]) == 1
    assert capsys.readouterr().err.startswith("error: model.n_heads: d_model=16 is not divisible by n_heads=3")
    assert not (tmp_path / "outputs").exists()


def test_a_key_that_is_null_in_a_sweep_is_null(tmp_path):
    # H36.
    assert main(["train", "-m", *runs.overrides(tmp_path, *QUICK), "trainer.clip=null,0.5"]) == 0
    assert {r.config().trainer.clip for r in records(tmp_path)} == {None, 0.5}


def test_a_failing_run_leaves_its_reason_and_status_1(tmp_path, capsys, monkeypatch):
    settings = ["optim=sgd", "optim.lr=1e30", "trainer.clip=null", "trainer.log_every=1"]
    assert main(["train", *runs.overrides(tmp_path, *QUICK, *settings)]) == 1
    assert capsys.readouterr().err == "error: val/loss is nan at step 2; lower optim.lr\n"
    assert records(tmp_path)[0].state == "diverged"
    monkeypatch.setattr(NextToken, "loss", None)
    assert main(["train", *runs.overrides(tmp_path, *QUICK, *settings)]) == 1
    assert "delete it to try again" in capsys.readouterr().err


def test_an_outputs_folder_that_cannot_be_made_is_a_line(tmp_path, capsys):
    (tmp_path / "file").write_text("text", encoding="utf-8")
    assert main(["train", *runs.overrides(tmp_path, f"outputs={tmp_path}/file/below")]) == 1
    assert capsys.readouterr().err == f"error: outputs: cannot write to {tmp_path}/file/below/cache: Not a directory\n"


def test_a_path_with_a_space_is_printed_ready_to_paste(tmp_path, capsys):
    # H33: spaces need no quotes inside one argument; "=" does, and tfexp's own names hold none.
    outputs = tmp_path / "my runs"
    assert main(["train", *runs.overrides(tmp_path, *QUICK, f"outputs={outputs}")]) == 0
    (record,) = all_records(outputs)
    assert "=" not in record.folder.name
    line = capsys.readouterr().err.splitlines()[-1]
    assert shlex.split(line.removeprefix("next: "))[:3] == ["tfexp", "generate", str(record.folder)]
    quoted = f"outputs='{tmp_path}/a=b'"
    assert main(["train", *runs.overrides(tmp_path, *QUICK, quoted)]) == 0
    assert len(all_records(tmp_path / "a=b")) == 1


def test_a_config_folder_of_ones_own_is_used(tmp_path, capsys):
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    lines = "# @package _global_\noptim:\n  lr: 1e-4\ntrainer:\n  max_steps: 2e0\n"
    (tmp_path / "conf" / "experiment" / "mine.yaml").write_text(lines, encoding="utf-8")
    overrides = [o for o in runs.overrides(tmp_path) if not o.startswith("trainer.max_steps")]
    assert main(["train", "experiment=mine", "--config-dir", str(tmp_path / "conf"), *overrides]) == 0
    config = records(tmp_path)[0].config()
    assert (config.optim.lr, config.trainer.max_steps) == (1e-4, 2)


def test_a_frozen_cell_is_run_as_it_is(tmp_path):
    assert main(["train", *runs.overrides(tmp_path, *QUICK)]) == 0
    (record,) = records(tmp_path)
    assert main(["train", f"cell={record.config_file}", "model=gpt2"]) == 0  # nothing else counts
    assert len(records(tmp_path)) == 1
    assert os.listdir(tmp_path / "outputs" / "runs") == [record.folder.name]
