"""from_hf and to_hf: a model of transformers as a model of tfexp, and the inverse."""

import os
from typing import TYPE_CHECKING, Any

import torch

from tfexp.errors import ConfigError
from tfexp.interop.family import Family
from tfexp.interop.source import FAMILIES, first_line, read, transformers
from tfexp.interop.tensors import exported, fill, has_its_own_head, with_prefix
from tfexp.model.count import meta_model
from tfexp.model.spec import ModelSpec
from tfexp.model.transformer import Transformer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def from_hf(source: "str | os.PathLike[str] | PreTrainedModel") -> Transformer:
    """A tfexp model with the weights of a Hugging Face model, in evaluation mode.

    GPT-2, Llama, T5 and Marian; both give the same logits for the same ids. Positions count from each row's first
    real token: where transformers is padded on the left, it must be told so with `position_ids`. No code that a
    folder may hold is run.

    Args:
        source: A folder with config.json and safetensors, a model of transformers, or a name on the Hugging Face
            Hub, which transformers downloads.

    Returns:
        A model in the dtype of the weights, which it does not share; its special ids are `model.ends`.

    Raises:
        ConfigError: transformers is missing, or the family or one of its options is not supported.
        DataError: The folder cannot be read, or its tensors are not those of its config.
    """
    family, config, tensors = read(source)
    tensors = with_prefix(family, tensors)
    node = family.node_of(config)
    if has_its_own_head(family, tensors):
        node["tie_embeddings"] = False
    model = meta_model(ModelSpec.from_config(node))
    fill(model, family, tensors)
    model.ends = family.ends_of(config)
    return model.eval()


def to_hf(model: Transformer, path: "str | os.PathLike[str] | None" = None) -> "PreTrainedModel":
    """The same model as an object of transformers, in evaluation mode: the inverse of `from_hf`.

    Args:
        model: Of the form of GPT-2, Llama, T5 or Marian. Its rates of dropout are carried as far as the family has
            them, and its special ids are those of `model.ends`.
        path: A folder to save it to as well, as `save_pretrained` does.

    Raises:
        ConfigError: transformers is missing, or no family has such models; the text says what would have to change.
    """
    hf = transformers()
    family = _fitting(model.spec)
    options = {**family.options_of(model.spec), **family.id_options(model.ends)}
    made = _made(hf, family, options, next(model.parameters()).dtype)
    names = with_prefix(family, made.state_dict()).keys()
    tensors = exported(model, family, names)
    assert tensors.keys() == names
    made.load_state_dict(tensors, strict=False)  # which leaves out what follows from the config
    if model.ends is not None and model.ends.never:
        made.generation_config.bad_words_ids = [[token] for token in model.ends.never]
    if path is not None:
        made.save_pretrained(path)
    return made.eval()


def _fitting(spec: ModelSpec) -> Family:
    """The family that can say all of a description."""
    misfits = {name: family.misfits(spec) for name, family in FAMILIES.items()}
    nearest = min(misfits, key=lambda name: len(misfits[name]))
    if misfits[nearest]:
        raise ConfigError(
            f"to_hf: no family of transformers has such a model; the nearest is {nearest}, without "
            + ", ".join(misfits[nearest][:3])
        )
    return FAMILIES[nearest]


def _made(hf: Any, family: Family, options: dict[str, Any], dtype: torch.dtype) -> Any:
    try:
        config = getattr(hf, family.model).config_class(**options)
        for name, value in options.items():
            setattr(config, name, value)  # T5's constructor changes what it was told about tying
        with torch.random.fork_rng(devices=[]):
            return getattr(hf, family.auto).from_config(config, dtype=dtype)
    except Exception as error:
        raise ConfigError(f"to_hf: transformers refuses this {family.name}: {first_line(error)}") from error
