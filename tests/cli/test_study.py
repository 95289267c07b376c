"""plan, ablate and report on a tiny study: two positions, two seeds."""

import json
import shutil
from pathlib import Path

import pytest

from tests import runs
from tfexp.cli.main import main
from tfexp.training.record import Record

STUDY = """\
name: tiny
question: Which of two positions?
base:
  - model=small
factors:
  model/position: [rope, none]
seeds: 2
"""
BASIC = "hydra/launcher=basic"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder with the study's YAML, and the arguments that choose it."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "conf" / "ablation").mkdir(parents=True)
    (folder / "conf" / "ablation" / "tiny.yaml").write_text(STUDY, encoding="utf-8")
    quick = runs.overrides(folder, "trainer.max_steps=4", "trainer.val_every=2")
    return folder, ["ablation=tiny", *quick, "--config-dir", str(folder / "conf")]


@pytest.fixture(scope="module")
def done(study):
    """The study, run once with the basic launcher."""
    assert main(["ablate", *study[1], BASIC]) == 0
    return study[0] / "outputs" / "studies" / "tiny"


def states(folder: Path) -> dict[str, float]:
    """When each run of a study last changed its status."""
    cells = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["cells"]
    return {cell["hash"]: Record(Path(cell["folder"])).status()["updated"] for cell in cells}


def test_a_plan_shows_every_cell_and_trains_nothing(study, tmp_path, capsys):
    elsewhere = [*study[1], f"outputs={tmp_path / 'plan'}"]
    assert main(["plan", *elsewhere, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [(cell["variant"], cell["seed"], cell["state"]) for cell in plan["cells"]] == [
        (variant, seed, "queued") for variant in ("rope", "none") for seed in (0, 1)
    ]
    assert not (tmp_path / "plan" / "runs").exists()
    assert main(["plan", *elsewhere, "seeds=3"]) == 0
    out, err = capsys.readouterr()
    assert "Which of two positions?" in out
    assert err.splitlines()[0] == f"{tmp_path}/plan/studies/tiny/plan.json"
    assert err.splitlines()[1].startswith("next: tfexp ablate ablation=tiny ")
    assert " seeds=3 " in err.splitlines()[1]


def test_a_study_ends_with_table_page_and_next_command(study, done, capsys):
    assert main(["ablate", *study[1], BASIC]) == 0
    out, err = capsys.readouterr()
    assert "rope" in out
    assert "none" in out
    assert "tiny: 4 runs, 4 there already" in err
    page, following = [line for line in err.splitlines() if line][-2:]
    assert page == f"page: {done}/report.html"
    assert following.startswith("next: tfexp generate ")
    assert (done / "report.html").is_file()


def test_a_second_study_trains_nothing(study, done, monkeypatch):
    before = states(done)
    assert len(before) == 4
    monkeypatch.setattr("tfexp.tasks.next_token.NextToken.loss", None)
    assert main(["ablate", *study[1], BASIC]) == 0
    assert states(done) == before


def test_only_what_is_missing_is_trained(study, done, tmp_path):
    before = states(done)
    assert main(["ablate", *study[1], BASIC, "seeds=[0,1,2]"]) == 0
    after = states(done)
    assert {name: after[name] for name in before} == before
    assert len(after) == 6
    assert main(["ablate", *study[1], BASIC]) == 0


def test_a_report_is_made_again_from_the_records(study, done, capsys):
    outputs = str(study[0] / "outputs")
    assert main(["report", "tiny", "--outputs", outputs, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert err == ""
    (done / "report.html").unlink()
    assert main(["report", str(done)]) == 0
    assert (done / "report.html").is_file()


@pytest.mark.slow
def test_the_default_launcher_gives_the_same_bits(study, done, tmp_path):
    # joblib: a process per core. The records must not show who has run them.
    arguments = [*study[1], f"outputs={tmp_path / 'joblib'}"]
    finished = runs.tfexp_process("ablate", *arguments)
    assert finished.returncode == 0, finished.stderr
    for folder in sorted((tmp_path / "joblib" / "runs").iterdir()):
        runs.assert_same_result(Record(folder), Record(study[0] / "outputs" / "runs" / folder.name))


def test_a_run_that_fails_does_not_cost_the_report(study, tmp_path, capsys):
    settings = ["optim=sgd", "optim.lr=1e30", "trainer.clip=null", "trainer.log_every=1"]
    arguments = [*study[1], *settings, f"outputs={tmp_path / 'bad'}", BASIC]
    assert main(["ablate", *arguments]) == 1
    out, err = capsys.readouterr()
    assert "error: 4 of 4 jobs failed:" in err
    assert "diverged" in out
    assert (tmp_path / "bad" / "studies" / "tiny" / "report.html").is_file()


def test_a_folder_that_is_no_study_is_refused(tmp_path, trained, capsys):
    shutil.copytree(trained.folder, tmp_path / "outputs" / "runs" / trained.folder.name)
    assert main(["report", "nope", "--outputs", str(tmp_path / "outputs")]) == 1
    assert capsys.readouterr().err.startswith("error: no run 'nope' under ")


def test_the_command_line_is_stronger_than_the_base_of_a_study(study, capsys):
    assert main(["plan", *study[1], "model=small", "model.n_layers=2", "--json"]) == 0
    widths = {cell["parameters"] for cell in json.loads(capsys.readouterr().out)["cells"]}
    assert main(["plan", *study[1], "--json"]) == 0
    assert widths != {cell["parameters"] for cell in json.loads(capsys.readouterr().out)["cells"]}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model/position=alibi", "model/position: ablation=tiny varies it; change the study"),
        ("seed=3", "seed: ablation=tiny varies it; use seeds="),
    ],
)
def test_what_a_study_varies_cannot_be_fixed_beside_it(study, capsys, override, message):
    assert main(["plan", *study[1], override]) == 1
    assert message in capsys.readouterr().err
