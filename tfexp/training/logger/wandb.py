"""Weights & Biases."""

import os
import shlex
import sys
from collections.abc import Mapping
from netrc import NetrcParseError, netrc
from typing import Any

from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.training.mirror import Mirror, RunInfo


@register("logger", "wandb")
class WandbLogger(Mirror):
    """One wandb run per run: its own folder, id = the run's hash, group = the study.

    It closes as the run ended, so the next run of a sweep opens its own. It never asks for a key:
    without one it stays offline, and `wandb sync` sends the folder later.

    Args:
        run: The run to show.
        project: wandb project.
        entity: wandb user or team; null = the default of the account.
        offline: true or false; null = offline unless a key is there.
    """

    def __init__(
        self, run: RunInfo, *, project: str = "tfexp", entity: str | None = None, offline: bool | None = None
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ConfigError("logger=wandb needs the package wandb: pip install wandb, or use logger=csv") from error
        if offline is False and not _has_key():
            raise ConfigError("logger.wandb.offline: false needs a key; run `wandb login` first, or use null or true")
        self.wandb, self.run = wandb, run
        self.project, self.entity = project, entity
        self.offline = not _has_key() if offline is None else offline

    def start(self) -> None:
        if self.offline:
            runs = f"{shlex.quote(str(self.run.folder))}/wandb/offline-run-*"
            print(f"wandb is offline; send this run later with: wandb sync {runs}", file=sys.stderr)
        self.session = self.wandb.init(
            project=self.project,
            entity=self.entity,
            id=self.run.id,
            name=self.run.name,
            group=self.run.group,
            tags=list(self.run.tags),
            dir=str(self.run.folder),
            config=dict(self.run.config),
            mode="offline" if self.offline else "online",
            resume=None if self.offline else "allow",
            reinit="finish_previous",
            settings=self.wandb.Settings(console="off", silent=True),
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.session.log(dict(metrics), step=step)

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        self.session.summary.update({"status": status, **summary})
        self.session.finish(exit_code=0 if status == "complete" else 1)


def _has_key() -> bool:
    if os.environ.get("WANDB_MODE") in ("offline", "disabled", "dryrun"):
        return False
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return any("wandb" in host for host in netrc().hosts)
    except (OSError, NetrcParseError):
        return False
