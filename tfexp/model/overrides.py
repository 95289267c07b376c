"""Overrides of a part of a model: one side of an encoder-decoder, or a slice of layers, as data."""

import re
from collections.abc import Callable, Collection, Mapping
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


def complete(
    base: Mapping[str, Any], changes: Any, allowed: Collection[str], check: Check, where: str
) -> dict[str, Any]:
    """Hold an override against the keys that it may change; return it with every default filled in.

    Args:
        base: The node that is overridden, with its open sizes still null.
        changes: The override: any of `allowed`; a choice may change some keys of the shared one.
        allowed: Keys that make sense here.
        check: Checks a whole model node and fills its sizes.
        where: Its path in the config.
    """
    if not isinstance(changes, Mapping):
        raise ConfigError(f"{where}: expected a group of keys ({', '.join(allowed)}), got {changes!r}")
    for key in changes:
        if key not in allowed:
            raise ConfigError(f"{where}.{key}: unknown key; {nearest(str(key), allowed, label='keys here')}")
    merged = {**base, **{key: _merge(key, base.get(key), value) for key, value in changes.items()}}
    checked = check(merged, where)
    derived = [size for size, sources in FOLLOWS.items() if base.get(size) is None and {*sources} & changes.keys()]
    return {key: checked[key] for key in (*changes, *derived)}


def in_slice(where: str, index: int, n_layers: int, path: str) -> bool:
    """Whether layer `index` of `n_layers` belongs to a slice such as `0`, `-1`, `::2` or `2:`."""
    numbers = re.fullmatch(r"(-?\d+)|(-?\d+)?:(-?\d+)?(?::([1-9]\d*))?", where.strip())
    if numbers is None:
        raise ConfigError(f"{path}.where: expected a layer or a slice, such as '0', '-1', '::2' or '2:', got {where!r}")
    single, *bounds = (None if n is None else int(n) for n in numbers.groups())
    if single is not None:
        if not -n_layers <= single < n_layers:
            raise ConfigError(f"{path}.where: there is no layer {single} among {n_layers}")
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
