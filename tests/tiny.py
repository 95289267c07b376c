"""Tiny models for tests: the geometry, and one function that builds a variant of it."""

from typing import Any

import torch
from torch import Tensor

from tfexp.model.build import build_model
from tfexp.model.spec import ModelSpec
from tfexp.model.transformer import Transformer

B, T, H, D, V = 2, 4, 2, 8, 16
TINY = {
    "d_model": D,
    "n_layers": 2,
    "n_heads": H,
    "d_ff": 16,
    "max_seq_len": 16,
    "vocab_size": V,
    "position": "none",
    "attention": "softmax",
    "norm": "layernorm",
    "norm_placement": "pre",
    "feedforward": "mlp",
    # Wider than usual, so that attention is far from uniform and every path carries signal.
    "init": {"name": "gpt2", "std": 0.5},
}


def spec(**changes: Any) -> ModelSpec:
    return ModelSpec.from_config({**TINY, **changes})


def model(seed: int = 0, dtype: torch.dtype = torch.float64, **changes: Any) -> Transformer:
    """A tiny decoder in evaluation mode; float64, so that equalities can be tight."""
    return build_model(spec(**changes), seed).to(dtype).eval()


def ids(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(1, V, shape or (B, T), generator=torch.Generator().manual_seed(seed))


def normal(*shape: int, seed: int = 2, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def close(actual: Tensor, expected: Any, atol: float = 1e-12, rtol: float = 0.0) -> None:
    """Assert equality within `atol`; the default fits a few sums in float64."""
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    torch.testing.assert_close(actual, expected, atol=atol, rtol=rtol)
