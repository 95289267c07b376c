"""One config, run: data, model, task, trainer, evaluation, record, in that order."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tfexp.config.freeze import freeze, run_hash, to_plain
from tfexp.config.task import check_task
from tfexp.data.prepare import PreparedData, prepare
from tfexp.data.spec import DataSpec
from tfexp.errors import ConfigError, DivergedError
from tfexp.model.build import build_model
from tfexp.model.count import meta_model
from tfexp.model.spec import ModelSpec
from tfexp.model.transformer import Transformer
from tfexp.registry import create
from tfexp.tasks.base import Task, TrainBatches
from tfexp.training.lease import Lease
from tfexp.training.mirror import Mirrors, RunInfo
from tfexp.training.notes import counts_of, notes
from tfexp.training.record import Record
from tfexp.training.signature import signature, slug, tags


@dataclass(frozen=True)
class PlannedRun:
    """A run that is known down to its folder, before anything is trained.

    Args:
        config: Frozen, with the vocabulary size that the tokenizer gave.
        data: Encoded parts.
        record: Where it is or will be.
        batches: All that it trains on.
    """

    config: DictConfig
    data: PreparedData
    record: Record
    batches: TrainBatches

    def usual_batch(self, n: int = 8) -> tuple[int, int]:
        """Of a micro-batch, as the first `n` show it: the length of its rows, and the tokens that the model reads."""
        first = [self.batches[k] for k in range(n)]
        return round(sum(b.input_ids.shape[1] for b in first) / n), round(sum(b.count_tokens() for b in first) / n)


def plan_run(config: DictConfig) -> PlannedRun:
    """Prepare the data and work out which folder the run belongs to.

    Raises:
        ConfigError: The model cannot be built; found before the data are touched.
        DataError: The text is missing, unreadable or too short; found before a run's folder is made.
    """
    check_task(config)
    spec = _spec(config)
    meta_model(replace(spec, vocab_size=spec.vocab_size or 1, n_labels=spec.n_labels or 1))
    outputs = Path(config.outputs)
    data = prepare(to_plain(config)["data"], outputs / "cache")
    config = _with_sizes(config, data)
    batches = _check_batches(config, data)
    plain = to_plain(config)
    name = f"{slug(plain)}-{run_hash(config, data.fingerprint)}"
    return PlannedRun(config, data, Record(outputs / "runs" / name), batches)


def run(config: DictConfig, tell: Callable[[str], None] = lambda note: None) -> Record:
    """Train what a frozen config says, unless that was done before.

    A complete run is reused, an interrupted one goes on from its last checkpoint, one that another
    process is training is left alone.

    Args:
        config: From `freeze`.
        tell: Is told, before training starts, of training examples that are too long.

    Raises:
        RunError: Another process trains this run, or its folder cannot be written.
        DivergedError: The loss is not finite or far above its start, now or the last time.
        KeyboardInterrupt: A signal asked for the end; the run can be resumed.
    """
    planned = plan_run(config)
    record = planned.record
    if record.is_complete:
        record.reused = True
        return record
    if record.state == "diverged":
        raise DivergedError(f"{record.status()['reason']} (recorded in {record.folder}; delete it to try again)")
    model = build_model(_spec(planned.config), planned.config.seed)
    mirrors = _mirrors(planned)
    record.create()
    with Lease(record.folder):
        if record.is_complete:  # somebody finished it while we waited
            return record
        if record.state == "complete":  # but its summary or its weights are gone: it is trained anew
            record.last_checkpoint.unlink(missing_ok=True)
        counts = {**planned.data.report, **counts_of("train", planned.batches)}
        for note in notes(counts, to_plain(planned.config)["data"], ["train"]):
            tell(note)
        _train(planned, model, mirrors)
    return record


def _train(planned: PlannedRun, model: Transformer, mirrors: Mirrors) -> None:
    from tfexp.training.fit import fit  # Lightning takes seconds to import; a reused run needs none of it
    from tfexp.training.machine import reset_peak_memory

    record, plain = planned.record, to_plain(planned.config)
    record.begin(planned.config, signature(plain), planned.data.tokenizer.to_json(), planned.data.labels)
    mirrors.start()
    reset_peak_memory()
    status, summary = "failed", {}
    try:
        summary = fit(planned.config, planned.data, model, record, mirrors)
        status = "complete"
    except DivergedError as error:
        status = "diverged"
        record.set_status("diverged", str(error))
        raise
    except KeyboardInterrupt:
        status = "interrupted"
        record.set_status("interrupted", "stopped by a signal; run the same command again to go on")
        raise
    except BaseException as error:
        record.set_status("failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        mirrors.finish(status, _flat(summary))


def _mirrors(planned: PlannedRun) -> Mirrors:
    plain = to_plain(planned.config)
    record = planned.record
    info = RunInfo(record.hash, record.folder.name, record.folder, plain["study"], plain, tags(plain))
    return Mirrors({name: create("logger", node, {"run": info}) for name, node in plain["logger"].items()})


def _spec(config: DictConfig) -> ModelSpec:
    return ModelSpec.from_config(to_plain(config)["model"])


def _check_batches(config: DictConfig, data: PreparedData) -> TrainBatches:
    """Make the first batch of each part, so that what cannot be used is refused before a folder is made."""
    plain = to_plain(config)
    task: Task = create("task", plain["task"], {})
    spec = DataSpec.from_node(plain["data"])
    batches = task.train_batches(data, spec, config.seed)
    _ = batches[0]
    for part in data.parts:
        if part != "train":
            _ = task.eval_batches(data, part, spec)[0]
    return batches


def _with_sizes(config: DictConfig, data: PreparedData) -> DictConfig:
    """The config with the sizes that the data give: the vocabulary, and the classes if there are any."""
    found = {"vocab_size": ("tokenizer's", data.tokenizer.vocab_size), "n_labels": ("data's", len(data.labels))}
    changes = {}
    for key, (whose, size) in found.items():
        wanted = config.model[key]
        # Rows of an embedding may be spare; a class that no text has could be chosen and has no name.
        if wanted is not None and (wanted < size or (key == "n_labels" and wanted > size > 0)):
            order = "smaller" if wanted < size else "larger"
            raise ConfigError(f"model.{key}: {wanted} is {order} than the {whose} {size}; use null for the {whose}")
        if wanted is None and size:
            changes[key] = size
    if not changes:
        return config
    changed = OmegaConf.create(to_plain(config))
    changed.model.update(changes)
    return freeze(changed)


def _flat(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a summary under one level of names, as dashboards want them."""
    flat: dict[str, Any] = {}
    for name, value in summary.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}/{inner}": number for inner, number in value.items() if isinstance(number, (int, float))}
        elif isinstance(value, (int, float, str)):
            flat[name] = value
    return flat
