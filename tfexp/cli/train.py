"""`tfexp train`: one config, or a sweep with -m."""

import shlex
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from tfexp.cli.arguments import show
from tfexp.cli.hydra_app import run_hydra
from tfexp.config.freeze import freeze, to_plain
from tfexp.config.settings import RunSettings
from tfexp.errors import ConfigError

USAGE = """\
usage: tfexp train [key=value ...] [-m] [--cfg job] [--config-dir DIR]

Train one config. The run's folder is a function of the config and the data: a complete run is
reused, an interrupted one goes on.

  key=value          override a key or choose from a group: model/position=rope optim.lr=1e-3
  -m, --multirun     run every combination of comma-separated values: seed=0,1,2
  --cfg job          print the composed config and stop
  --config-dir DIR   a folder with groups or choices of your own
  --hydra-help       Hydra's own options
"""


def run(arguments: list[str]) -> int:
    if "-h" in arguments or "--help" in arguments:
        print(USAGE, end="")
        return 0
    run_hydra(train_one, arguments)
    return 0


def train_one(config: DictConfig) -> str:
    """Train what Hydra composed, or the frozen cell that a study names; returns the run's folder."""
    from tfexp.training.notes import closing_notes
    from tfexp.training.run import run as run_config

    if config.get("cell"):
        cell = OmegaConf.load(Path(config.cell))
        assert isinstance(cell, DictConfig)
        return str(run_config(freeze(cell)).folder)
    if config.get("ablation"):
        raise ConfigError("ablation: tfexp train runs one config; use: tfexp ablate ablation=...")
    record = run_config(freeze(config), show)
    summary = record.summary()
    best, monitor = summary["best"], summary["monitor"]
    reused = " (complete already; nothing was trained)" if record.reused else ""
    show(f"{record.folder}: {monitor} {best[monitor]:.4f} at step {best['step']}{reused}")
    for title, values in (("final", summary["final"]), ("test", summary.get("test")), ("floors", summary["floors"])):
        if values:
            show(f"{title}: " + ", ".join(f"{k} {v:.4g}" for k, v in values.items() if k != "step"))
    for note in closing_notes(summary, to_plain(record.config())["data"]):
        show(note)
    name = record.hash if config.outputs == RunSettings.outputs else shlex.quote(str(record.folder))
    show(f"next: tfexp generate {name}    or: tfexp report {name}")
    return str(record.folder)
