"""A model as a table: each operation of a forward pass with its shape, parameters and FLOPs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from rich.table import Table
from torch import Tensor, nn

from tfexp.components.base import Score, set_recorder
from tfexp.errors import ConfigError
from tfexp.model.count import ParameterCount, count_parameters, forward_flops, meta_model
from tfexp.model.spec import ModelSpec

VOCABULARY_IF_UNKNOWN = 1024
LABELS_IF_UNKNOWN = 2


@dataclass(frozen=True)
class Operation:
    """One row.

    Args:
        path: Of the module, or of the module and the intermediate result inside it.
        shape: Of the result.
        parameters: Of the module; a tied matrix counts at its first use.
        flops: Of this operation for the whole batch; 2 per multiply-add of a matrix product.
    """

    path: str
    shape: tuple[int, ...]
    parameters: int
    flops: int


@dataclass(frozen=True)
class Summary:
    """All operations of one forward pass over a batch, and their sums."""

    batch: int
    length: int
    operations: tuple[Operation, ...]
    parameters: ParameterCount
    forward_flops: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarise(spec: ModelSpec, batch: int = 2, length: int | None = None) -> Summary:
    """Run the model on the meta device and note what it does.

    Args:
        spec: The model; an open vocabulary counts as 1,024 tokens, open labels as 2.
        batch: Sequences.
        length: Tokens per sequence, on both sides of an encoder-decoder; None = the model's longest.
    """
    length = spec.max_seq_len if length is None else length
    if batch < 1 or not 1 <= length <= spec.max_seq_len:
        raise ConfigError(
            f"summary: batch must be at least 1 and length 1 to {spec.max_seq_len}, got {batch}, {length}"
        )
    if spec.vocab_size is None:
        spec = replace(spec, vocab_size=VOCABULARY_IF_UNKNOWN)
    if spec.n_labels is None:
        spec = replace(spec, n_labels=LABELS_IF_UNKNOWN)
    model = meta_model(spec).eval()
    operations: list[Operation] = []
    with _recording(model, operations), torch.no_grad():
        ids = torch.zeros(batch, length, dtype=torch.int64, device="meta")
        model(ids, decoder_input_ids=None if model.source_embedding is None else ids)
    return Summary(batch, length, tuple(operations), count_parameters(model), batch * forward_flops(model, length))


def summary_table(summary: Summary) -> Table:
    """Aligned columns; the last row holds the sums."""
    title = f"batch {summary.batch}, {summary.length} tokens; B T D H as in the code's legend"
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("operation")
    for heading in ("shape", "parameters", "FLOPs"):
        table.add_column(heading, justify="right")
    for row in summary.operations:
        table.add_row(
            row.path,
            str(row.shape),
            f"{row.parameters:,}" if row.parameters else "",
            f"{row.flops:,}" if row.flops else "",
        )
    counted = summary.parameters
    table.add_section()
    table.add_row("all", "", f"{counted.total:,}", f"{summary.forward_flops:,}")
    table.add_row("without embeddings", "", f"{counted.non_embedding:,}", "")
    return table


@contextmanager
def _recording(model: nn.Module, operations: list[Operation]) -> Iterator[None]:
    """Collect a row for each leaf module and each noted result, in the order of the pass."""
    path_of = {id(module): path for path, module in model.named_modules()}
    # A score is no module's forward: its maps are part of what attention notes for the scores.
    in_scores = {id(m) for score in model.modules() if isinstance(score, Score) for m in score.modules()}
    open_modules: list[nn.Module] = [model]
    counted: set[int] = set()

    def newly(parameters: Iterable[nn.Parameter]) -> int:
        own = {id(p): p.numel() for p in parameters if id(p) not in counted}
        counted.update(own)
        return sum(own.values())

    def enter(module: nn.Module, inputs: Any) -> None:
        open_modules.append(module)

    def leave(module: nn.Module, inputs: Any, output: Any) -> None:
        open_modules.pop()
        own = newly(module.parameters(recurse=False))
        if isinstance(output, Tensor) and (own or isinstance(module, nn.Linear)):
            flops = 0 if id(module) in in_scores else _linear_flops(module, output)
            operations.append(Operation(path_of[id(module)], tuple(output.shape), own, flops))

    def note(name: str, value: Tensor, flops: int) -> None:
        module = open_modules[-1]
        own = sum(newly(child.parameters()) for child in module.children() if isinstance(child, Score))
        path = f"{path_of[id(module)]}: {name}".removeprefix(": ")
        operations.append(Operation(path, tuple(value.shape), own, flops))

    handles = [m.register_forward_pre_hook(enter) for m in model.modules()]
    handles += [m.register_forward_hook(leave) for m in model.modules()]
    set_recorder(note)
    try:
        yield
    finally:
        set_recorder(None)
        for handle in handles:
            handle.remove()


def _linear_flops(module: nn.Module, output: Tensor) -> int:
    return 2 * output.numel() * module.in_features if isinstance(module, nn.Linear) else 0
