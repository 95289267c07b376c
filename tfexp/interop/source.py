"""Where Hugging Face weights come from: a folder, a model object, or a name that transformers looks up."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from tfexp.errors import ConfigError, DataError, nearest
from tfexp.interop.family import Family
from tfexp.interop.gpt2 import GPT2
from tfexp.interop.llama import LLAMA
from tfexp.interop.marian import MARIAN
from tfexp.interop.t5 import T5

if TYPE_CHECKING:
    from types import ModuleType

FAMILIES: dict[str, Family] = {family.name: family for family in (GPT2, LLAMA, T5, MARIAN)}
INDEX, WHOLE = "model.safetensors.index.json", "model.safetensors"


def transformers() -> "ModuleType":
    """The library, or how to get it."""
    try:
        import transformers
    except ImportError:
        raise ConfigError("from_hf and to_hf need transformers: pip install tfexp[hf]") from None
    return transformers


def read(source: Any) -> tuple[Family, dict[str, Any], dict[str, Tensor]]:
    """The family, the config and the tensors of what a user gave."""
    hf = transformers()
    if isinstance(source, nn.Module):
        return _of_object(source)
    if not isinstance(source, (str, os.PathLike)):
        raise DataError(f"from_hf: expected a folder, a name or a transformers model, got {type(source).__name__}")
    path = Path(source).expanduser()
    if path.is_dir():
        family = family_of(_json(path / "config.json"), path)
        config = getattr(hf, family.model).config_class.from_pretrained(path)
        return family, config.to_dict(), _tensors(path)
    name = os.fspath(source)
    if isinstance(source, os.PathLike) or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(f"from_hf: there is no folder {name}")
    try:
        config, _ = hf.PreTrainedConfig.get_config_dict(name)
        family = family_of(config, name)
        return _of_object(getattr(hf, family.model).from_pretrained(name, dtype="auto"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"from_hf: {name} is no folder, and transformers finds no such model: {first_line(error)}"
        ) from error


def family_of(config: Mapping[str, Any], where: object) -> Family:
    """The family of a config, by its `model_type`; raises with the nearest name."""
    name = str(config.get("model_type"))
    if name not in FAMILIES:
        raise ConfigError(
            f"from_hf: {where} has model_type '{name}', which is not supported; {nearest(name, FAMILIES)}"
        )
    return FAMILIES[name]


def first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _of_object(model: Any) -> tuple[Family, dict[str, Any], dict[str, Tensor]]:
    if not hasattr(getattr(model, "config", None), "to_dict"):
        raise DataError(f"from_hf: expected a folder, a name or a transformers model, got {type(model).__name__}")
    options = model.config.to_dict()
    return family_of(options, type(model).__name__), options, model.state_dict()


def _tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if (folder / INDEX).is_file():
        # Files of this folder only, whatever a path in the index says.
        names = sorted({Path(str(name)).name for name in _json(folder / INDEX).get("weight_map", {}).values()})
    else:
        names = [WHOLE]
    tensors: dict[str, Tensor] = {}
    for name in names:
        if not (folder / name).is_file():
            raise DataError(f"from_hf: {folder} has no {name}; save the model with save_pretrained, as safetensors")
        try:
            tensors |= load_file(folder / name)
        except SafetensorError as error:
            raise DataError(f"from_hf: {folder / name} is damaged: {first_line(error)}") from error
    return tensors


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"from_hf: {path.parent} has no {path.name}") from None
    except ValueError as error:
        raise DataError(f"from_hf: {path} is not JSON: {first_line(error)}") from error
    if not isinstance(found, dict):
        raise DataError(f"from_hf: {path} is not a JSON object")
    return found
