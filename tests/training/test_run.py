import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

import tfexp
from tests import runs
from tfexp.data.blocks import TrainBlocks
from tfexp.errors import ConfigError, DataError, DivergedError, RunError
from tfexp.registry import register
from tfexp.tasks.next_token import NextToken
from tfexp.training import record as record_module
from tfexp.training.record import Record, all_records, find_record
from tfexp.training.run import plan_run, run

FILES = [
    "config.yaml",
    "metrics.csv",
    "metrics.jsonl",
    "signature.txt",
    "status.json",
    "summary.json",
    "tokenizer.json",
]
SUMMARY = {
    *("summary_version", "signature", "hash", "seed", "status", "final", "best", "checkpoint_rule", "parameters"),
    *("flops_per_token", "tokens_seen", "seconds", "tokens_per_s", "flop_utilisation", "data", "tokenizer"),
    *("device", "host_cpus", "versions", "git_commit", "peak_memory_bytes", "floors", "details", "monitor"),
}
REFUSED = {
    "odd_rope": (["model.d_model=6"], ConfigError, "model.position=rope rotates pairs: head_dim must be even, got 3"),
    "heads": (["model.n_heads=3"], ConfigError, "model.n_heads: d_model=16 is not divisible by n_heads=3"),
    "too_short": (["data.seq_len=8000", "model.max_seq_len=8000"], DataError, "data.seq_len: a block of 8000 needs"),
    "val_too_short": (["data.val_fraction=0.0003", "data.tokenizer.specials=[]"], DataError, "data.val: an evaluation"),
    "vocabulary": (["model.vocab_size=3"], ConfigError, "model.vocab_size: 3 is smaller than the tokenizer's 14; use"),
    "missing_text": (["data.train=none.txt"], DataError, "data.train: there is no file none.txt"),
}


def keep_out_of_training(monkeypatch) -> None:
    monkeypatch.setattr(NextToken, "loss", None)


def test_the_folder_holds_what_the_design_says(trained):
    files = sorted(p.name for p in trained.folder.iterdir() if p.is_file() and p.suffix != ".lock")
    assert files == FILES
    assert sorted(p.name for p in (trained.folder / "checkpoints").iterdir()) == ["best.pt", "last.ckpt"]
    name = trained.folder.name
    assert name.startswith("next_token-text_files-rope-softmax-d16-L1-s0-")
    assert name.endswith(f"-{trained.hash}")
    assert trained.status() == {"state": "complete", "reason": None, "step": 12, "updated": pytest.approx(2e9, rel=1)}


def test_the_summary_has_every_documented_key(trained):
    summary = trained.summary()
    assert summary.keys() == SUMMARY
    assert summary["hash"] == trained.hash
    assert summary["signature"] == (trained.folder / "signature.txt").read_text(encoding="utf-8").strip()
    assert summary["tokens_seen"] == 12 * 4 * 8
    assert summary["final"]["step"] == 12
    assert summary["best"]["val/loss"] == min(m["val/loss"] for m in trained.metrics() if "val/loss" in m)
    assert summary["parameters"]["total"] == sum(p.numel() for p in tfexp.load(trained.folder).parameters())
    assert summary["data"]["train_tokens"] > 0
    assert summary["versions"]["torch"] == torch.__version__


def test_metrics_have_the_documented_names_and_steps(trained):
    lines = trained.metrics()
    train = [line["step"] for line in lines if "train/loss" in line]
    val = [line["step"] for line in lines if "val/loss" in line]
    assert (train, val) == ([4, 6, 8, 12], [6, 12])  # an evaluation ends a window, so that speeds are of training
    names = {name for line in lines for name in line}
    assert names == {
        *("step", "train/loss", "train/lr", "time/step_ms", "throughput/tokens_per_s"),
        *("val/loss", "val/perplexity", "val/bits_per_byte", "val/accuracy"),
    }


def test_training_learns(trained):
    losses = [line["train/loss"] for line in trained.metrics() if "train/loss" in line]
    assert losses[-1] < losses[0]


def test_what_is_written_is_what_ran(trained):
    config = trained.config()
    assert config.model.vocab_size == 14
    assert config.data.seq_len == 8
    assert tfexp.config.freeze.freeze(config) == config
    assert "???" not in OmegaConf.to_yaml(config)


