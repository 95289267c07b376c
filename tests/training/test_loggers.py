"""Mirrors of the record: each shows one run, closes as it ended, and never harms it."""

import csv
import os
import signal
import sys

import pytest

from tests import runs
from tfexp.errors import ConfigError
from tfexp.registry import create, register
from tfexp.tasks.next_token import NextToken
from tfexp.training.callbacks import AfterStep
from tfexp.training.logger import wandb as wandb_module
from tfexp.training.mirror import Mirror, Mirrors, RunInfo
from tfexp.training.record import Record
from tfexp.training.run import run

RUN = RunInfo("0123456789", "a-name", runs.ROOT, None, {}, ())
MISSING = {
    "wandb": ("wandb", "logger=wandb needs the package wandb: pip install wandb, or use logger=csv"),
    "tensorboard": ("torch.utils.tensorboard", "logger=tensorboard needs the package tensorboard: pip install"),
}


def read_csv(record: Record) -> list[dict[str, str]]:
    with open(record.folder / "metrics.csv", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def assert_csv_mirrors(record: Record) -> None:
    """The same numbers as in metrics.jsonl, a row per step."""
    expected: dict[int, dict[str, float]] = {}
    for line in record.metrics():
        expected.setdefault(int(line["step"]), {}).update(line)
    found = [{k: float(v) for k, v in row.items() if v} for row in read_csv(record)]
    assert found == list(expected.values())


class Recorder(Mirror):
    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def start(self):
        self.calls.append(("start",))

    def log(self, step, metrics):
        self.calls.append(("log", step))

    def finish(self, status, summary):
        self.calls.append(("finish", status, summary))


class Broken(Recorder):
    def log(self, step, metrics):
        super().log(step, metrics)
        raise ConnectionError("no route")


@pytest.fixture
def recorder(scratch_registry):
    """A registered logger that notes its calls."""
    made = []

    @register("logger", "recorder")
    def make(run: RunInfo):
        made.append(Recorder())
        made[-1].run = run
        return made[-1]

    return made


def test_the_csv_file_mirrors_the_record(trained):
    assert_csv_mirrors(trained)
    assert [row["step"] for row in read_csv(trained)] == ["4", "6", "8", "12"]


def test_the_csv_file_of_a_resumed_run_is_whole(tmp_path, monkeypatch):
    config = runs.config(tmp_path, "logger=csv")
    original, seen = NextToken.loss, []

    def loss(self, model, batch):
        seen.append(1)
        if len(seen) == 9:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, model, batch)

    monkeypatch.setattr(NextToken, "loss", loss)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    assert_csv_mirrors(run(config))


def test_tensorboard_has_a_folder_per_run(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for seed in (0, 1):
        record = run(runs.config(tmp_path, "logger=tensorboard", f"seed={seed}", "trainer.max_steps=6"))
        events = EventAccumulator(str(record.folder / "tensorboard"))
        events.Reload()
        assert [event.step for event in events.Scalars("train/loss")] == [4, 6]
        losses = [line["train/loss"] for line in record.metrics() if "train/loss" in line]
        assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(losses)
        assert "status/text_summary" in events.Tags()["tensors"]


def test_several_mirrors_see_the_run_from_start_to_finish(tmp_path, recorder):
    record = run(runs.config(tmp_path, "+logger=[csv,recorder]", "study=study"))
    (mirror,) = recorder
    steps = [("log", line["step"]) for line in record.metrics()]
    assert mirror.calls[:-1] == [("start",), *steps]
    kind, status, summary = mirror.calls[-1]
    assert (kind, status) == ("finish", "complete")
    assert summary["final/val/loss"] == record.summary()["final"]["val/loss"]
    assert mirror.run.id == record.hash
    assert (mirror.run.group, mirror.run.folder) == ("study", record.folder)
    assert "position:rope" in mirror.run.tags
    assert (record.folder / "metrics.csv").is_file()


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt, "interrupted"), (RuntimeError, "failed")], ids=["interrupted", "failed"]
)
def test_a_mirror_closes_as_the_run_ended(tmp_path, monkeypatch, recorder, error, status):
    def fail(self, model, batch):
        raise error("in the middle")

    monkeypatch.setattr(NextToken, "loss", fail)
    with pytest.raises(error):
        run(runs.config(tmp_path, "logger=recorder"))
    assert recorder[0].calls == [("start",), ("finish", status, {})]


def test_a_mirror_that_fails_is_reported_once_and_left_alone():
    good, broken = Recorder(), Broken()
    mirrors = Mirrors({"good": good, "broken": broken})
    mirrors.start()
    with pytest.warns(UserWarning, match=r"^logger=broken stopped: ConnectionError: no route$"):
        mirrors.log(1, {})
    mirrors.log(2, {})
    mirrors.finish("complete", {})
    assert broken.calls == [("start",), ("log", 1)]
    assert good.calls == [("start",), ("log", 1), ("log", 2), ("finish", "complete", {})]


@pytest.mark.parametrize(("module", "message"), MISSING.values(), ids=MISSING)
def test_a_missing_package_is_refused_before_training(tmp_path, monkeypatch, module, message):
    monkeypatch.setitem(sys.modules, module, None)
    (name,) = [n for n, row in MISSING.items() if row[0] == module]
    with pytest.raises(ConfigError) as error:
        run(runs.config(tmp_path, f"logger={name}"))
    assert str(error.value).startswith(message)
    assert not (tmp_path / "outputs" / "runs").exists()


def test_wandb_is_offline_without_a_key(tmp_path, monkeypatch):
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert create("logger", {"name": "wandb"}, {"run": RUN}).offline is True
    with pytest.raises(ConfigError, match=r"^logger\.wandb\.offline: false needs a key; run `wandb login` first, or"):
        create("logger", {"name": "wandb", "offline": False}, {"run": RUN})
    (tmp_path / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password secret\n", encoding="utf-8")
    (tmp_path / ".netrc").chmod(0o600)
    assert create("logger", {"name": "wandb"}, {"run": RUN}).offline is False
    assert create("logger", {"name": "wandb", "offline": True}, {"run": RUN}).offline is True
    (tmp_path / ".netrc").write_text("not a netrc file", encoding="utf-8")
    assert wandb_module._has_key() is False
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert create("logger", {"name": "wandb"}, {"run": RUN}).offline is False
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert create("logger", {"name": "wandb"}, {"run": RUN}).offline is True


def test_a_callback_after_each_step_must_say_what_it_does():
    with pytest.raises(NotImplementedError):
        AfterStep().after_step(None, None, 1)


def test_a_mirror_need_not_do_anything():
    mirror = Mirror()
    assert [mirror.start(), mirror.log(1, {}), mirror.finish("complete", {})] == [None, None, None]
