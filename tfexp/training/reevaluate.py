"""Score a finished run again, also at another length or on other text with the same tokenizer."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from omegaconf import DictConfig, OmegaConf

from tfexp.config.dotlist import read_dotlist
from tfexp.config.freeze import freeze, to_plain
from tfexp.data.prepare import encode_with
from tfexp.data.spec import DataSpec
from tfexp.data.tokenization import Tokenizer
from tfexp.errors import ConfigError
from tfexp.registry import create, resolve
from tfexp.tasks.base import Task
from tfexp.training.api import load_record
from tfexp.training.evaluate import EvalSet, prefixed
from tfexp.training.notes import counts_of, notes
from tfexp.training.record import Record


def reevaluate(
    record: Record,
    overrides: Sequence[str] = (),
    weights: Literal["best", "last"] = "best",
    tell: Callable[[str], None] = lambda note: None,
) -> dict[str, Any]:
    """Metrics of every evaluation part, named `val/...` and `test/...`.

    Args:
        record: A run.
        overrides: Keys of `data`, such as `data.seq_len=256`, and `trainer.precision`; the model stays what it is.
        weights: Of the best evaluation, or of the last step.
        tell: Is told of examples that are too long, or were trained on.

    Raises:
        ConfigError: An override that would change the model, or a length that it cannot take.
    """
    config = _with_overrides(freeze(record.config()), overrides)
    model = load_record(record, weights, config.trainer.precision)
    tokenizer: Tokenizer = model.tokenizer
    task = cast(Task, create("task", to_plain(config)["task"], {}))
    data = encode_with(tokenizer, record.labels(), to_plain(config)["data"])
    spec = DataSpec.from_node(to_plain(config)["data"])
    metrics: dict[str, Any] = {}
    for part in ("val", "test"):
        if part in data.parts:
            made = EvalSet(task, data, part, spec, config.trainer.precision)
            metrics |= prefixed(part, made.evaluate(model, final=True).metrics)
            counts = {**data.report, **counts_of(part, made.batches)}
            for note in notes(counts, to_plain(config)["data"], [part]):
                tell(note)
    return metrics


def _with_overrides(config: DictConfig, overrides: Sequence[str]) -> DictConfig:
    for override in overrides:
        key, sign, _ = override.partition("=")
        if not sign:
            raise ConfigError(f"{override}: expected key=value, such as data.seq_len=256")
        if key == "data.tokenizer" or key.startswith("data.tokenizer."):
            raise ConfigError(f"{key}: a run is bound to the vocabulary it was trained with")
        if not key.startswith("data.") and key != "trainer.precision":
            raise ConfigError(
                f"{key}: an evaluation can change the data, not what was trained; keys: data.*, trainer.precision"
            )
    changed = OmegaConf.unsafe_merge(OmegaConf.create(to_plain(config)), read_dotlist(overrides))
    assert isinstance(changed, DictConfig)
    length = changed.data.seq_len
    extrapolates = "extrapolates" in resolve("position", changed.model.position.name).gives
    if extrapolates and isinstance(length, int):
        changed.model.max_seq_len = max(changed.model.max_seq_len, length)
    return freeze(changed)