def test_the_signature_names_choices_and_what_is_not_default(trained):
    assert (trained.folder / "signature.txt").read_text(encoding="utf-8") == (
        "task:next_token|arch:decoder|data:text_files|tok:char|emb:token|pos:rope|attn:softmax|norm:rmsnorm|place:pre|res:plain|"
        "ffn:glu|head:lm|init:gpt2|d:16|h:2|f:32|L:1|opt:adamw[lr=0.003]|sched:cosine[warmup_steps=2]|batch:4x8x1|steps:12|"
        f"prec:32-true|seed:0|v:{tfexp.__version__}\n"
    )


def test_the_same_command_trains_once(tmp_path, monkeypatch):
    config = runs.config(tmp_path)
    first = run(config)
    before = first.status()["updated"], first.metrics()
    keep_out_of_training(monkeypatch)
    again = run(runs.config(tmp_path, "logger=csv", "data.workers=1"))  # neither can change a result
    assert again.folder == first.folder
    assert (again.status()["updated"], again.metrics()) == before


def test_the_public_face_trains_loads_and_generates(tmp_path):
    config = runs.config(tmp_path, "trainer.max_steps=2")
    folder = tfexp.train(config)
    assert folder == run(config).folder
    texts = tfexp.generate(tfexp.load(folder), ["ab ", "cd"], strategy="greedy", max_new_tokens=3)
    assert [len(text) for text in texts] == [3, 3]


def test_two_processes_log_the_same_bits(tmp_path):
    overrides = runs.overrides(tmp_path, "model.dropout.residual=0.1")
    processes = [
        runs.start("train", *overrides, f"outputs={tmp_path / seed}", PYTHONHASHSEED=seed) for seed in ("1", "2")
    ]
    here = run(runs.config(tmp_path, "model.dropout.residual=0.1", f"outputs={tmp_path / 'here'}"))
    for process, seed in zip(processes, ("1", "2"), strict=True):
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
        (folder,) = (tmp_path / seed / "runs").iterdir()
        runs.assert_same_result(Record(folder), here)


def test_the_number_of_workers_changes_nothing(tmp_path):
    many = run(runs.config(tmp_path, "data.workers=2", f"outputs={tmp_path / 'many'}", "data.sampling=windows"))
    none = run(runs.config(tmp_path, "data.workers=0", f"outputs={tmp_path / 'none'}", "data.sampling=windows"))
    assert many.hash == none.hash
    runs.assert_same_result(many, none)


