"""Whether a task, a model and data fit together."""

from typing import cast

from omegaconf import DictConfig

from tfexp.config.freeze import to_plain
from tfexp.data.corpus import Source
from tfexp.errors import ConfigError, IncompatibleError, nearest
from tfexp.model.spec import SIDES, ModelSpec
from tfexp.registry import create, names, resolve
from tfexp.tasks.base import Task


def check_task(config: DictConfig) -> None:
    """Refuse a model or data that the task cannot use, before anything is read.

    Raises:
        IncompatibleError: Organisation or head of the model do not fit the task.
        ConfigError: The data are of another kind, or the monitored metric is not measured.
    """
    plain = to_plain(config)
    spec = ModelSpec.from_config(plain["model"])
    task = cast(Task, create("task", plain["task"], {}))
    component, head = resolve("task", plain["task"]["name"]), spec.component("head")
    name = component.name
    if spec.architecture not in task.architectures:
        raise IncompatibleError(
            f"model.architecture: task={name} trains {' or '.join(task.architectures)}, got '{spec.architecture}'"
        )
    for trait in sorted(component.needs - head.gives):
        fitting = [n for n in names("head") if trait in resolve("head", n).gives]
        raise IncompatibleError(
            f"model.head: task={name} needs '{trait}', which '{head.name}' does not give; use {' or '.join(fitting)}"
        )
    source = cast(Source, create("data", plain["data"], {}))
    if source.kind not in task.reads:
        raise ConfigError(
            f"data: task={name} reads {' or '.join(task.reads)}, and data={plain['data']['name']} has {source.kind}"
        )
    monitor, measured = plain["trainer"]["monitor"], task.monitors(source.kind)
    if monitor is not None and monitor not in measured:
        raise ConfigError(
            f"trainer.monitor: not every evaluation of task={name} measures '{monitor}'; {nearest(monitor, measured)}"
        )
    _check_length(task, name, plain["data"]["seq_len"], spec)


def _check_length(task: Task, name: str, seq_len: int, spec: ModelSpec) -> None:
    longest, stack = task.longest_input(seq_len), spec.stack_spec(SIDES[spec.architecture][-1])
    position = stack.component("position")
    if longest > stack.max_seq_len and "extrapolates" not in position.gives:
        raise IncompatibleError(
            f"model.max_seq_len: task={name} evaluates on {longest} tokens, and position={position.name} has only "
            f"{stack.max_seq_len} positions; raise it to {longest}"
        )
