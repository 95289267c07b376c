"""Lightning's part of a run: the trainer, its callbacks, and the summary at the end."""

import logging
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.utilities.exceptions import SIGTERMException

from tfexp.config.freeze import to_plain
from tfexp.data.buckets import TrainBuckets
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.errors import DivergedError
from tfexp.model.count import count_parameters, flops_per_token
from tfexp.model.transformer import Transformer
from tfexp.registry import create
from tfexp.tasks.base import Task, TrainBatches, higher_is_better
from tfexp.training.callbacks import Checkpointer, Evaluator, Journal, StopSignal
from tfexp.training.evaluate import EvalSet, prefixed
from tfexp.training.loader import train_loader
from tfexp.training.machine import matmul_flops, record_of_machine
from tfexp.training.mirror import Mirrors
from tfexp.training.module import TrainingModule
from tfexp.training.notes import counts_of
from tfexp.training.progress import ProgressBar
from tfexp.training.record import SUMMARY_VERSION, Record, read_checkpoint


def fit(config: DictConfig, data: PreparedData, model: Transformer, record: Record, mirrors: Mirrors) -> dict[str, Any]:
    """Train to the end, or to the signal that stops it; returns and writes the summary."""
    trainer_settings, task = config.trainer, cast(Task, create("task", to_plain(config)["task"], {}))
    module = _module(config, model, task)
    progress = ProgressBar(record.folder.name, trainer_settings.max_steps) if trainer_settings.progress else None
    started, write = time.time(), _writer(record, mirrors, progress)
    spec = DataSpec.from_node(to_plain(config)["data"])
    val = EvalSet(task, data, "val", spec, trainer_settings.precision)
    batches = task.train_batches(data, spec, config.seed)
    with StopSignal() as stop:
        journal, evaluator, saver = _callbacks(config, record, write, val, stop)
        trainer = _trainer(config, [journal, evaluator, saver, *([progress] if progress else [])])
        resumed = _resume_point(record)
        loader = train_loader(batches, resumed["micro_batch"] if resumed else 0, config.data.workers)
        record.keep_metrics_until(resumed["step"] if resumed else 0)
        try:
            _quietly(trainer.fit, module, loader, ckpt_path=str(record.last_checkpoint) if resumed else None)
        except SIGTERMException:
            pass  # raised between two steps, after the checkpoint: `stop` knows of the signal, too
        except DivergedError:
            raise
        except BaseException as error:
            # A second Ctrl-C, which Lightning turns into an exit, or a loader worker that the signal killed.
            if stop.received is None and not isinstance(error, SystemExit):
                raise
            raise KeyboardInterrupt from error
        finally:
            if progress:
                progress.close()
        if stop.received is not None and trainer.global_step < trainer_settings.max_steps:
            raise KeyboardInterrupt
    summary = _summary(config, batches, val, module, journal, evaluator, record)
    summary["seconds"]["this_process"] = round(time.time() - started, 3)
    record.finish(summary)
    return summary


def _module(config: DictConfig, model: Transformer, task: Task) -> TrainingModule:
    plain = to_plain(config)
    optimizer = create("optim", plain["optim"], {"model": model})
    available = {"max_steps": config.trainer.max_steps, "d_model": config.model.d_model}
    schedule = create("schedule", plain["schedule"], available)
    if config.trainer.compile:
        model.compile()  # in place, so that checkpoints keep their names
    return TrainingModule(model, task, optimizer, schedule, config.seed, config.trainer.accumulate, config.trainer.clip)


def _callbacks(
    config: DictConfig, record: Record, write: Any, val: EvalSet, stop: StopSignal
) -> tuple[Journal, Evaluator, Checkpointer]:
    t = config.trainer
    journal = Journal(write, [t.log_every, t.val_every], t.max_steps, t.stop_above)
    monitor = f"val/{t.monitor or val.task.monitor}"
    evaluator = Evaluator(write, val, t.val_every, t.max_steps, monitor, record.best_checkpoint)
    rules = [t.val_every, *([t.checkpoint_every] if t.checkpoint_every else [])]
    return journal, evaluator, Checkpointer(record.last_checkpoint, rules, t.max_steps, stop)


def _trainer(config: DictConfig, callbacks: list[pl.Callback]) -> pl.Trainer:
    t = config.trainer
    return _quietly(
        pl.Trainer,
        max_steps=t.max_steps,
        max_epochs=-1,
        accelerator=t.accelerator,
        devices=t.devices,
        strategy=t.strategy,
        precision=t.precision,
        accumulate_grad_batches=t.accumulate,
        callbacks=callbacks,
        # All of these are done by the callbacks here, or not wanted.
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1_000_000_000,
    )


