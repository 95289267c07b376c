"""A run of each task from its first step to its record: learned, stopped, gone on, reused, evaluated, refused."""

import json
import os
import signal

import pytest
import torch

import tfexp
from tests import runs
from tests.training.task_runs import NOISY, TASKS, config, overrides
from tfexp.cli.main import main
from tfexp.registry import resolve
from tfexp.training.record import Record
from tfexp.training.reevaluate import reevaluate
from tfexp.training.run import plan_run, run

MEASURED = {
    "classification": {"loss", "accuracy", "macro_f1", "micro_f1"},
    "masked_lm": {"loss", "perplexity", "accuracy", "bits_per_byte"},
    "translation": {"loss", "perplexity", "accuracy", "exact_match", "bleu_subset", "chrf_subset"},
    "next_token_of_pairs": {"loss", "perplexity", "accuracy", "exact_match"},
    "next_token_of_tags": {"loss", "perplexity", "accuracy", "exact_match"},
}
AT_THE_END = {"translation": {"bleu", "chrf"}}
FLOORS = {
    "classification": {"majority_accuracy"},
    "masked_lm": {"unigram_entropy", "bigram_entropy"},
    "translation": {f"{name}_{score}" for name in ("copy", "nearest", "words") for score in ("bleu", "chrf")},
}
DETAILS = {
    "classification": {"labels", "confusion", "f1", "texts", "macro_f1_leaves_out"},
    "translation": {"bleu_signature", "chrf_signature", "decoding"},
}
# The micro-batch in which each run is stopped: the first, inside a window, at and after an evaluation, the last but
# one.
STOPS = {
    "classification": 5,
    "masked_lm": 11,
    "translation": 6,
    "next_token_of_pairs": 7,
    "next_token_of_tags": 1,
}
RULES = {
    "classification": ("classification", None, "highest val/accuracy"),
    "loss_of_a_classifier": ("classification", "loss", "lowest val/loss"),
    "bleu_of_a_subset": ("translation", "bleu_subset", "highest val/bleu_subset"),
    "bits_per_byte": ("masked_lm", "bits_per_byte", "lowest val/bits_per_byte"),
}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Uninterrupted runs, by task; each trained when it is first asked for."""
    made: dict[str, Record] = {}

    def get(name: str) -> Record:
        if name not in made:
            made[name] = run(config(name, tmp_path_factory.mktemp(name), *NOISY))
        return made[name]

    return get


def task_class(name: str) -> type:
    return resolve("task", name.partition("_of_")[0]).target


@pytest.mark.parametrize("name", TASKS)
def test_a_run_learns_and_records_what_its_task_measures(straight, name):
    record = straight(name)
    summary, lines = record.summary(), record.metrics()
    assert record.state == "complete"
    losses = [line["train/loss"] for line in lines if "train/loss" in line]
    assert losses[-1] < losses[0]
    evaluations = [{n for n in line if n != "step"} for line in lines if "val/loss" in line]
    expected = {f"val/{metric}" for metric in MEASURED[name]}
    final = {f"val/{metric}" for metric in MEASURED[name] | AT_THE_END.get(name, set())}
    assert evaluations == [expected, final]
    assert summary["final"].keys() == final | {"step"}
    tested = {f"test/{metric.removeprefix('val/')}" for metric in final if not metric.endswith("_subset")}
    assert summary["test"].keys() == tested
    assert summary["test_weights"] == "best"
    assert summary["floors"].keys() == FLOORS.get(name, set())
    assert summary["details"].keys() == summary["test_details"].keys() == DETAILS.get(name, set())
    assert (record.labels_file.is_file(), len(record.labels())) == (
        (True, 10) if "confusion" in summary["details"] else (False, 0)
    )


@pytest.mark.parametrize("name", TASKS)
def test_a_record_counts_tokens_padding_and_what_was_too_long(straight, name, tmp_path):
    record = straight(name)
    batches = plan_run(record.config()).batches
    assert record.summary()["tokens_seen"] == sum(batches[k].count_tokens() for k in range(12))
    counts = record.summary()["data"]
    of_rows = {"train_padding_share"} | {
        f"{part}_{what}" for part in ("train", "val", "test") for what in ("overlong", "answers_cut")
    }
    assert of_rows & counts.keys() == (set() if name == "masked_lm" else of_rows)
    if name != "masked_lm":
        assert 0 <= counts["train_padding_share"] < 0.5
        assert counts["test_overlong"] <= 10


@pytest.mark.parametrize(("name", "stop"), STOPS.items())
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, monkeypatch, straight, name, stop):
    task, seen = task_class(name), []
    original = task.loss

    def loss(self, model, batch):
        seen.append(1)
        if len(seen) == stop:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, model, batch)

    made = config(name, tmp_path, *NOISY)
    with monkeypatch.context() as patched:
        patched.setattr(task, "loss", loss)
        with pytest.raises(KeyboardInterrupt):
            run(made)
    record = plan_run(made).record
    assert record.status()["state"] == "interrupted"
    assert run(made).state == "complete"
    runs.assert_same_result(record, straight(name))
    same = ("final", "best", "details", "test", "test_details", "tokens_seen", "floors")
    assert {key: record.summary()[key] for key in same} == {key: straight(name).summary()[key] for key in same}


@pytest.mark.parametrize("name", TASKS)
def test_the_same_command_trains_once(straight, monkeypatch, name):
    record = straight(name)
    monkeypatch.setattr(task_class(name), "loss", None)
    again = run(record.config())
    assert (again.folder, again.reused) == (record.folder, True)


@pytest.mark.parametrize("name", TASKS)
def test_the_number_of_workers_changes_nothing(straight, tmp_path, name):
    runs.assert_same_result(run(config(name, tmp_path, *NOISY, "data.workers=2")), straight(name))


@pytest.mark.parametrize("name", TASKS)
def test_another_evaluation_finds_the_same_numbers(straight, name):
    record = straight(name)
    best, last = (reevaluate(record, weights=weights) for weights in ("best", "last"))
    recorded = record.summary()
    assert {metric: best[metric] for metric in recorded["best"] if metric != "step"} == {
        metric: value for metric, value in recorded["best"].items() if metric != "step"
    }
    assert {metric: value for metric, value in best.items() if metric.startswith("test/")} == recorded["test"]
    assert {"step": 12, **{m: v for m, v in last.items() if m.startswith("val/")}} == recorded["final"]


@pytest.mark.parametrize("name", ["classification", "translation"])
def test_the_command_line_evaluates_to_the_same_numbers(straight, name, capsys):
    record = straight(name)
    assert main(["evaluate", str(record.folder), "--json", "--weights", "last"]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]
    assert {m: v for m, v in found.items() if m.startswith("val/")} == {
        m: v for m, v in record.summary()["final"].items() if m != "step"
    }


def test_the_weights_that_are_tested_are_a_setting(tmp_path):
    found = {}
    for which in ("best", "last"):
        # So low a rate that no text changes its class: of equals, the first evaluation is the best.
        record = run(config("classification", tmp_path, "optim.lr=1e-5", f"trainer.test_on={which}"))
        summary = record.summary()
        assert summary["best"]["step"] == 6
        assert summary["test_weights"] == which
        again = reevaluate(record, weights=which)
        assert {m: v for m, v in again.items() if m.startswith("test/")} == summary["test"]
        found[which] = summary["test"]["test/loss"]
    assert found["best"] != found["last"]


@pytest.mark.parametrize(("name", "monitor", "rule"), RULES.values(), ids=RULES)
def test_the_best_weights_are_those_of_the_watched_metric(tmp_path, name, monitor, rule):
    given = [f"trainer.monitor={monitor}"] if monitor else []
    record = run(config(name, tmp_path, "trainer.val_every=3", *given))
    summary = record.summary()
    assert summary["checkpoint_rule"] == f"{rule} over all evaluations"
    order, metric = rule.split()
    assert summary["monitor"] == metric
    values = {line["step"]: line[metric] for line in record.metrics() if metric in line}
    assert len(values) == 4
    best = (max if order == "highest" else min)(values.values())
    first = next(step for step, value in values.items() if value == best)  # of equals, the first
    assert (summary["best"]["step"], summary["best"][metric]) == (first, best)
    assert torch.load(record.best_checkpoint, weights_only=True)["step"] == first


def test_longer_inputs_are_evaluated_at_the_end_of_a_run(tmp_path):
    record = run(runs.config(tmp_path, "task.extrapolate=[2,4]", "trainer.max_steps=6"))
    final = record.summary()["final"]
    assert {"val/loss_2x", "val/bits_per_byte_2x", "val/loss_4x", "val/bits_per_byte_4x"} <= final.keys()
    assert reevaluate(record, ["data.seq_len=16"])["val/loss"] == pytest.approx(final["val/loss_2x"], rel=1e-6)
    assert "val/loss_2x" not in record.metrics()[0]


def test_texts_of_several_classes(tmp_path):
    words = ["ant", "bee", "cat", "dog"]
    rows = [(f"{a} {b} {c}", ",".join(sorted({a, b} & {"ant", "bee"}))) for a in words for b in words for c in words]
    table = tmp_path / "rows.jsonl"
    lines = [json.dumps({"text": text, "label": label.split(",") if label else []}) for text, label in rows]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = [
        "task=classification",
        "task.multi_label=true",
        "data=table_files",
        f"data.train={table}",
        "data.text=text",
    ]
    small = [o for o in overrides("classification", tmp_path) if "listops" not in o and "data." not in o][1:]
    record = run(tfexp.compose(*given, "data.label=label", "data/tokenizer=word", *small))
    assert record.labels() == ("ant", "bee")
    assert record.summary()["details"].keys() == {"labels", "f1", "texts", "macro_f1_leaves_out"}
    assert record.summary()["floors"] == {}
    assert reevaluate(record)["val/loss"] == record.summary()["best"]["val/loss"]
