"""From a composed tree to a frozen config: checked, completed, and hashed by what can change a result."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import tfexp
from tfexp.config.hardware import has_bfloat16
from tfexp.config.settings import RunSettings
from tfexp.data.tokenization import DEFAULT_SPECIALS, Special
from tfexp.errors import ConfigError
from tfexp.files import fingerprint
from tfexp.model.spec import ModelSpec
from tfexp.registry import check_node, common_fields, discover, resolve
from tfexp.schema import ChoiceOf, Field, NoEffect, fields_of
from tfexp.tasks.base import Task


def freeze(tree: DictConfig | Mapping[str, Any]) -> DictConfig:
    """Resolve, check and complete a config; the result is read-only and is what runs.

    Raises:
        ConfigError: Anything that could not run, before data or folders are touched.
    """
    plain = _plain(tree)
    if isinstance(plain.get("plugins"), str):  # plugins=my_idea is one plugin, not a list of letters
        plain["plugins"] = [plain["plugins"]]
    discover(plain.get("plugins") or ())
    checked = check_node(RunSettings, plain, "")
    spec = ModelSpec.from_config(checked["model"])
    spec.check_compatible()
    checked["model"] = spec.as_node()
    if checked["trainer"]["precision"] == "auto":
        # Resolved here, so that what is written is what ran.
        bfloat16 = has_bfloat16(checked["trainer"]["accelerator"])
        checked["trainer"]["precision"] = "bf16-mixed" if bfloat16 else "32-true"
    if checked["data"]["seq_len"] is None:
        checked["data"]["seq_len"] = spec.max_seq_len
    tokenizer = checked["data"]["tokenizer"]
    if tokenizer.get("specials", ()) is None:
        tokenizer["specials"] = usual_specials(checked["task"]["name"])
    _check_across(checked)
    frozen = OmegaConf.create(checked)
    OmegaConf.set_readonly(frozen, True)
    OmegaConf.set_struct(frozen, True)
    return frozen


def usual_specials(task: str) -> list[Special]:
    """The special tokens of a vocabulary where `data.tokenizer.specials` is null."""
    return [*DEFAULT_SPECIALS, *cast(type[Task], resolve("task", task).target).specials]


def to_plain(config: DictConfig | Mapping[str, Any]) -> dict[str, Any]:
    """The config as nested dicts and lists."""
    if isinstance(config, DictConfig):
        plain = OmegaConf.to_container(config, resolve=True)
        assert isinstance(plain, dict)
        return {str(k): v for k, v in plain.items()}
    return dict(config)


def effective(config: DictConfig | Mapping[str, Any]) -> dict[str, Any]:
    """The part of a frozen config that can change a result, with tfexp's version."""
    return {**_without_no_effect(to_plain(config), fields_of(RunSettings)), "version": tfexp.__version__}


def run_hash(config: DictConfig | Mapping[str, Any], data_fingerprint: str) -> str:
    """Ten hexadecimal digits that name a run: its effective config and its data."""
    return fingerprint({"config": effective(config), "data": data_fingerprint})[:10]


def _plain(tree: DictConfig | Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain = to_plain(tree)
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None)
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{key}: {reason}" if key else reason) from error
    plain.pop("hydra", None)
    return plain


def _check_across(config: Mapping[str, Any]) -> None:
    data, model, trainer = config["data"], config["model"], config["trainer"]
    if data["seq_len"] > model["max_seq_len"]:
        raise ConfigError(
            f"data.seq_len: {data['seq_len']} tokens do not fit model.max_seq_len={model['max_seq_len']}; "
            f"lower one or raise the other"
        )
    if not config["outputs"].strip():
        raise ConfigError("outputs: expected a folder, got an empty name")
    if trainer["devices"] > 1:
        raise ConfigError("trainer.devices: this version trains a run on one device; set trainer.devices=1")


def _without_no_effect(node: Mapping[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    kept: dict[str, Any] = {"name": node["name"]} if "name" in node else {}
    for field in fields:
        if field.mark(NoEffect) is not None or field.name not in node:
            continue
        value, choice = node[field.name], field.mark(ChoiceOf)
        if choice is not None and value is not None:
            component = resolve(choice.slot, value["name"])
            value = _without_no_effect(value, (*component.fields, *common_fields(choice.slot)))
            if not component.target.__module__.startswith("tfexp."):
                # tfexp's own code is named by its version; a component of the user's by its text.
                value["source"] = sha256(Path(component.file).read_bytes()).hexdigest()
        elif is_dataclass(field.type):
            value = _without_no_effect(value, fields_of(field.type))  # type: ignore[arg-type]
        kept[field.name] = value
    return kept