def _writer(
    record: Record, mirrors: Mirrors, progress: ProgressBar | None
) -> Callable[[int, Mapping[str, float]], None]:
    def write(step: int, metrics: Mapping[str, float]) -> None:
        record.append_metrics(step, metrics)
        mirrors.log(step, metrics)
        if progress is not None:
            progress.show(step, metrics)

    return write


def _resume_point(record: Record) -> dict[str, int] | None:
    """Where the last checkpoint stands; None if there is none."""
    if not record.last_checkpoint.is_file():
        return None
    checkpoint = read_checkpoint(record.last_checkpoint)
    return {"step": checkpoint["global_step"], "micro_batch": checkpoint["tfexp"]["micro_batch"]}


def _quietly(call: Any, *arguments: Any, **options: Any) -> Any:
    """Call into Lightning without its advice on logging, workers and devices."""
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"pytorch_lightning.*")
        warnings.filterwarnings("ignore", message=r".*(lr_scheduler\.step|isinstance\(treespec, LeafSpec\)).*")
        return call(*arguments, **options)


def _summary(
    config: DictConfig,
    batches: TrainBatches,
    val: EvalSet,
    module: TrainingModule,
    journal: Journal,
    evaluator: Evaluator,
    record: Record,
) -> dict[str, Any]:
    assert evaluator.best is not None
    model = cast(Transformer, module.model)
    device = next(model.parameters()).device
    data, task = val.data, val.task
    mean_length, of_batches = _describe(batches, val, config.data.seq_len)
    counted, flops = count_parameters(model), flops_per_token(model, mean_length)
    speed = journal.tokens / journal.seconds
    dtype = torch.bfloat16 if config.trainer.precision == "bf16-mixed" else torch.float32
    return {
        "summary_version": SUMMARY_VERSION,
        "signature": (record.folder / "signature.txt").read_text(encoding="utf-8").strip(),
        "hash": record.hash,
        "seed": config.seed,
        "status": "complete",
        "final": evaluator.last,
        "best": evaluator.best,
        "monitor": evaluator.monitor,
        "checkpoint_rule": _checkpoint_rule(evaluator.monitor),
        **_test_metrics(config, val, module, record),
        "floors": task.floors(data, val.spec),
        "details": evaluator.details,
        "parameters": {
            "total": counted.total, "non_embedding": counted.non_embedding, "trainable": counted.trainable,
        },
        "flops_per_token": flops,
        "tokens_seen": journal.tokens,
        "seconds": {"training": round(journal.seconds, 3)},
        "tokens_per_s": speed,
        "flop_utilisation": speed * flops / matmul_flops(device, dtype),
        "data": {"fingerprint": data.fingerprint, **data.report, **of_batches},
        "tokenizer": {"fingerprint": data.tokenizer.fingerprint(), "vocab_size": data.tokenizer.vocab_size},
        **record_of_machine(device),
    }  # fmt: skip


def _describe(batches: TrainBatches, val: EvalSet, seq_len: int) -> tuple[int, dict[str, Any]]:
    """The mean length of an example, and what the record says of padding and of examples that are too long."""
    report: dict[str, Any] = {}
    for part in (name for name in val.data.parts if name != "train"):
        report |= counts_of(part, replace(val, part=part).batches)
    if not isinstance(batches, TrainBuckets):
        return seq_len, report
    of_training = {"train_padding_share": batches.padding_share(), **counts_of("train", batches)}
    return max(1, round(batches.mean_length)), of_training | report


def _checkpoint_rule(monitor: str) -> str:
    extreme = "highest" if higher_is_better(monitor) else "lowest"
    return f"{extreme} {monitor} over all evaluations"


def _test_metrics(config: DictConfig, val: EvalSet, module: TrainingModule, record: Record) -> dict[str, Any]:
    """Metrics on the test part, if there is one, of the weights that `trainer.test_on` names."""
    if "test" not in val.data.parts:
        return {}
    if config.trainer.test_on == "best":
        module.model.load_state_dict(read_checkpoint(record.best_checkpoint)["model"])
    found = replace(val, part="test").evaluate(module.model, final=True)
    return {
        "test": prefixed("test", found.metrics),
        "test_weights": config.trainer.test_on,
        "test_details": found.details,
    }
