"""From a constructor's signature to a checked value: types, choices, ranges, defaults.

A class states once, in its constructor, what it can be told; this module reads that and holds a
config node against it. Standard library only.
"""

import builtins
import dataclasses
import inspect
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tfexp.errors import ConfigError, nearest

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Range:
    """The numbers a key accepts; an open bound is None."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __str__(self) -> str:
        signs = (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))
        bounds = [(sign, getattr(self, name)) for name, sign in signs]
        return " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)

    def holds(self, value: float) -> bool:
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )


@dataclass(frozen=True)
class ChoiceOf:
    """Marks a key that holds a component of a slot: `{name: ..., its own keys}` or just the name."""

    slot: str


@dataclass(frozen=True)
class ChoicesOf:
    """Marks a key that holds several components of a slot: `{name: {its own keys}, ...}`."""

    slot: str


@dataclass(frozen=True)
class NoEffect:
    """Marks a key that cannot change a result; it is left out of a run's hash."""


NO_EFFECT = NoEffect()


@dataclass(frozen=True)
class Field:
    """One key that a config node may hold, as the constructor declares it."""

    name: str
    type: Any
    default: Any
    marks: tuple[Any, ...] = ()

    def mark(self, kind: "builtins.type") -> Any:
        """The first annotation of this kind, or None."""
        return next((mark for mark in self.marks if isinstance(mark, kind)), None)

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def describe(self) -> str:
        """The type in words, as error messages and the reference print it."""
        text = describe_type(self.type)
        bounds = self.mark(Range)
        return f"{text} {bounds}" if bounds else text


@cache
def fields_of(target: Callable[..., Any]) -> tuple[Field, ...]:
    """The keys that config may set: keyword-only parameters, or all fields of a dataclass."""
    if dataclasses.is_dataclass(target):
        hints = get_type_hints(target, include_extras=True)
        return tuple(_field(f.name, hints[f.name], _dataclass_default(f)) for f in dataclasses.fields(target))
    function = target.__init__ if inspect.isclass(target) else target
    keyword = [p for p in _parameters(target) if p.kind is inspect.Parameter.KEYWORD_ONLY]
    hints = get_type_hints(function, include_extras=True) if keyword else {}
    return tuple(_field(p.name, hints.get(p.name, Any), p.default) for p in keyword)


def positional_of(target: Callable[..., Any]) -> tuple[str, ...]:
    """The names that a builder must inject: every positional parameter."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in _parameters(target) if p.kind in kinds)


def takes_anything(target: Callable[..., Any]) -> bool:
    """Whether the signature swallows arguments (`*args`, `**kwargs`), which a component must not."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.kind in kinds for p in _parameters(target))


def describe_type(annotation: Any) -> str:
    """`int`, `float or null`, `one of relu, gelu`: a type as a user reads it."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return " ".join([describe_type(inner), *(str(mark) for mark in marks if isinstance(mark, Range))])
    if annotation is type(None):
        return "null"
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(describe_type(option) for option in get_args(annotation))
    if get_origin(annotation) in (list, tuple):
        inner = [a for a in get_args(annotation) if a is not Ellipsis]
        return f"list of {describe_type(inner[0])}" if inner else "list"
    return getattr(annotation, "__name__", str(annotation))


def coerce(field: Field, value: Any, where: str) -> Any:
    """Return `value` as the type that `field` declares, or refuse it with a hint.

    Numbers written as text (`1e-4`), whole floats for integers (`1e3`) and integers for floats are
    taken; everything that would lose or guess something is refused.
    """
    if isinstance(value, str) and value == "???":
        raise ConfigError(f"{where}: a value is missing; set {where}={field.describe().replace(' ', '_')}")
    fits, result = _convert(field.type, value)
    if not fits:
        raise ConfigError(f"{where}: expected {field.describe()}, got {value!r}{_hint(field, value)}")
    bounds = field.mark(Range)
    if bounds is not None and not _within(bounds, result):
        raise ConfigError(f"{where}: must be {bounds}, got {value!r}")
    return result


def _parameters(target: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, or of the constructor that a class states itself."""
    if inspect.isclass(target):
        owner = next(c for c in target.__mro__ if "__init__" in vars(c))
        # A class without a constructor inherits one that takes anything, from torch or from object.
        if owner.__module__.split(".")[0] in ("torch", "builtins"):
            return []
    return list(inspect.signature(target).parameters.values())


