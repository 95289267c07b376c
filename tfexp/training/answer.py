"""What a run's model says to texts of one's own, as its task answers them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

from omegaconf import OmegaConf

from tfexp.config.freeze import freeze, to_plain
from tfexp.data.encoded import Ragged, ragged
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.data.tokenization import Tokenizer, TokenizerRecipe
from tfexp.errors import ConfigError
from tfexp.generation.generate import answer_all, told
from tfexp.generation.session import Session
from tfexp.model.mode import Precision, evaluating
from tfexp.model.transformer import Transformer
from tfexp.registry import check_choice, create
from tfexp.tasks.base import Prompts, Task
from tfexp.training.api import load_record
from tfexp.training.record import Record, find_record

Weights = Literal["best", "last"]


def task_of(record: Record) -> Task:
    """The task that a run was trained for."""
    return cast(Task, create("task", to_plain(freeze(record.config()))["task"], {}))


def precision_of(record: Record, wanted: str | None) -> Precision | None:
    """What `trainer.precision=wanted` means on this machine; None where nothing is wanted.

    Raises:
        ConfigError: No such precision.
    """
    if wanted is None:
        return None
    changed = OmegaConf.create(to_plain(record.config()))
    changed.trainer.precision = wanted
    return freeze(changed).trainer.precision


def continues(task: Task) -> bool:
    """Whether this task continues texts, instead of answering them with something else."""
    return type(task).answers is Task.answers


def check_generation(record: Record, strategy: str | None, keys: dict[str, Any]) -> dict[str, Any] | None:
    """The choice of `generation` that a run is to use; None = as its task answers by itself.

    Args:
        record: The run.
        strategy: A choice of `generation`; None = the run's own.
        keys: Keys of that choice, over the run's own.

    Raises:
        ConfigError: They do not fit, or this task does not write text.
    """
    task = task_of(record)
    asked = strategy is not None or bool(keys)
    if not continues(task) and not asked:
        return None
    if not task.writes_text:
        raise ConfigError("generate: this run's task answers by itself; strategies and their keys are for written text")
    own = {"name": strategy} if strategy else dict(record.config().generation)
    return check_choice("generation", {**own, **keys}, "generation")


@contextmanager
def open_session(
    record: Record, choice: dict[str, Any], weights: Weights, outputs: Path, precision: Precision | None = None
) -> Iterator[Session]:
    """A session on a run's weights, with the draft run that its strategy may ask for."""
    draft_run, draft = choice.get("draft"), None
    model = load_record(record, weights, precision)
    if isinstance(draft_run, str):
        draft = load_record(find_record(draft_run, outputs), weights)
    with Session(model, choice, draft=draft) as session:
        yield session


def answer(
    record: Record,
    texts: Sequence[str],
    weights: Weights = "best",
    warn: Callable[[str], None] = lambda message: None,
    choice: dict[str, Any] | None = None,
    outputs: Path = Path("outputs"),
    precision: Precision | None = None,
) -> list[dict[str, Any]]:
    """One answer for each text, in order: a continuation, a class, a translation, a text with its gaps filled.

    Args:
        record: A run.
        texts: One answer each, also to an empty one.
        weights: Of the best evaluation, or of the last step.
        warn: Is told of texts that are too long for the model and were cut.
        choice: From `check_generation`.
        outputs: Where to look for a draft run.
        precision: Of the arithmetic; None = the run's, so that answers are those that were evaluated.

    Returns:
        Dicts with at least `text`.
    """
    task = task_of(record)
    if continues(task):
        assert choice is not None
        with open_session(record, choice, weights, outputs, precision) as session:
            return [told(found) for found in answer_all(session, texts)]
    model = load_record(record, weights, precision)
    with evaluating(model, model.precision):
        answers = task.answers(model, _prompts(record, task, model, texts, warn, choice))
    assert answers is not None
    return answers


def _prompts(
    record: Record,
    task: Task,
    model: Transformer,
    texts: Sequence[str],
    warn: Callable[[str], None],
    choice: dict[str, Any] | None,
) -> Prompts:
    plain = to_plain(freeze(record.config()))
    tokenizer: Tokenizer = model.tokenizer
    recipe: TokenizerRecipe = create("tokenizer", plain["data"]["tokenizer"], {})

    def encode(some: Sequence[str]) -> Ragged:
        return ragged(recipe.encode(tokenizer, some), tokenizer.vocab_size)

    spec = DataSpec.from_node(plain["data"])
    room = spec.length - task.reserved
    for number, length in enumerate(encode(texts).lengths.tolist(), start=1):
        if length > room:
            warn(f"text {number}: {length} tokens, of which the first {room} are read")
    data = PreparedData(tokenizer, {}, record.labels(), "", {})
    return Prompts(texts, data, spec, encode, choice)
