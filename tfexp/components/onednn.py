"""float32 linear maps through oneDNN on CPUs, where that is faster than torch's default product.

The same products in another library: forward and the gradient of the input go through oneDNN's linear,
the gradient of the weight through torch. For decoding, where a product has few rows and reading the weight
is all the work, a weight can be put beforehand into the order in which oneDNN reads it. Measured gains are
in docs/performance.md. Where an operator is missing, the work is small, or anything unusual is going on, the
plain linear serves. `TFEXP_ONEDNN=0` switches it off.
"""

import os
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Below this many multiply-adds the call of a Python autograd function costs more than it saves.
MIN_WORK = 1 << 27
# Beyond so many rows a product is no longer a matter of reading the weight.
MAX_PACKED_ROWS = 64
_operator: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_reorder: Any = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None)
# Processors with matrix tiles are Intel's, where torch's own product reads a float32 weight for one or two rows as
# fast as memory allows; elsewhere oneDNN does, and does it better for two rows than for one.
_reads_well_by_itself = torch.cpu._is_amx_tile_supported()
_wanted = os.environ.get("TFEXP_ONEDNN", "1") != "0" and torch.backends.mkldnn.is_available()


def applies(x: Tensor, weight: Tensor) -> bool:
    """Whether this product is one that oneDNN does faster, in a situation that this form knows."""
    return (
        _wanted
        and _operator is not None
        and x.device.type == "cpu"
        and x.dtype == torch.float32 == weight.dtype
        and x.numel() * weight.shape[0] >= MIN_WORK
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """X W^T + b for x (..., n_in), W (n_out, n_in), b (n_out,) or None."""
    return _Linear.apply(x, weight, bias)


class Packed:
    """A weight in the order in which oneDNN reads it, for products of few rows without gradients.

    Args:
        weight: (n_out, n_in) in float32 or bfloat16, on a CPU.
    """

    def __init__(self, weight: Tensor) -> None:
        self._weight, self._version = weight, weight._version
        self._packed: Tensor = _reorder(weight.detach(), 1)

    @staticmethod
    def can_pack(weight: Tensor) -> bool:
        """Whether this weight is one that oneDNN reads."""
        known = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16)
        return known and _wanted and _operator is not None and _reorder is not None

    def serves(self, x: Tensor, weight: Tensor) -> bool:
        """Whether x (..., n_in) W^T is to be had from here, and the weight is still the one that was packed."""
        n_rows = x.numel() // x.shape[-1]
        return (
            n_rows <= MAX_PACKED_ROWS
            and (n_rows > 2 or not _reads_well_by_itself or x.dtype == torch.bfloat16)
            and x.dtype == weight.dtype
            and weight is self._weight
            and weight._version == self._version
            and not torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
            and not torch.compiler.is_compiling()
        )

    def linear(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """X W^T + b for x (..., n_in), b (n_out,) or None."""
        if _reads_well_by_itself or x.numel() > x.shape[-1]:
            return _operator(x, self._packed, bias, "none", [], "")
        twice = x.reshape(1, -1).expand(2, -1).contiguous()  # (2, n_in)
        return _operator(twice, self._packed, bias, "none", [], "")[:1].view(*x.shape[:-1], -1)  # (..., n_out)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _operator(x, weight, bias, "none", [], "")

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides the name of ctx
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        (gradient,) = gradients
        flat = gradient.reshape(-1, gradient.shape[-1])  # (N, n_out)
        of_x = _operator(gradient, weight.t(), None, "none", [], "") if ctx.needs_input_grad[0] else None
        of_weight = flat.t() @ x.reshape(-1, x.shape[-1]) if ctx.needs_input_grad[1] else None
        of_bias = flat.sum(dim=0) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias
