"""Cross-entropy over a large vocabulary, in pieces that stay in the processor's cache.

torch makes several tensors of the size of the logits in float32, which for a small model with ten
thousand tokens takes most of a step. Here a few rows at a time become a loss and, at once, the
gradient in the logits' own type; nothing of full size is made but that gradient.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tfexp.batch import IGNORE
from tfexp.errors import DataError

ROWS_TIMES_WORDS = 2**18  # float32 elements of a piece: 1 MiB, measured to be the fastest


def summed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Sum over the scored labels of -sum_v q(v) log p(v), in nats, in float32.

    p = softmax(logits) and q = (1 - smoothing) [v = label] + smoothing / V.

    Args:
        logits: (N, V), of any float type.
        labels: (N,) int64; -100 is not scored.
        smoothing: Mass that is spread over all V.

    Raises:
        DataError: A label that is neither a token nor -100. Where logits are not on the CPU torch finds it,
            since to look at labels there would wait for the device.
    """
    if labels.device.type == "cpu":
        _check_labels(labels, logits.shape[-1])
    if logits.device.type != "cpu" or logits.dtype == torch.float64 or logits.numel() <= ROWS_TIMES_WORDS:
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return functional.cross_entropy(wide, labels, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing)
    return _InPieces.apply(logits, labels, smoothing)  # type: ignore[return-value]


def _check_labels(labels: Tensor, n_words: int) -> None:
    if not labels.numel():
        return
    lowest, highest = labels.aminmax()  # one look at N numbers, beside the N V of the logits
    wrong = labels[labels >= n_words] if highest >= n_words else labels[:0]
    if lowest < 0 and not wrong.numel():
        wrong = labels[(labels < 0) & (labels != IGNORE)]
    if wrong.numel():
        known = f"the model knows 0 to {n_words - 1} (-100 = not scored)"
        raise DataError(f"labels: {int(wrong[0])} is not a token; {known}")


class _InPieces(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        n_rows, n_words = logits.shape
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        total = torch.zeros((), dtype=torch.float64)
        size = max(1, ROWS_TIMES_WORDS // n_words)
        for start in range(0, n_rows, size):
            piece, label = logits[start : start + size].float(), labels[start : start + size, None]
            scored = label != IGNORE
            label = label.clamp(min=0)
            p = piece.softmax(dim=-1)
            largest, where = piece.max(dim=-1, keepdim=True)
            log_sum = largest - p.gather(1, where).log()  # the largest p is at least 1 / V: no underflow
            loss = log_sum - (1 - smoothing) * piece.gather(1, label)
            if smoothing:
                loss -= smoothing * piece.mean(dim=-1, keepdim=True)
                p -= smoothing / n_words
            total += loss.masked_fill(~scored, 0.0).sum(dtype=torch.float64)
            if gradient is not None:
                p.scatter_add_(1, label, torch.full_like(log_sum, smoothing - 1))
                gradient[start : start + size] = p if bool(scored.all()) else p * scored
        ctx.gradient = gradient
        return total.float()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None, None]:
        if ctx.gradient is None:
            raise RuntimeError("this cross-entropy keeps one gradient and was asked for it a second time")
        # In place: another tensor of the size of the logits would cost as much as all of the above.
        gradient, ctx.gradient = ctx.gradient.mul_(outer[0]), None
        return gradient, None, None
