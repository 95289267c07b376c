"""Tiny runs for tests: a text, a config that trains in a second, and ways to start both."""

import os
import random
import subprocess
import sys
from pathlib import Path

import torch
from omegaconf import DictConfig

import tfexp
from tfexp.training.record import Record

ROOT = Path(__file__).parents[1]
TIMINGS = ("time/", "throughput/")
TINY_RUN = [
    "data=text_files",
    "data/tokenizer=char",
    "data.batch_size=4",
    "model.d_model=16",
    "model.n_layers=1",
    "model.n_heads=2",
    "model.d_ff=32",
    "model.max_seq_len=8",
    "trainer.max_steps=12",
    "trainer.val_every=6",
    "trainer.log_every=4",
    "trainer.precision=32-true",
    "trainer.accelerator=cpu",
    "trainer.progress=false",
    "schedule.warmup_steps=2",
]


def write_text(path: Path, words: int = 600, seed: int = 0) -> Path:
    """A text of a few words in random order: about two characters of entropy each, quick to learn."""
    choice = random.Random(seed)
    path.write_text(" ".join(choice.choice(["ab", "cd", "efg", "hi"]) for _ in range(words)), encoding="utf-8")
    return path


def overrides(folder: Path, *more: str) -> list[str]:
    """Overrides of a tiny run on `text.txt` in a folder, with its outputs there too."""
    text = folder / "text.txt"
    if not text.exists():
        write_text(text)
    return [*TINY_RUN, f"data.train={text}", f"outputs={folder / 'outputs'}", *more]


def config(folder: Path, *more: str) -> DictConfig:
    return tfexp.compose(*overrides(folder, *more))


def without_timings(record: Record) -> list[dict[str, float]]:
    """The lines of metrics.jsonl less what depends on the machine's mood."""
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in record.metrics()]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment, on one thread as the tests are, without a way to reach a dashboard."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB", "HYDRA", "PYTHONHASHSEED"))}
    return {**kept, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "COLUMNS": "200", **changes}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tfexp", *arguments]


def start(*arguments: str, cwd: Path = ROOT, **changes: str) -> subprocess.Popen[str]:
    """Start `tfexp ...` in a process of its own, without a terminal and without standard input."""
    return subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env=environment(PYTHONPATH=os.pathsep.join([str(ROOT), changes.pop("PYTHONPATH", "")]), **changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def tfexp_process(*arguments: str, cwd: Path = ROOT, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run `tfexp ...` in a process of its own to its end."""
    with start(*arguments, cwd=cwd, **changes) as process:
        stdout, stderr = process.communicate(timeout=240)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def python_process(code: str, cwd: Path = ROOT, **changes: str) -> str:
    """What a piece of Python prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=environment(PYTHONPATH=str(ROOT), **changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def weights(record: Record, file: str = "last.ckpt") -> dict[str, torch.Tensor]:
    """The parameters in a run's checkpoint, by name."""
    state = torch.load(record.folder / "checkpoints" / file, weights_only=True)
    if "model" in state:
        return state["model"]
    return {k.removeprefix("model."): v for k, v in state["state_dict"].items()}


def assert_same_result(one: Record, other: Record) -> None:
    """Two runs that agree in every metric and every parameter, bit for bit."""
    assert without_timings(one) == without_timings(other)
    for file in ("last.ckpt", "best.pt"):
        first, second = weights(one, file), weights(other, file)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
