"""What a run's model says to texts of one's own, as its task answers them."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import torch

from tfexp.config.freeze import freeze, to_plain
from tfexp.data.encoded import Ragged, ragged
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.data.tokenization import Tokenizer, TokenizerRecipe
from tfexp.registry import create
from tfexp.tasks.base import Prompts, Task
from tfexp.training.api import load_record
from tfexp.training.record import Record


def answer(
    record: Record,
    texts: Sequence[str],
    weights: Literal["best", "last"] = "best",
    warn: Callable[[str], None] = lambda message: None,
) -> list[dict[str, Any]] | None:
    """One answer for each text, in order: a class, a translation, a text with its gaps filled.

    Args:
        record: A run.
        texts: One answer each, also to an empty one.
        weights: Of the best evaluation, or of the last step.
        warn: Is told of texts that are too long for the model and were cut.

    Returns:
        Dicts with at least `text`; None where the run's task continues texts instead of answering them.
    """
    plain = to_plain(freeze(record.config()))
    task = cast(Task, create("task", plain["task"], {}))
    if type(task).answers is Task.answers:
        return None
    model = load_record(record, weights)
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
    with torch.no_grad():
        return task.answers(model, Prompts(texts, data, spec, encode))
