"""Slots and the components registered in them: register, discover, check, create.

A component is a class or function. Its positional parameters are injected by the builder, by name
(the geometry: `d_model`, `n_heads`, ...); its keyword-only parameters are what YAML may set. From
the signature come the schema that config is checked against, the config-group entry of a component
without YAML, and the reference. Standard library only: torch comes in with the components.
"""

import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from tfexp.errors import ConfigError, RegistryError, TfexpError, nearest
from tfexp.schema import ChoiceOf, ChoicesOf, Field, coerce, fields_of, positional_of, takes_anything
from tfexp.slots import SLOTS, TRAITS

Target = TypeVar("Target", bound=Callable[..., Any])


@dataclass(frozen=True)
class Component:
    """A registered class or function with what it declares."""

    slot: str
    name: str
    target: Callable[..., Any]
    needs: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()
    fields: tuple[Field, ...] = field(default=(), repr=False)
    injected: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        try:
            return inspect.getsourcefile(self.target) or "?"
        except (TypeError, OSError):  # a class made in a notebook or at a prompt has none
            return "?"

    def default_config(self) -> dict[str, Any]:
        """The config-group entry that the signature alone gives: the name and every default."""
        values = {f.name: "???" if f.required else f.default for f in self.fields}
        return {"name": self.name, **values}


_components: dict[str, dict[str, Component]] = {slot: {} for slot in SLOTS}
_discovered: set[str] = set()


def register(
    slot: str, name: str, *, needs: Iterable[str] = (), gives: Iterable[str] = ()
) -> Callable[[Target], Target]:
    """Register the decorated class or function under `name` in `slot`.

    Args:
        slot: One of `SLOTS`.
        name: The paper's short name in lower case.
        needs: Traits that some other part of the model must give.
        gives: Traits that this component gives.

    Raises:
        RegistryError: Unknown slot or trait, a name used twice, or a signature that breaks the rule.
    """

    def add(target: Target) -> Target:
        component = Component(
            known_slot(slot), name, target, frozenset(needs), frozenset(gives), fields_of(target), positional_of(target)
        )
        _check_declaration(component)
        _components[slot][name] = component
        return target

    return add


def known_slot(slot: str) -> str:
    """Return `slot` if it is one, else raise with the nearest name."""
    if slot not in SLOTS:
        raise RegistryError(f"unknown slot '{slot}'; {nearest(slot, SLOTS)}")
    return slot


def resolve(slot: str, name: str, where: str | None = None) -> Component:
    """The component of that name; raises ConfigError with the nearest name, starting with `where`."""
    discover_slot(known_slot(slot))
    component = _components[slot].get(name)
    if component is None:
        hint = nearest(str(name), _components[slot])
        raise ConfigError(f"{where or SLOTS[slot].group}: unknown {slot} '{name}'; {hint}")
    return component


def names(slot: str) -> list[str]:
    """The registered names of a slot, sorted."""
    discover_slot(known_slot(slot))
    return sorted(_components[slot])


def create(slot: str, config: Mapping[str, Any], available: Mapping[str, Any]) -> Any:
    """Build the component that `config` names.

    Args:
        slot: One of `SLOTS`.
        config: A checked node: `name` and the component's own keys.
        available: What may be injected into positional parameters, by name.
    """
    component = resolve(slot, config["name"])
    missing = [name for name in component.injected if name not in available]
    if missing:
        raise RegistryError(f"{slot}/{component.name}: nothing to inject for {', '.join(missing)} here")
    injected = {name: available[name] for name in component.injected}
    options = {f.name: config[f.name] for f in component.fields if f.name in config}
    return component.target(**injected, **options)


def check_choice(slot: str, node: Any, where: str) -> dict[str, Any]:
    """Hold a config node against the component it names; return it complete with every default."""
    if isinstance(node, str):
        node = {"name": node}
    if not isinstance(node, Mapping) or not isinstance(node.get("name"), str):
        raise ConfigError(f"{where}: expected the name of a {slot}, got {node!r}; {nearest('', names(slot))}")
    component = resolve(slot, node["name"], where)
    common = common_fields(slot)
    options = {key: value for key, value in node.items() if key != "name"}
    return {"name": component.name, **_check_fields((*component.fields, *common), options, where)}


def check_node(target: Callable[..., Any], node: Any, where: str) -> dict[str, Any]:
    """Hold a config node against a dataclass or signature; return it complete with every default."""
    if not isinstance(node, Mapping):
        keys = ", ".join(f.name for f in fields_of(target))
        raise ConfigError(f"{where}: expected a group of keys ({keys}), got {node!r}")
    return _check_fields(fields_of(target), node, where)


