"""Overrides for verbs that do not compose: `a.b=c`, as OmegaConf reads it."""

from collections.abc import Iterable

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from tfexp.errors import ConfigError


def read_dotlist(overrides: Iterable[str]) -> DictConfig:
    """A tree of overrides; numbers, lists and null are read as YAML, and what is not YAML is text.

    Raises:
        ConfigError: An interpolation that cannot be read.
    """
    tree = OmegaConf.create()
    for override in overrides:
        key, _, value = override.partition("=")
        try:
            tree = OmegaConf.unsafe_merge(tree, OmegaConf.from_dotlist([override]))
        except YAMLError:  # a path such as `my notes: part 2.txt`
            OmegaConf.update(tree, key, value)
        except OmegaConfBaseException as error:
            raise ConfigError(f"{key}: cannot read '{value}': {str(error).splitlines()[0]}") from error
    assert isinstance(tree, DictConfig)
    return tree
