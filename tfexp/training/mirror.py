"""The contract of a logger: a mirror of the record, which may fail without harming the run."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunInfo:
    """What a mirror is told of the run it shows.

    Args:
        id: The run's hash.
        name: Its slug.
        folder: Where its record lies.
        group: The study it belongs to, if any.
        config: The effective config.
        tags: Registered names of its components.
    """

    id: str
    name: str
    folder: Path
    group: str | None
    config: Mapping[str, Any]
    tags: tuple[str, ...]


class Mirror:
    """Shows one run. Built before training, when a missing package is still cheap to report."""

    def start(self) -> None:
        """Open the mirror."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the metrics of a step."""

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        """Close it as the run ended."""


class Mirrors:
    """All mirrors of a run; the first failure of one is reported, then it is left alone."""

    def __init__(self, mirrors: Mapping[str, Mirror]) -> None:
        self._live = dict(mirrors)

    def start(self) -> None:
        self._each(lambda mirror: mirror.start())

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._each(lambda mirror: mirror.log(step, metrics))

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        self._each(lambda mirror: mirror.finish(status, summary))

    def _each(self, act: Any) -> None:
        for name, mirror in list(self._live.items()):
            try:
                act(mirror)
            except Exception as error:  # a dashboard is never worth a run
                del self._live[name]
                warnings.warn(f"logger={name} stopped: {type(error).__name__}: {error}", stacklevel=2)
