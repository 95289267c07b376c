"""wandb from the command line: never a prompt, one run per run, closed as it ended (H37, H38)."""

import shutil
import subprocess
import sys

import pytest

from tests import runs
from tests.cli.wandb_files import offline_runs
from tfexp.training.record import all_records

QUICK = ["logger=wandb", "trainer.max_steps=4", "trainer.val_every=4", "trainer.log_every=2"]
# Makes `import wandb` fail in every process that has this folder on its path.
BLOCKER = "raise ImportError('not installed')\n"


def home(folder) -> dict[str, str]:
    """An environment of somebody who never logged in and cannot reach anything."""
    (folder / "home").mkdir(exist_ok=True)
    return {"HOME": str(folder / "home"), "WANDB_BASE_URL": "http://127.0.0.1:9"}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Three jobs of one sweep, the second of which diverges."""
    folder = tmp_path_factory.mktemp("sweep")
    settings = ["optim=sgd", "trainer.clip=null", "-m", "optim.lr=0.1,1e30,0.01"]
    done = runs.tfexp_process("train", *runs.overrides(folder, *QUICK), *settings, **home(folder))
    return folder, done


def test_a_sweep_opens_a_wandb_run_per_job(sweep):
    folder, _ = sweep
    records = {record.hash: record for record in all_records(folder / "outputs")}
    found = {run.id: run for run in offline_runs(folder / "outputs")}
    assert found.keys() == records.keys()
    assert len(found) == 3
    for run in found.values():
        record = records[run.id]
        assert run.config["optim"]["lr"] == record.config().optim.lr
        assert run.steps == sorted(set(run.steps))
        assert set(run.steps) == {line["step"] for line in record.metrics()}
        assert (folder / "outputs" / "runs" / record.folder.name / "wandb").is_dir()


def test_a_job_that_fails_closes_its_wandb_run_as_failed_and_the_next_opens_its_own(sweep):
    folder, done = sweep
    states = {record.hash: record.state for record in all_records(folder / "outputs")}
    assert {(states[run.id], run.exit_code) for run in offline_runs(folder / "outputs")} == {
        ("complete", 0),
        ("diverged", 1),
    }
    assert sorted(states.values()) == ["complete", "complete", "diverged"]
    assert done.returncode == 1
    assert "error: 1 of 3 jobs failed:\n  optim.lr=1e+30: DivergedError: " in done.stderr


def test_without_a_key_wandb_is_offline_with_a_notice(sweep):
    folder, done = sweep
    for record in all_records(folder / "outputs"):
        hint = f"wandb is offline; send this run later with: wandb sync {record.folder}/wandb/offline-run-*"
        assert done.stderr.count(hint) == 1
    assert done.stdout == ""


def test_online_without_a_key_is_refused_before_training(tmp_path):
    done = runs.tfexp_process(
        "train", *runs.overrides(tmp_path, *QUICK, "logger.wandb.offline=false"), **home(tmp_path)
    )
    assert done.returncode == 1
    assert done.stderr == (
        "error: logger.wandb.offline: false needs a key; run `wandb login` first, or use null or true\n"
    )
    assert not (tmp_path / "outputs" / "runs").exists()


def test_an_absent_package_is_refused_before_training(tmp_path):
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "wandb.py").write_text(BLOCKER, encoding="utf-8")
    done = runs.tfexp_process(
        "train", *runs.overrides(tmp_path, *QUICK), PYTHONPATH=str(tmp_path / "blocked"), **home(tmp_path)
    )
    assert done.returncode == 1
    assert done.stderr == "error: logger=wandb needs the package wandb: pip install wandb, or use logger=csv\n"
    assert not (tmp_path / "outputs" / "runs").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("script") is None, reason="needs script(1) for a terminal")
def test_a_terminal_is_not_asked_either(tmp_path):
    line = " ".join([*runs.command("train"), *runs.overrides(tmp_path, *QUICK)])
    env = runs.environment(PYTHONPATH=str(runs.ROOT), **home(tmp_path))
    done = subprocess.run(
        ["script", "-qec", line, "/dev/null"],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        cwd=runs.ROOT,
    )
    assert done.returncode == 0, done.stdout
    assert b"wandb is offline" in done.stdout
    assert len(offline_runs(tmp_path / "outputs")) == 1
    assert sys.executable in line
