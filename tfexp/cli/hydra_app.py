"""Runs a task function under Hydra: `-m`, launchers, `--cfg`, `--info` and tab completion are Hydra's."""

import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import hydra
from omegaconf import DictConfig

from tfexp.config.compose import VERSION_BASE, conf_dir, force_values, prepare_groups
from tfexp.errors import ConfigError, nearest


def run_hydra(task: Callable[[DictConfig], Any], arguments: list[str]) -> None:
    """Compose `conf/train.yaml` with the command line and call `task` once, or once per job.

    Args:
        task: A module-level function, which a launcher may send to another process.
        arguments: What follows the verb.
    """
    config_dir = next((after for flag, after in pairwise([*arguments, ""]) if flag in ("--config-dir", "-cd")), None)
    prepare_groups([a for a in arguments if "=" in a and not a.startswith("-")], config_dir)
    several = any(flag in arguments for flag in ("-m", "--multirun"))
    errors: list[Exception] = []
    before = sys.argv
    sys.argv = [before[0], *_in_one_piece(force_values(arguments))]
    try:
        # Of several jobs the sweeper keeps account; the error of one is raised here, past Hydra's own print.
        job = task if several else _keeping_errors(task, errors)
        hydra.main(version_base=VERSION_BASE, config_path=str(conf_dir()), config_name="train")(job)()
    finally:
        sys.argv = before
    if errors:
        raise errors[0]


TAKES_A_VALUE = {
    *("--cfg", "-c", "--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn"),
    *("--package", "-p", "--experimental-rerun"),
}
FLAGS = TAKES_A_VALUE | {
    *("-m", "--multirun", "-r", "--run", "--resolve", "-i", "--info", "--version"),
    *("-h", "--help", "--hydra-help", "-sc", "--shell-completion"),
}


def _in_one_piece(arguments: list[str]) -> list[str]:
    """Overrides first, flags behind them: Hydra's parser refuses `a=1 -m b=2`."""
    overrides, flags, previous = [], [], ""
    for argument in arguments:
        if argument.startswith("-") and argument.partition("=")[0] not in FLAGS:
            raise ConfigError(f"{argument}: unknown flag; {nearest(argument, FLAGS, limit=20)}")
        (flags if argument.startswith("-") or previous in TAKES_A_VALUE else overrides).append(argument)
        previous = argument
    return [*overrides, *flags]


def _keeping_errors(task: Callable[[DictConfig], Any], errors: list[Exception]) -> Callable[[DictConfig], Any]:
    def job(config: DictConfig) -> Any:
        try:
            return task(config)
        except Exception as error:
            errors.append(error)

    return job
