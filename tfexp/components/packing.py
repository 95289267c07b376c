"""Weights put in order for decoding, and back."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from tfexp.components.base import Linear
from tfexp.components.onednn import Packed


@contextmanager
def packed(model: nn.Module) -> Iterator[None]:
    """Inside, products of few rows read weights in oneDNN's own order: the same results up to rounding, faster.

    Needs the memory of the weights a second time. A weight that is changed meanwhile is read as it is; the
    model can be neither copied nor saved as a whole, though its state dict can.
    """
    linears = [m for m in model.modules() if isinstance(m, Linear) and Packed.can_pack(m.weight)]
    try:
        for linear in linears:
            linear.packed = Packed(linear.weight)
        yield
    finally:
        for linear in linears:
            linear.packed = None
