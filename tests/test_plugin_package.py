"""An idea of somebody else, built and installed as a package of its own: no fork, no plugins=... needed."""

import json
import subprocess
import sys

import pytest

from tests import runs
from tfexp.training.record import Record

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tfexp-clock-position"
version = "1.2.3"

[project.entry-points."tfexp.plugins"]
clock = "clock_position"

[tool.hatch.build.targets.wheel]
packages = ["clock_position"]
"""
CODE = '''\
"""A clock hand as a positional encoding."""

from typing import Annotated

import torch
from torch import Tensor

from tfexp.components.base import Position
from tfexp.registry import register
from tfexp.schema import Range


@register("position", "clock", gives={"absolute", "extrapolates"})
class Clock(Position):
    """Add the sine of the hour to every feature.

    Args:
        d_model: Width of the model.
        hours: Tokens until the hand is back. Usual: 12.
    """

    def __init__(self, d_model: int, *, hours: Annotated[int, Range(ge=2)] = 12) -> None:
        super().__init__()
        self.hours = hours

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        angle = positions[..., None] * (2 * torch.pi / self.hours)  # (B, T, 1)
        return x + angle.sin().to(x.dtype)
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> dict[str, str]:
    """The environment of somebody who has installed the package."""
    source = tmp_path_factory.mktemp("source")
    (source / "clock_position").mkdir()
    (source / "clock_position" / "__init__.py").write_text(CODE, encoding="utf-8")
    (source / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    target = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return {"PYTHONPATH": str(target)}


def test_an_installed_component_is_listed_and_shown(installed):
    done = runs.tfexp_process("list", "position", "--json", **installed)
    listed = {row["name"]: row for row in json.loads(done.stdout)["position"]}
    assert listed["clock"]["summary"] == "Add the sine of the hour to every feature."
    assert listed["clock"]["gives"] == ["absolute", "extrapolates"]
    assert "clock" not in runs.tfexp_process("list", "position").stdout
    shown = runs.tfexp_process("show", "position/clock", **installed)
    assert "hours  12  int >= 2" in shown.stdout
    assert shown.returncode == 0


def test_an_installed_component_trains_and_is_evaluated(installed, tmp_path):
    overrides = runs.overrides(tmp_path, "model/position=clock", "model.position.hours=6", "trainer.max_steps=2")
    done = runs.tfexp_process("train", *overrides, **installed)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "outputs" / "runs").iterdir()
    record = Record(folder)
    assert record.config().model.position == {"name": "clock", "hours": 6}
    assert "pos:clock[hours=6]" in record.summary()["signature"]
    evaluated = runs.tfexp_process("evaluate", str(folder), "data.seq_len=20", "--json", **installed)
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["metrics"]["val/loss"] > 0
    without = runs.tfexp_process("evaluate", str(folder))  # where the package is not installed
    assert without.returncode == 1
    assert without.stderr.startswith("error: model.position: unknown position 'clock'; ")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.position.hour=6", "error: model.position.hour: unknown key; did you mean 'hours'?\n"),
        ("model.position.hours=1", "error: model.position.hours: must be >= 2, got 1\n"),
        ("model.position.hours=many", "error: model.position.hours: expected int >= 2, got 'many'\n"),
    ],
    ids=["key", "range", "type"],
)
def test_the_keys_of_an_installed_component_are_checked(installed, tmp_path, override, message):
    done = runs.tfexp_process("train", *runs.overrides(tmp_path, "model/position=clock", override), **installed)
    assert (done.returncode, done.stderr) == (1, message)
    assert not (tmp_path / "outputs").exists()
