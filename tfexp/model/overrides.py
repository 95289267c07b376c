"""Overrides of a part of a model: one side of an encoder-decoder, or a slice of layers, as data."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tfexp.errors import ConfigError, nearest

LAYER_KEYS = (
    "n_heads", "n_kv_heads", "head_dim", "d_ff", "dropout",
    "attention", "cross_attention", "norm", "norm_placement", "residual", "feedforward",
)  # fmt: skip
STACK_KEYS = ("n_layers", "embedding", "position", *LAYER_KEYS)
CHOICES = frozenset(
    {"embedding", "position", "attention", "cross_attention", "norm", "norm_placement", "residual", "feedforward"}
)
FOLLOWS = {"head_dim": ("n_heads",), "n_kv_heads": ("n_heads",), "d_ff": ("feedforward",)}
"""Sizes that, left open, follow from others: an override of those fixes these, too."""

Check = Callable[[Mapping[str, Any], str], dict[str, Any]]


def overlaid(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A node with an override on it: some keys of a group or of the same choice, or another choice."""
    return {**base, **{key: _merge(key, base.get(key), value) for key, value in changes.items()}}


def complete(
    base: Mapping[str, Any], changes: Mapping[str, Any], allowed: Collection[str], check: Check, where: str
) -> dict[str, Any]:
    """Hold an override against the keys that it may change; return it with every default filled in.

    Args:
        base: The node that is overridden, with its open sizes still null.
        changes: The override: any of `allowed`; a choice may change some keys of the one in `base`.
        allowed: Keys that make sense here.
        check: Checks a whole model node and fills its sizes.
        where: Its path in the config.
    """
    for key in changes:
        if key not in allowed:
            raise ConfigError(f"{where}.{key}: unknown key; {nearest(str(key), allowed, label='keys here')}")
    checked = check(overlaid(base, changes), where)
    derived = [size for size, sources in FOLLOWS.items() if base.get(size) is None and {*sources} & changes.keys()]
    return {key: checked[key] for key in (*changes, *derived)}


def complete_layers(
    overrides: Iterable[Mapping[str, Any]], stacks: Mapping[str, Mapping[str, Any]], check: Check, path: str
) -> list[dict[str, Any]]:
    """Hold overrides by slice against the layers that they touch, with what earlier ones made of them.

    An override that comes to the same in all of its layers stays one; else it becomes one per layer.

    Args:
        overrides: Each `{where: a layer or slice, side: encoder, decoder or null, its own keys}`.
        stacks: The node of each stack there is, with its open sizes still null.
        check: Checks a whole model node and fills its sizes.
        path: Of the list in the config.
    """
    nodes = {(side, index): node for side, node in stacks.items() for index in range(node["n_layers"])}
    completed = []
    for number, override in enumerate(overrides):
        here = f"{path}[{number}]"
        where, side, changes = _parts(override, stacks, here)
        depths = {of: stack["n_layers"] for of, stack in stacks.items() if side in (None, of)}
        places = [(of, i) for of, depth in depths.items() for i in range(depth) if in_slice(where, i, depth, here)]
        if not places:
            there = " and ".join(f"{depth} {of} layers" for of, depth in depths.items())
            raise ConfigError(f"{here}.where: {where!r} is none of the {there}")
        touched = {place: complete(nodes[place], changes, LAYER_KEYS, check, here) for place in places}
        nodes |= {place: overlaid(nodes[place], {key: own[key] for key in changes}) for place, own in touched.items()}
        first, *others = touched.values()
        if all(other == first for other in others):
            completed.append({"where": where, "side": side, **first})
        else:
            completed += [{"where": str(index), "side": of, **own} for (of, index), own in touched.items()]
    return completed


def in_slice(where: str, index: int, n_layers: int, path: str) -> bool:
    """Whether layer `index` of `n_layers` belongs to a slice such as `0`, `-1`, `::2` or `2:`."""
    numbers = re.fullmatch(r"(-?\d+)|(-?\d+)?:(-?\d+)?(?::([1-9]\d*))?", where.strip())
    if numbers is None:
        raise ConfigError(f"{path}.where: expected a layer or a slice, such as '0', '-1', '::2' or '2:', got {where!r}")
    single, *bounds = (None if n is None else int(n) for n in numbers.groups())
    if single is not None:
        if not -n_layers <= single < n_layers:
            raise ConfigError(f"{path}.where: there is no layer {single} among {n_layers}, counted from 0")
        return index == single % n_layers
    return index in range(n_layers)[slice(*bounds)]


def _merge(key: str, shared: Any, change: Any) -> Any:
    """A change to a shared value: some keys of a group or of the same choice, or another choice."""
    if key in CHOICES and isinstance(change, str):
        change = {"name": change}
    if not isinstance(change, Mapping) or not isinstance(shared, Mapping):
        return change
    same = change.get("name", shared.get("name")) == shared.get("name")
    return {**shared, **change} if same else change


def _parts(override: Mapping[str, Any], stacks: Collection[str], here: str) -> tuple[str, str | None, dict[str, Any]]:
    """Where an override by slice acts, on which side, and what it changes."""
    if not isinstance(override.get("where"), (str, int)):
        raise ConfigError(f"{here}: expected {{where: a layer or slice, its own keys}}, got {override!r}")
    side = override.get("side")
    if side is not None and side not in stacks:
        raise ConfigError(f"{here}.side: expected {', '.join(stacks)} or null for all, got {side!r}")
    return str(override["where"]), side, {k: v for k, v in override.items() if k not in ("where", "side")}