def _field(name: str, annotation: Any, default: Any) -> Field:
    if get_origin(annotation) is Annotated:
        base, *marks = get_args(annotation)
        return Field(name, base, default, tuple(marks))
    return Field(name, annotation, default)


def _dataclass_default(field: "dataclasses.Field[Any]") -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED


def _hint(field: Field, value: Any) -> str:
    if isinstance(value, str) and value.lower() in ("none", "~", ""):
        return "; write null for no value"
    if isinstance(value, str) and value.lower() in ("yes", "no", "on", "off", "y", "n"):
        return "; write true or false"
    if get_origin(field.type) is Literal and isinstance(value, str):
        return "; " + nearest(value, [str(choice) for choice in get_args(field.type)])
    return ""


def _convert(annotation: Any, value: Any) -> tuple[bool, Any]:
    """Whether `value` fits the annotation, and what it becomes."""
    origin = get_origin(annotation)
    if annotation is Any:
        return True, value
    if origin is Annotated:
        inner, *marks = get_args(annotation)
        fits, result = _convert(inner, value)
        return fits and all(_within(mark, result) for mark in marks), result
    if origin in (Union, types.UnionType):
        options = (_convert(option, value) for option in get_args(annotation))
        return next((pair for pair in options if pair[0]), (False, None))
    if origin is Literal:
        return value in get_args(annotation), value
    if origin in (list, tuple):
        return _convert_sequence(annotation, value)
    if origin is dict or annotation is dict:
        return isinstance(value, Mapping), dict(value) if isinstance(value, Mapping) else None
    return _convert_scalar(annotation, value)


def _within(mark: Any, value: Any) -> bool:
    """Whether a number is in the range that the annotation states; anything else is not bounded."""
    return not isinstance(mark, Range) or not isinstance(value, (int, float)) or mark.holds(value)


def _convert_sequence(annotation: Any, value: Any) -> tuple[bool, Any]:
    if not isinstance(value, (list, tuple)):
        return False, None
    inner = [a for a in get_args(annotation) if a is not Ellipsis]
    pairs = [_convert(inner[0] if inner else Any, item) for item in value]
    # Lists stay lists in the frozen config, so that it equals what YAML reads back.
    return all(fits for fits, _ in pairs), [item for _, item in pairs]


def _convert_scalar(kind: Any, value: Any) -> tuple[bool, Any]:
    if kind is type(None):
        return value is None, None
    if kind is bool:
        return isinstance(value, bool), value
    if kind is str:
        # `None` as text is never meant: a file of that name has cost people days.
        return isinstance(value, str) and value != "None", value
    if kind is float:
        return _convert_float(value)
    if kind is int:
        return _convert_int(value)
    return isinstance(value, kind), value


def _convert_int(value: Any) -> tuple[bool, Any]:
    if isinstance(value, int):
        return not isinstance(value, bool), value
    if isinstance(value, str):
        try:
            return True, int(value)  # not by way of a float, which holds 53 bits
        except ValueError:
            pass
    fits, number = _convert_float(value)
    whole = fits and math.isfinite(number) and number == int(number)
    return (True, int(number)) if whole else (False, None)


def _convert_float(value: Any) -> tuple[bool, Any]:
    if isinstance(value, bool):
        return False, None
    if not isinstance(value, (int, float, str)):
        return False, None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return False, None
    return math.isfinite(number), number
