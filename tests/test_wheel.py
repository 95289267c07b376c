"""The wheel carries its YAML and its Hydra plugin, and trains outside of the repository."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MUST_CARRY = [
    "tfexp/conf/train.yaml",
    "tfexp/conf/model/position/rope.yaml",
    "tfexp/conf/ablation/quickstart.yaml",
    "tfexp/ablation/report/templates/report.html.j2",
    "hydra_plugins/tfexp/__init__.py",
    "hydra_plugins/tfexp/sweeper.py",
]
TRAIN = [
    "train", "data=text_files", "data.train=text.txt", "data/tokenizer=char", "data.seq_len=8", "data.batch_size=2",
    "model.d_model=16", "model.n_layers=1", "trainer.max_steps=2", "trainer.val_every=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.mark.parametrize("path", MUST_CARRY)
def test_carries(wheel, path):
    assert path in zipfile.ZipFile(wheel).namelist()


def test_carries_no_tests_or_outputs(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"tfexp", "hydra_plugins", next(top for top in tops if top.endswith(".dist-info"))}


def test_an_installed_wheel_finds_its_yaml_and_trains(wheel, tmp_path):
    site, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (work / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 40, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(site)}
    where = [sys.executable, "-c", "import tfexp.config.compose as c; print(c.conf_dir())"]
    assert subprocess.run(where, env=env, cwd=work, capture_output=True, text=True).stdout.startswith(str(site))
    done = subprocess.run(
        [sys.executable, "-m", "tfexp", *TRAIN], env=env, cwd=work, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (summary,) = work.glob("outputs/runs/*/summary.json")
    assert json.loads(summary.read_text(encoding="utf-8"))["status"] == "complete"
