"""Hydra's side: where the YAML lies, plugins in every group, and composing without a command line."""

import re
from collections.abc import Iterable
from pathlib import Path

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig

from tfexp.config.freeze import freeze
from tfexp.config.messages import explain
from tfexp.errors import ConfigError, nearest
from tfexp.registry import discover, names, resolve
from tfexp.slots import SLOTS

VERSION_BASE = "1.3"


def conf_dir() -> Path:
    """The folder of tfexp's own YAML: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def compose(*overrides: str, config_dir: str | None = None) -> DictConfig:
    """The frozen, validated config of `conf/train.yaml` with these overrides.

    Args:
        overrides: As on the command line, such as `model=small` or `model.n_layers=2`.
        config_dir: A folder with groups or choices of your own.

    Raises:
        ConfigError: Unknown key, group or name, wrong type or combination.
    """
    return freeze(compose_tree(overrides, config_dir))


def compose_tree(overrides: Iterable[str], config_dir: str | None = None) -> DictConfig:
    """The composed tree before it is checked."""
    listed = list(overrides)
    if config_dir and not Path(config_dir).is_dir():
        raise ConfigError(f"--config-dir: there is no folder {config_dir}")
    prepare_groups(listed, config_dir)
    extra = [f"hydra.searchpath=[file://{Path(config_dir).resolve()}]"] if config_dir else []
    with hydra.initialize_config_dir(str(conf_dir()), version_base=VERSION_BASE):
        try:
            return hydra.compose("train", overrides=[*force_values(listed), *extra])
        except HydraException as error:
            raise ConfigError(explain(error)) from error


def prepare_groups(overrides: Iterable[str], config_dir: str | None = None) -> None:
    """Import the plugins that the overrides name, and make a config-group entry for every component
    that has no YAML: a plugin needs none.
    """
    discover(_plugins_in(overrides))
    folders = [conf_dir(), *([Path(config_dir)] if config_dir else [])]
    store = ConfigStore.instance()
    for slot, description in SLOTS.items():
        for name in names(slot):
            if any((folder / description.group / f"{name}.yaml").is_file() for folder in folders):
                continue
            entry = resolve(slot, name).default_config()
            if slot == "logger":
                entry = {name: {key: value for key, value in entry.items() if key != "name"}}
            store.store(name=name, group=description.group, node=entry)


def force_values(overrides: Iterable[str]) -> list[str]:
    """Let `a.b=c` through Hydra whether the key exists or not, as tfexp's own check names the nearest
    key; and take `group=null` for none where a group may have no choice.

    Raises:
        ConfigError: A group that needs a choice is given null or a number.
    """
    return [_forced(override) for override in overrides]


OPTIONAL = ("experiment", "ablation", "logger")


def _forced(override: str) -> str:
    if re.match(r"(?!hydra\.)[A-Za-z_]\w*(\.\w+)+=", override):
        return f"++{override}"
    group, _, value = override.partition("=")
    if group in {"model", "trainer", *OPTIONAL, *(slot.group for slot in SLOTS.values())}:
        if value == "null" and group in OPTIONAL:
            return f"{group}=[]"
        if re.fullmatch(r"null|true|false|-?\d[\d.e]*", value):
            choices = [file.stem for file in (conf_dir() / group).glob("*.yaml")]
            raise ConfigError(f"{group}: {value} is not a choice; {nearest(value, choices)}")
    return override


def _plugins_in(overrides: Iterable[str]) -> list[str]:
    for override in overrides:
        if override.lstrip("+").startswith("plugins="):
            value = OverridesParser.create().parse_override(override).value()
            return [value] if isinstance(value, str) else [str(item) for item in value or ()]  # type: ignore[union-attr]
    return []
