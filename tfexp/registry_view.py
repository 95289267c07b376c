"""The registry as text: what `tfexp list`, `tfexp show` and the docs print."""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tfexp
from tfexp.registry import Component, common_fields, names, resolve
from tfexp.schema import Field


def rows(slot: str) -> list[dict[str, Any]]:
    """One row per component of a slot."""
    return [_row(resolve(slot, name)) for name in names(slot)]


def details(component: Component) -> dict[str, Any]:
    """Everything about one component."""
    return {
        **_row(component),
        "docstring": inspect.getdoc(component.target) or "",
        "keys": {field.name: _key(field) for field in _all_fields(component)},
        "injected": list(component.injected),
    }


def keys_table(component: Component) -> str:
    """The keys that config may set, aligned: name, default, type."""
    fields = _all_fields(component)
    width = max((len(field.name) for field in fields), default=0)
    values = {field.name: "required" if field.required else default_text(field.default) for field in fields}
    column = max((len(value) for value in values.values()), default=0)
    return "\n".join(f"  {f.name:<{width}}  {values[f.name]:<{column}}  {f.describe()}" for f in fields)


def default_text(value: Any) -> str:
    """A default as YAML writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def compatibility_matrix(positions: Iterable[str], attentions: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """For each position and attention, what the pair lacks; an empty list means that they work together."""
    table: dict[str, dict[str, list[str]]] = {}
    for position in positions:
        needs = resolve("position", position).needs
        table[position] = {a: sorted(needs - resolve("attention", a).gives) for a in attentions}
    return table


def one_line(text: str, width: int) -> str:
    """Cut a text at a word so that it fits a line."""
    return text if len(text) <= width else text[: width - 3].rsplit(" ", 1)[0] + " ..."


def _row(component: Component) -> dict[str, Any]:
    summary = (inspect.getdoc(component.target) or "").split("\n\n")[0]
    return {
        "slot": component.slot,
        "name": component.name,
        "summary": " ".join(summary.split()),
        "source": source_of(component),
        "needs": sorted(component.needs),
        "gives": sorted(component.gives),
        "file": _file(component),
    }


def source_of(component: Component) -> str | None:
    """The `Source:` paragraph of a docstring, in one line."""
    doc = inspect.getdoc(component.target) or ""
    _, found, rest = doc.partition("Source: ")
    if not found:
        return None
    lines = []
    for line in rest.splitlines():
        if not line.strip() or line.startswith("Differs:"):
            break
        lines.append(line.strip())
    return " ".join(lines)


def _key(field: Field) -> dict[str, Any]:
    return {"default": None if field.required else field.default, "required": field.required, "type": field.describe()}


def _all_fields(component: Component) -> tuple[Field, ...]:
    return (*component.fields, *common_fields(component.slot))


def _file(component: Component) -> str:
    path = Path(component.file)
    root = Path(tfexp.__file__).resolve().parent.parent
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def matrix_markdown() -> str:
    """Which position goes with which attention, and what else each component needs and gives."""
    attentions = names("attention")
    table = compatibility_matrix(names("position"), attentions)
    lines = ["| position \\ attention | " + " | ".join(attentions) + " | needs | gives |"]
    lines.append("|---" * (len(attentions) + 3) + "|")
    for position, row in table.items():
        component = resolve("position", position)
        cells = ["yes" if not row[a] else f"no: {', '.join(row[a])}" for a in attentions]
        lines.append(f"| {position} | {' | '.join(cells)} | {_traits(component.needs)} | {_traits(component.gives)} |")
    for attention in attentions:
        gives = _traits(resolve("attention", attention).gives)
        lines.append(f"\nAttention `{attention}` gives: {gives}.")
    return "\n".join(lines)


def _traits(traits: Iterable[str]) -> str:
    return ", ".join(sorted(traits)) or "-"
