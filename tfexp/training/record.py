"""A run's folder: what ran, how far it is, what it measured. Files are written whole or not at all."""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from tfexp.errors import RunError
from tfexp.files import write_json, write_text
from tfexp.training.lease import holder_of

State = Literal["queued", "running", "complete", "failed", "diverged", "interrupted"]
SUMMARY_VERSION = 1  # of summary.json, documented in docs/records.md


class Record:
    """The files of one run.

    Args:
        folder: `outputs/runs/<slug>-<hash>`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reused = False  # whether this process found it complete and trained nothing
        self.config_file = folder / "config.yaml"
        self.metrics_file = folder / "metrics.jsonl"
        self.summary_file = folder / "summary.json"
        self.tokenizer_file = folder / "tokenizer.json"
        self.labels_file = folder / "labels.json"
        self.last_checkpoint = folder / "checkpoints" / "last.ckpt"
        self.best_checkpoint = folder / "checkpoints" / "best.pt"

    @property
    def hash(self) -> str:
        return self.folder.name.rpartition("-")[2]

    def create(self) -> None:
        """Make the folder, or say why it cannot be made."""
        try:
            (self.folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"outputs: cannot write to {self.folder}: {error.strerror or error}") from error

    def begin(self, config: DictConfig, signature: str, tokenizer: str, labels: tuple[str, ...] = ()) -> None:
        """Write what is about to run."""
        write_text(self.config_file, OmegaConf.to_yaml(config))
        write_text(self.folder / "signature.txt", signature + "\n")
        write_text(self.tokenizer_file, tokenizer)
        if labels:
            write_json(self.labels_file, list(labels))
        self.set_status("running")

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, then say that the run is complete."""
        write_json(self.summary_file, summary)
        self.set_status("complete", step=int(summary["final"]["step"]))

    def set_status(self, state: State, reason: str | None = None, step: int | None = None) -> None:
        if step is None:
            step = max((int(line["step"]) for line in self.metrics()), default=0)
        status = {"state": state, "reason": reason, "step": step}
        write_json(self.folder / "status.json", {**status, "updated": time.time()})

    def status(self) -> dict[str, Any]:
        """The last status, or an empty dict if nothing has run here."""
        return _read_json(self.folder / "status.json") or {}

    @property
    def state(self) -> State | None:
        """The state as it is now: a run whose process is gone is interrupted, whatever its file says."""
        state = self.status().get("state")
        return "interrupted" if state == "running" and holder_of(self.folder) is None else state

    @property
    def is_complete(self) -> bool:
        """Whether it ended well and what it made is still there."""
        return self.state == "complete" and self.summary_file.is_file() and self.best_checkpoint.is_file()

    def append_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        line = json.dumps({"step": step, **{name: _finite(value) for name, value in metrics.items()}})
        with open(self.metrics_file, "a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def metrics(self) -> list[dict[str, float]]:
        """Every complete line; one that was cut off by a crash is left out."""
        if not self.metrics_file.is_file():
            return []
        lines = self.metrics_file.read_text(encoding="utf-8").splitlines()
        return [value for line in lines if (value := _parse(line)) is not None and "step" in value]

    def keep_metrics_until(self, step: int) -> None:
        """Drop the lines after `step`, which a resumed run writes again."""
        kept = [json.dumps(line) + "\n" for line in self.metrics() if line["step"] <= step]
        write_text(self.metrics_file, "".join(kept))

    def summary(self) -> dict[str, Any]:
        """The summary of a complete run."""
        summary = _read_json(self.summary_file)
        if summary is None:
            raise RunError(
                f"{self.folder} has no summary: its state is '{self.state or 'unknown'}'; "
                "run its command again to go on"
            )
        return summary

    def labels(self) -> tuple[str, ...]:
        """The classes of the data it was trained on, in the order of their ids; empty if there are none."""
        if not self.labels_file.is_file():
            return ()
        try:
            return tuple(json.loads(self.labels_file.read_text(encoding="utf-8")))
        except ValueError as error:
            raise RunError(f"{self.labels_file} is damaged: {error}") from error

    def config(self) -> DictConfig:
        """The config that ran."""
        if not self.config_file.is_file():
            raise RunError(f"{self.folder} is not a run: it has no config.yaml")
        try:
            loaded = OmegaConf.load(self.config_file)
        except (YAMLError, UnicodeDecodeError) as error:
            raise RunError(f"{self.config_file} is damaged: {str(error).splitlines()[0]}") from error
        if not isinstance(loaded, DictConfig):
            raise RunError(f"{self.config_file} is damaged: it holds no config")
        return loaded


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint's content, without running any code that it might hold."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a file that is cut off or changed
        raise RunError(f"{path} is damaged ({type(error).__name__}); delete it to train from the start") from error


def find_record(reference: str, outputs: Path) -> Record:
    """The run that a folder, the start of a hash, or `last` names."""
    path = Path(reference).expanduser()
    if (path / "config.yaml").is_file():
        return Record(path)
    runs = all_records(outputs)
    if not runs:
        raise RunError(f"there are no runs under {outputs / 'runs'}; start one with: tfexp train")
    if reference == "last":
        return max(runs, key=lambda record: record.status().get("updated", 0.0))
    found = [record for record in runs if record.hash.startswith(reference)]
    if len(found) == 1:
        return found[0]
    if found:
        raise RunError(f"'{reference}' fits {len(found)} runs: {_names(found)}; give more of the hash")
    raise RunError(f"no run '{reference}' under {outputs / 'runs'}; there are: {_names(runs)}")


def all_records(outputs: Path) -> list[Record]:
    """Every run under a folder of outputs, by name."""
    return [Record(p.parent) for p in sorted((outputs / "runs").glob("*/config.yaml"))]


def _names(records: Iterable[Record], limit: int = 6) -> str:
    names = [record.folder.name for record in records]
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _read_json(path: Path) -> dict[str, Any] | None:
    return _parse(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None


def _parse(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _finite(value: float) -> float | None:
    # JSON has no NaN or infinity; a metric that is neither is null.
    return value if abs(value) < float("inf") else None
