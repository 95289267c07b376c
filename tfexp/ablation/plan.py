"""From a study to cells: frozen configs, their folders, parameters and FLOPs, before anything runs."""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from tfexp.ablation.study import Study, Variant
from tfexp.config.compose import compose_tree
from tfexp.config.freeze import freeze, to_plain
from tfexp.errors import ConfigError, IncompatibleError, RunError, nearest
from tfexp.files import write_json, write_text
from tfexp.model.count import count_parameters, flops_per_token, meta_model
from tfexp.model.spec import ModelSpec
from tfexp.registry import check_choice, create
from tfexp.training.record import Record
from tfexp.training.run import PlannedRun, plan_run
from tfexp.training.signature import signature

PLAN_VERSION = 1  # of plan.json, documented in docs/records.md


@dataclass(frozen=True)
class Cell:
    """One variant with one seed.

    Args:
        variant: Name of the variant.
        seed: Of all its random streams.
        hash: Names the run.
        folder: Of the run's record.
        config_file: The frozen config, as it will run.
        signature: The run in one line.
        parameters: Of the model.
        flops_per_token: Of a training step.
        tokens: That training will see.
    """

    variant: str
    seed: int
    hash: str
    folder: str
    config_file: str
    signature: str
    parameters: int
    flops_per_token: float
    tokens: int

    @property
    def record(self) -> Record:
        return Record(Path(self.folder))


@dataclass(frozen=True)
class Plan:
    """All cells of a study.

    Args:
        study: As it was stated.
        arguments: Of the command line that made it, as they were typed.
        folder: `outputs/studies/<name>`.
        cells: What will run.
        pruned: Variant -> why it cannot work.
    """

    study: Study
    arguments: tuple[str, ...]
    folder: Path
    cells: tuple[Cell, ...]
    pruned: dict[str, str]

    def command(self) -> str:
        """The command that runs this plan."""
        return shlex.join(["tfexp", "ablate", *self.arguments])

    def save(self) -> None:
        """Write plan.json."""
        value = {
            "plan_version": PLAN_VERSION,
            "study": asdict(self.study),
            "arguments": list(self.arguments),
            "command": self.command(),
            "cells": [asdict(cell) for cell in self.cells],
            "pruned": self.pruned,
        }
        write_json(self.folder / "plan.json", value)


def make_plan(overrides: Sequence[str], config_dir: str | None = None) -> Plan:
    """Compose every cell, check it, prepare its data, and freeze it into the study's folder.

    Args:
        overrides: Of the command line; `ablation=NAME` among them.
        config_dir: A folder with groups or choices of your own.

    Raises:
        ConfigError: The study, or one of its cells, could not run.
    """
    tree = compose_tree(overrides, config_dir)
    plain = OmegaConf.to_container(tree, resolve=True)
    assert isinstance(plain, dict)
    study = Study.from_config(plain.get("ablation"), plain.get("seeds"))
    own = tuple(o for o in overrides if _key(o) not in ("ablation", "seeds"))
    _check_free(study, own)
    outputs = Path(str(plain["outputs"]))
    folder = outputs / "studies" / study.name
    _check_metric(study, compose_tree([*study.base, *own], config_dir))
    _make_folder(folder / "cells")
    cells, pruned = [], {}
    for variant in study.all_variants():
        try:
            cells += list(_cells(study, variant, own, folder, config_dir))
        except IncompatibleError as error:
            pruned[variant.name] = str(error)
    if not cells:
        raise IncompatibleError(f"ablation={study.name}: no variant can run: {next(iter(pruned.values()))}")
    plan = Plan(
        study, (*overrides, *(("--config-dir", config_dir) if config_dir else ())), folder, tuple(cells), pruned
    )
    plan.save()
    return plan


def load_plan(folder: Path) -> Plan:
    """The plan in a study's folder."""
    file = folder / "plan.json"
    if not file.is_file():
        raise RunError(f"{folder} is not a study: it has no plan.json")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{file} is damaged; make it anew with: tfexp plan ablation=...") from error
    if value["plan_version"] > PLAN_VERSION:
        raise RunError(f"{file} was written by a newer tfexp (plan version {value['plan_version']})")
    cells = tuple(Cell(**cell) for cell in value["cells"])
    return Plan(Study(**value["study"]), tuple(value["arguments"]), folder, cells, value["pruned"])


def _cells(study: Study, variant: Variant, own: Sequence[str], folder: Path, config_dir: str | None) -> Iterator[Cell]:
    # What the user says on the command line is stronger than the study's base, the variant than both.
    overrides = [*study.base, *own, *variant.overrides, "trainer.progress=false"]
    # Hydra refuses two choices from one group, so the strongest alone is passed on.
    strongest = {_key(override): override for override in overrides}
    tree = compose_tree(list(strongest.values()), config_dir)
    for seed in study.seed_list():
        tree.seed, tree.study = seed, study.name
        planned = plan_run(freeze(tree))
        yield _cell(variant.name, seed, planned, folder)


def _cell(variant: str, seed: int, planned: PlannedRun, folder: Path) -> Cell:
    config, record = planned.config, planned.record
    file = folder / "cells" / f"{record.hash}.yaml"
    write_text(file, OmegaConf.to_yaml(config))
    plain = to_plain(config)
    model = meta_model(ModelSpec.from_config(plain["model"]))
    length, tokens = planned.usual_batch()
    trainer = plain["trainer"]
    return Cell(
        variant=variant,
        seed=seed,
        hash=record.hash,
        folder=os.fspath(record.folder),
        config_file=os.fspath(file),
        signature=signature(plain),
        parameters=count_parameters(model).total,
        flops_per_token=flops_per_token(model, length),
        tokens=trainer["max_steps"] * trainer["accumulate"] * tokens,
    )


def _check_metric(study: Study, tree: DictConfig) -> None:
    task = create("task", check_choice("task", OmegaConf.to_container(tree.task, resolve=True), "task"), {})
    measured = [f"val/{name}" for name in task.metric_names]
    if study.metric not in measured:
        raise ConfigError(f"ablation.metric: '{study.metric}' is not measured; {nearest(study.metric, measured)}")


def _key(override: str) -> str:
    return override.lstrip("+~").partition("=")[0]


def _check_free(study: Study, own: Sequence[str]) -> None:
    """What a study varies cannot be fixed beside it: the variant would win without a word."""
    varied = {_key(o) for variant in study.all_variants() for o in variant.overrides} | {"seed"}
    for override in own:
        if _key(override) in varied:
            what = "use seeds=..." if _key(override) == "seed" else "change the study, or leave the key out"
            raise ConfigError(f"{_key(override)}: ablation={study.name} varies it; {what}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"outputs: cannot write to {folder}: {error.strerror or error}") from error
