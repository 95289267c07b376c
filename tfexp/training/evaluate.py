"""A whole part, scored exactly: sums over all tokens, divided once."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch import nn

from tfexp.data.blocks import EvalBlocks
from tfexp.data.prepare import PreparedData
from tfexp.tasks.base import Task

EVAL_TOKENS = 8192  # in a batch: large enough to be fast, and no knob, since it cannot change a result


def eval_blocks(data: PreparedData, part: str, seq_len: int) -> EvalBlocks:
    """All batches of a part."""
    return EvalBlocks(data.parts[part], seq_len, max(1, EVAL_TOKENS // seq_len), data.n_bytes[part])


@torch.no_grad()
def evaluate(model: nn.Module, task: Task, blocks: EvalBlocks, precision: str) -> dict[str, float]:
    """Metrics of a whole part, without prefix: `loss`, `perplexity`, ...

    Args:
        model: Left in the mode it was in.
        task: Says what is summed and what the sums mean.
        blocks: The part.
        precision: `32-true` or `bf16-mixed`, as in training.
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    totals: dict[str, torch.Tensor] = {}
    try:
        for index in range(len(blocks)):
            batch = blocks[index].to(device)
            with autocast(device, precision):
                sums = task.score(model, batch)
            for name, value in sums.items():
                # Sums over millions of tokens need more digits than a float32 has.
                totals[name] = totals.get(name, torch.zeros((), dtype=torch.float64, device=device)) + value.double()
    finally:
        model.train(was_training)
    return task.metrics({name: float(value) for name, value in totals.items()}, blocks.n_bytes)


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """The arithmetic that Lightning uses for the same precision in training."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")  # type: ignore[return-value]


def prefixed(part: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """`loss` -> `val/loss`."""
    return {f"{part}/{name}": value for name, value in metrics.items()}