def test_seeds_differ_and_variants_of_one_seed_share_batches_and_initial_parameters(tmp_path, monkeypatch):
    seen: dict[str, list[torch.Tensor]] = {}
    original = TrainBlocks.__getitem__
    monkeypatch.setattr(
        TrainBlocks, "__getitem__", lambda self, k: seen[key].append((b := original(self, k)).input_ids) or b
    )
    for key in ("rope/0", "none/0", "rope/1"):
        seen[key] = []
        position, seed = key.split("/")
        run(runs.config(tmp_path, f"model/position={position}", f"seed={seed}", "trainer.max_steps=2"))
    assert all(torch.equal(a, b) for a, b in zip(seen["rope/0"], seen["none/0"], strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(seen["rope/0"], seen["rope/1"], strict=True))
    losses = {r.folder.name: r.metrics()[0]["train/loss"] for r in all_records(tmp_path / "outputs")}
    assert len(set(losses.values())) == 3


@pytest.mark.parametrize(("changes", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_run_leaves_no_run_behind(tmp_path, changes, kind, message):
    with pytest.raises(kind) as error:
        run(runs.config(tmp_path, *changes))
    assert str(error.value).startswith(message)
    assert not (tmp_path / "outputs" / "runs").exists()


def test_a_model_that_cannot_be_built_is_refused_before_the_data_are_touched(tmp_path):
    with pytest.raises(ConfigError):
        run(runs.config(tmp_path, "model.d_model=6", "data.train=none.txt"))
    assert not (tmp_path / "outputs").exists()


def test_a_vocabulary_larger_than_the_tokenizers_is_taken(tmp_path):
    record = run(runs.config(tmp_path, "model.vocab_size=20", "trainer.max_steps=1"))
    assert tfexp.load(record.folder).spec.vocab_size == 20


@pytest.mark.parametrize("part", ["cache", "runs"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path, part):
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    (outputs / part).write_text("a file where a folder should be", encoding="utf-8")
    with pytest.raises(
        RunError, match=rf"^outputs: cannot write to .*/outputs/{part}.*: (Not a directory|File exists)"
    ):
        run(runs.config(tmp_path))
    assert (outputs / part).read_text(encoding="utf-8") == "a file where a folder should be"


def test_a_loss_that_is_not_finite_marks_the_run_as_diverged(tmp_path, monkeypatch):
    config = runs.config(tmp_path, "optim=sgd", "optim.lr=1e30", "trainer.clip=null", "trainer.log_every=1")
    with pytest.raises(
        DivergedError, match=r"^the training loss is (nan|inf) at step \d+; lower optim\.lr or lengthen"
    ):
        run(config)
    record = plan_run(config).record
    status = record.status()
    assert status["state"] == "diverged"
    assert status["reason"].startswith("the training loss is")
    assert record.metrics()[-1]["train/loss"] is None  # JSON has no NaN
    keep_out_of_training(monkeypatch)
    with pytest.raises(DivergedError, match=r"at step \d+; .* \(recorded in .*; delete it to try again\)$"):
        run(config)
    shutil.rmtree(record.folder)
    with pytest.raises(TypeError):  # it tries
        run(config)


def test_a_loss_that_rises_marks_the_run_as_diverged(tmp_path):
    settings = ["optim=sgd", "optim.lr=300", "trainer.clip=null", "schedule=constant", "schedule.warmup_steps=4"]
    with pytest.raises(
        DivergedError, match=r"^the training loss rose from .* to .* at step \d+; lower optim\.lr, or al"
    ):
        run(runs.config(tmp_path, *settings, "trainer.log_every=1", "trainer.stop_above=1.01"))


def test_an_evaluation_that_is_not_finite_marks_the_run_as_diverged(tmp_path, scratch_registry):
    @register("task", "unstable")
    class Unstable(NextToken):
        def metrics(self, sums, n_bytes):
            return {**super().metrics(sums, n_bytes), "loss": float("nan")}

    with pytest.raises(DivergedError, match=r"^val/loss is nan at step 6; lower optim\.lr$"):
        run(runs.config(tmp_path, "task=unstable"))


def test_the_best_weights_are_those_of_the_lowest_evaluation(tmp_path, scratch_registry):
    losses = iter([2.0, 1.0, 3.0])

    @register("task", "scripted")
    class Scripted(NextToken):
        def metrics(self, sums, n_bytes):
            return {**super().metrics(sums, n_bytes), "loss": next(losses)}

    record = run(runs.config(tmp_path, "task=scripted", "trainer.val_every=4"))
    assert record.summary()["best"]["step"] == 8
    assert record.summary()["final"]["val/loss"] == 3.0
    assert torch.load(record.best_checkpoint, weights_only=True)["step"] == 8


def test_a_test_part_is_scored_with_the_best_weights(tmp_path):
    test = runs.write_text(tmp_path / "test.txt", seed=5)
    record = run(runs.config(tmp_path, f"data.test={test}", f"data.val={test}"))
    summary = record.summary()
    assert summary["test"]["test/loss"] == summary["best"]["val/loss"]


def test_records_are_found_by_folder_hash_and_last(tmp_path):
    outputs = tmp_path / "outputs"
    with pytest.raises(RunError, match=r"^there are no runs under .*/runs; start one with: tfexp train$"):
        find_record("last", outputs)
    for name, updated in (("a-1234567890", 2.0), ("b-1299999999", 1.0)):
        folder = outputs / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("seed: 0\n", encoding="utf-8")
        (folder / "status.json").write_text(json.dumps({"state": "running", "updated": updated}), encoding="utf-8")
    assert find_record("last", outputs).hash == find_record("123", outputs).hash == "1234567890"
    assert find_record(str(outputs / "runs" / "b-1299999999"), Path("elsewhere")).hash == "1299999999"
    with pytest.raises(RunError, match=r"^'12' fits 2 runs: a-1234567890, b-1299999999; give more of the hash$"):
        find_record("12", outputs)
    with pytest.raises(RunError, match=r"^no run 'abc' under .*; there are: a-1234567890, b-1299999999$"):
        find_record("abc", outputs)
    with pytest.raises(RunError, match=r"is not a run: it has no config\.yaml$"):
        Record(outputs).config()


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path):
    record = Record(tmp_path)
    for step in (1, 2, 3):
        record.append_metrics(step, {"loss": step / 2})
    with open(record.metrics_file, "a", encoding="utf-8") as stream:
        stream.write('{"step": 4, "lo')
    assert [line["step"] for line in record.metrics()] == [1, 2, 3]
    record.keep_metrics_until(2)
    assert record.metrics_file.read_text(encoding="utf-8").splitlines() == [
        '{"step": 1, "loss": 0.5}',
        '{"step": 2, "loss": 1.0}',
    ]
    assert record_module.SUMMARY_VERSION == 1
    assert os.listdir(tmp_path) == ["metrics.jsonl"]
