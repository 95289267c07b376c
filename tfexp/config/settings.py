"""The typed shape of `conf/train.yaml`."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from tfexp.model.spec import ModelSpec
from tfexp.schema import NO_EFFECT, ChoiceOf, ChoicesOf, Range

AskedPrecision = Literal["auto", "32-true", "bf16-mixed"]  # a `Precision`, or the best one of the machine


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """How a run is driven.

    Args:
        max_steps: Optimizer steps.
        val_every: Evaluate on the whole validation part every so many steps, and at the end.
        log_every: Write a line of metrics every so many steps.
        precision: `auto` = bf16-mixed where the device has bfloat16 arithmetic, else 32-true.
        accelerator: `auto` = a GPU if there is one.
        devices: Devices of one run.
        strategy: How several devices share a run.
        accumulate: Micro-batches per optimizer step.
        clip: Largest norm of the gradient of all parameters; null = no clipping.
        compile: Run the model through torch.compile.
        stop_above: The run counts as diverged when the mean loss of a log window exceeds this
            multiple of the first window's; null = only when it is not finite.
        checkpoint_every: Save a checkpoint every so many steps, besides at every evaluation;
            null = only then.
        monitor: The metric whose best evaluation keeps the best weights, such as `loss` or `bleu_subset`; null = the
            task's.
        test_on: The weights that are tested at the end: of the best evaluation, or of the last step.
        progress: Show a progress bar.
    """

    max_steps: Annotated[int, Range(ge=1)]
    val_every: Annotated[int, Range(ge=1)] = 200
    log_every: Annotated[int, Range(ge=1)] = 20
    precision: AskedPrecision = "auto"
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: Annotated[int, Range(ge=1)] = 1
    strategy: Literal["auto"] = "auto"
    accumulate: Annotated[int, Range(ge=1)] = 1
    clip: Annotated[float | None, Range(gt=0)] = 1.0
    compile: bool = False
    stop_above: Annotated[float | None, Range(gt=1)] = 3.0
    checkpoint_every: Annotated[int | None, Range(ge=1), NO_EFFECT] = None
    monitor: str | None = None
    test_on: Literal["best", "last"] = "best"
    progress: Annotated[bool, NO_EFFECT] = True


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that a run is told.

    Args:
        task, data, optim, schedule, generation: One registered choice each.
        model: Geometry and one component per slot.
        trainer: How the run is driven.
        logger: Mirrors of the record, by name; the record itself is always written.
        seed: Of every random stream.
        plugins: Modules or files that register components of your own.
        outputs: Folder of all runs, studies and caches.
        ablation: The study, for `tfexp ablate` and `tfexp plan`.
        seeds: Seeds of a study: how many, or which; null = what the study says.
        study: The study that asks for the run, for dashboards; set by studies.
        cell: A frozen config file to run instead of this one; set by studies.
    """

    task: Annotated[Any, ChoiceOf("task")]
    data: Annotated[Any, ChoiceOf("data")]
    model: ModelSpec
    optim: Annotated[Any, ChoiceOf("optim")]
    schedule: Annotated[Any, ChoiceOf("schedule")]
    trainer: TrainerSettings
    logger: Annotated[dict[str, Any], ChoicesOf("logger"), NO_EFFECT] = field(default_factory=dict)
    generation: Annotated[Any, ChoiceOf("generation"), NO_EFFECT] = "sample"
    seed: Annotated[int, Range(ge=0)] = 0
    plugins: Annotated[list[str], NO_EFFECT] = field(default_factory=list)
    outputs: Annotated[str, NO_EFFECT] = "outputs"
    ablation: Annotated[dict[str, Any] | None, NO_EFFECT] = None
    seeds: Annotated[int | list[int] | None, NO_EFFECT] = None
    study: Annotated[str | None, NO_EFFECT] = None
    cell: Annotated[str | None, NO_EFFECT] = None
