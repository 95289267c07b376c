"""Controlled ablation studies of Transformer components.

The public face; everything is imported on first use, so `import tfexp` is instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfexp.config.compose import compose
    from tfexp.generation.generate import generate
    from tfexp.interop.convert import from_hf, to_hf
    from tfexp.registry import register
    from tfexp.training.api import build, load, train

__version__ = "0.1.0"

_HOME = {
    "compose": "tfexp.config.compose",
    "build": "tfexp.training.api",
    "train": "tfexp.training.api",
    "load": "tfexp.training.api",
    "generate": "tfexp.generation.generate",
    "from_hf": "tfexp.interop.convert",
    "to_hf": "tfexp.interop.convert",
    "register": "tfexp.registry",
}

__all__ = ["__version__", "build", "compose", "from_hf", "generate", "load", "register", "to_hf", "train"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'tfexp' has no attribute '{name}'")
