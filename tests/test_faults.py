"""Damaged files, stale states and edited parts: named, mended, or trained anew; never a lie and never a traceback."""

import json
import re
import shutil
from pathlib import Path

import pytest

import tfexp
from tests import runs
from tfexp.ablation.results import results_of_runs
from tfexp.cli.main import main
from tfexp.errors import ConfigError, DataError, RunError
from tfexp.training.record import Record
from tfexp.training.run import plan_run, run

GARBAGE = b"\x80\x02not what it was"
DAMAGED = {
    "best": ("checkpoints/best.pt", "evaluate", r"best\.pt is damaged .*; delete it"),
    "tokenizer": ("tokenizer.json", "evaluate", r"tokenizer\.json is no tokenizer file"),
    "config": ("config.yaml", "evaluate", r"config\.yaml is damaged"),
}
PLUGIN = """\
from tfexp import register
from tfexp.components.base import Position

@register("position", "{name}")
class Mine(Position):
    def embed(self, x, positions):
        return x * {factor}
"""


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of a finished run that a test may damage."""
    folder = tmp_path / "outputs" / "runs" / trained.folder.name
    shutil.copytree(trained.folder, folder)
    return Record(folder)


@pytest.mark.parametrize(("file", "verb", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_named_in_a_line(copied, capsys, file, verb, message):
    (copied.folder / file).write_bytes(GARBAGE)
    assert main([verb, str(copied.folder)]) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert re.search(message, error)


def test_a_damaged_last_checkpoint_is_named_before_training_goes_on(tmp_path):
    config = runs.config(tmp_path)
    record = run(config)
    record.set_status("interrupted", "a test")
    record.last_checkpoint.write_bytes(GARBAGE)
    with pytest.raises(RunError, match=r"last\.ckpt is damaged .*; delete it to train from the start"):
        run(config)


@pytest.mark.parametrize("lost", ["summary.json", "checkpoints/best.pt"])
def test_a_complete_run_that_lost_a_file_is_trained_anew(tmp_path, lost):
    config = runs.config(tmp_path)
    record = run(config)
    final = record.summary()["final"]
    (record.folder / lost).unlink()
    again = run(config)
    assert not again.reused
    assert again.is_complete
    assert again.summary()["final"] == final
    assert run(config).reused


@pytest.mark.parametrize("content", [b"[1]", GARBAGE, b""], ids=["list", "binary", "empty"])
def test_a_damaged_status_counts_as_none(copied, content):
    (copied.folder / "status.json").write_bytes(content)
    assert copied.status() == {}
    assert copied.state is None


def test_a_running_state_without_a_process_is_interrupted(copied):
    copied.set_status("running")
    assert copied.status()["state"] == "running"
    assert copied.state == "interrupted"
    assert copied.status()["step"] == copied.metrics()[-1]["step"]


def test_a_damaged_cache_is_made_anew(tmp_path):
    config = runs.config(tmp_path)
    first = plan_run(config).data
    before = first.parts["train"].ids.tolist()
    (train,) = (tmp_path / "outputs" / "cache").glob("*/train.text.ids.npy")
    train.write_bytes(GARBAGE)
    again = plan_run(config).data
    assert again.fingerprint == first.fingerprint
    assert again.parts["train"].ids.tolist() == before


def test_the_same_text_at_another_place_is_the_same_run(tmp_path):
    here, there = runs.write_text(tmp_path / "a.txt"), tmp_path / "b c" / "d=e.txt"
    there.parent.mkdir()
    shutil.copy(here, there)
    folders = [plan_run(runs.config(tmp_path, f"++data.train='{path}'")).record.folder for path in (here, there)]
    assert folders[0] == folders[1]
    there.write_text(here.read_text() + "more", encoding="utf-8")
    assert plan_run(runs.config(tmp_path, f"++data.train='{there}'")).record.folder != folders[0]


def test_an_edited_component_of_ones_own_is_another_run(tmp_path, scratch_registry):
    hashes = []
    for number, factor in enumerate((1.0, 1.0, 2.0)):
        file = tmp_path / f"plugin{number}.py"
        file.write_text(PLUGIN.format(name="mine", factor=factor), encoding="utf-8")
        config = runs.config(tmp_path, f"plugins=[{file}]", "model/position=mine")
        hashes.append(plan_run(config).record.hash)
        del scratch_registry._components["position"]["mine"]
    assert hashes[0] == hashes[1] != hashes[2]


def test_runs_are_grouped_by_everything_but_the_seed(tmp_path):
    settings = [("seed=0", "trainer.clip=0.5"), ("seed=1", "trainer.clip=0.5"), ("seed=0", "trainer.clip=0.25")]
    records = [run(runs.config(tmp_path, *setting)) for setting in settings]
    result = results_of_runs(records)
    assert {row.name: row.n for row in result.rows} == {"trainer.clip=0.5": 2, "trainer.clip=0.25": 1}
    assert results_of_runs([records[0], records[0]]).rows[0].n == 1  # named twice is still one run


def test_a_run_on_its_way_stands_in_the_row_of_its_config(tmp_path):
    records = [run(runs.config(tmp_path, f"seed={seed}")) for seed in (0, 1)]
    records[1].summary_file.unlink()
    records[1].set_status("interrupted")
    (row,) = results_of_runs(records).rows
    assert [r.state for r in row.runs] == ["complete", "interrupted"]


def test_a_model_beyond_any_memory_is_refused_in_a_line(tmp_path, capsys):
    huge = ["model.d_model=1e9", "model.d_ff=null", "trainer.max_steps=1"]
    given = [
        o for o in runs.overrides(tmp_path) if not o.startswith(("model.d_model", "model.d_ff", "trainer.max_steps"))
    ]
    assert main(["train", *given, *huge]) == 1
    assert "error: not enough memory: lower data.batch_size" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e400"])
def test_a_number_that_is_not_finite_is_refused(tmp_path, value):
    with pytest.raises(ConfigError, match=r"^optim\.lr: expected float > 0, got"):
        runs.config(tmp_path, f"optim.lr={value}")


STUDY = "name: {name}\nmetric: {metric}\nbase: [model=small]\nfactors:\n  model/position: [rope, none]\nseeds: 1\n"
WRONG_STUDIES = {
    "metric": (STUDY.format(name="a", metric="val/los"), "ablation.metric: 'val/los' is not measured; did you mean"),
    "name": (STUDY.format(name="../../out", metric="val/loss"), "ablation.name: expected letters, digits"),
    "yaml": ("name: [a, b\nfactors", "while parsing"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_STUDIES.values(), ids=WRONG_STUDIES)
def test_a_wrong_study_is_refused_before_anything_is_trained(tmp_path, capsys, text, message):
    (tmp_path / "conf" / "ablation").mkdir(parents=True)
    (tmp_path / "conf" / "ablation" / "wrong.yaml").write_text(text, encoding="utf-8")
    given = ["ablation=wrong", *runs.overrides(tmp_path), "--config-dir", str(tmp_path / "conf")]
    assert main(["ablate", *given]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "outputs" / "runs").exists()


def test_the_recorded_command_is_the_one_that_was_typed(tmp_path, capsys):
    (tmp_path / "conf" / "ablation").mkdir(parents=True)
    study = STUDY.format(name="other_name", metric="val/loss")
    (tmp_path / "conf" / "ablation" / "mine.yaml").write_text(study, encoding="utf-8")
    given = ["ablation=mine", *runs.overrides(tmp_path), "--config-dir", str(tmp_path / "conf")]
    assert main(["plan", *given]) == 0
    plan = json.loads(Path(tmp_path, "outputs", "studies", "other_name", "plan.json").read_text(encoding="utf-8"))
    assert "ablation=mine" in plan["command"]
    assert plan["command"].endswith(f"--config-dir {tmp_path / 'conf'}")


def test_a_missing_config_folder_is_named(capsys):
    assert main(["plan", "ablation=quickstart", "--config-dir", "nowhere"]) == 1
    assert "--config-dir: there is no folder nowhere" in capsys.readouterr().err


def test_a_tokenizer_file_that_is_none_is_named(tmp_path):
    from tfexp.data.tokenization import Tokenizer

    (tmp_path / "tokenizer.json").write_bytes(GARBAGE)
    with pytest.raises(DataError, match=r"tokenizer\.json is no tokenizer file"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")


def test_an_empty_outputs_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^outputs: expected a folder, got an empty name"):
        tfexp.compose(*runs.overrides(tmp_path), "outputs=''")