def common_fields(slot: str) -> tuple[Field, ...]:
    """The keys that every choice of a slot takes besides its own."""
    common = SLOTS[slot].common
    if common is None:
        return ()
    module, _, name = common.partition(":")
    return fields_of(getattr(importlib.import_module(module), name))


def discover_slot(slot: str) -> None:
    """Import the modules of a slot's package, once, in sorted order."""
    package_name = SLOTS[slot].package
    if package_name in _discovered:
        return
    _discovered.add(package_name)
    try:
        package = importlib.import_module(package_name)
        for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
            importlib.import_module(f"{package_name}.{module}")
    except BaseException:
        _discovered.discard(package_name)  # so that the next call meets the same error, not half a slot
        raise


def discover(plugins: Iterable[str] = ()) -> None:
    """Import plugins: the installed entry points of group `tfexp.plugins`, then those named.

    Args:
        plugins: Module names, or paths of Python files.
    """
    for entry in sorted(entry_points(group="tfexp.plugins"), key=lambda e: e.name):
        _load_plugin(entry.name, entry.load)
    for plugin in plugins:
        _load_plugin(plugin, partial(_import_plugin, plugin))


def _load_plugin(plugin: str, load: Callable[[], Any]) -> None:
    if plugin in _discovered:
        return
    try:
        load()
    except TfexpError:
        raise
    except Exception as error:
        raise ConfigError(f"plugins: importing '{plugin}' failed: {type(error).__name__}: {error}") from error
    _discovered.add(plugin)


def _import_plugin(plugin: str) -> None:
    if not plugin.endswith(".py"):
        importlib.import_module(plugin)
        return
    path = Path(plugin).expanduser()
    if not path.is_file():
        raise ConfigError(f"plugins: there is no file {plugin}")
    # Named after the whole path: two folders may hold files of one name.
    name = "tfexp_plugin_" + re.sub(r"\W", "_", str(path.resolve()))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # a .py file always has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _origin(component: Component) -> str:
    """File and name of a class; the same one declared again (a reload, a notebook cell) may replace itself."""
    return f"{component.file} ({component.target.__qualname__})"


def _check_declaration(component: Component) -> None:
    slot, name, where = component.slot, component.name, f"{component.slot}/{component.name}"
    other = _components[slot].get(name)
    if other is not None and _origin(other) != _origin(component):
        raise RegistryError(f"{where} is registered twice: in {_origin(other)} and in {_origin(component)}")
    strange = [p for p in component.injected if p not in SLOTS[slot].injects]
    if strange:
        raise RegistryError(
            f"{where}: positional parameter '{strange[0]}' is not offered to this slot; make it keyword-only "
            f"(after *) to let YAML set it, or use one of: {', '.join(sorted(SLOTS[slot].injects)) or 'none'}"
        )
    if takes_anything(component.target):
        raise RegistryError(f"{where}: *args and **kwargs would swallow a typo; name every parameter")
    reserved = {"name"} | {f.name for f in common_fields(slot)}
    clash = [f.name for f in component.fields if f.name in reserved]
    if clash:
        raise RegistryError(f"{where}: the key '{clash[0]}' is taken by every {slot}; choose another")
    for trait in component.needs | component.gives:
        if trait not in TRAITS:
            raise RegistryError(f"{where}: unknown trait '{trait}'; {nearest(trait, TRAITS)}")


def _check_fields(fields: tuple[Field, ...], node: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = {f.name for f in fields}
    for key in node:
        if key not in known:
            prefix = f"{where}." if where else ""
            raise ConfigError(f"{prefix}{key}: unknown key; {nearest(str(key), known, label='keys here')}")
    return {f.name: _check_field(f, node, f"{where}.{f.name}" if where else f.name) for f in fields}


def _check_field(field: Field, node: Mapping[str, Any], where: str) -> Any:
    if field.name not in node and field.required:
        raise ConfigError(f"{where}: a value is missing ({field.describe()})")
    value = node.get(field.name, field.default)
    choice, choices = field.mark(ChoiceOf), field.mark(ChoicesOf)
    if choice is not None:
        optional = value is None and field.default is None
        return None if optional else check_choice(choice.slot, value, where)
    if choices is not None:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: expected a group of {choices.slot} choices, got {value!r}")
        return {n: check_choice(choices.slot, {**(o or {}), "name": n}, f"{where}.{n}") for n, o in value.items()}
    if is_dataclass(field.type):
        assert isinstance(field.type, type)
        return check_node(field.type, asdict(value) if isinstance(value, field.type) else value, where)
    return coerce(field, value, where)
