"""float32 linear maps through oneDNN on CPUs, where that is faster than torch's default product.

The same products in another library: forward and the gradient of the input go through oneDNN's linear,
the gradient of the weight through torch. Measured gains are in docs/performance.md. Where an operator is
missing, the work is small, or anything unusual is going on, the plain linear serves. `TFEXP_ONEDNN=0`
switches it off.
"""

import os
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Below this many multiply-adds the call of a Python autograd function costs more than it saves.
MIN_WORK = 1 << 27
_operator: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
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
