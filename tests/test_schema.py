from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
import torch

from tfexp.errors import ConfigError
from tfexp.schema import (
    NO_EFFECT,
    REQUIRED,
    ChoiceOf,
    Field,
    NoEffect,
    Range,
    coerce,
    describe_type,
    fields_of,
    positional_of,
    takes_anything,
)

Activation = Literal["relu", "gelu"]

ACCEPTED = {
    "int": (int, 3, 3),
    "int_from_whole_float": (int, 1e3, 1000),
    "int_from_text": (int, "1e3", 1000),
    "int_beyond_float_precision": (int, "9007199254740993", 9007199254740993),
    "int_beyond_float_range": (int, 10**400, 10**400),
    "negative_int": (int, -1, -1),
    "float_from_int": (float, 1, 1.0),
    "float_from_text_without_a_dot": (float, "1e-4", 1e-4),
    "bool": (bool, True, True),
    "str": (str, "text", "text"),
    "null": (int | None, None, None),
    "optional_int": (int | None, "7", 7),
    "literal": (Activation, "gelu", "gelu"),
    "literal_or_more": (Activation | Literal["none"], "none", "none"),
    "list": (list[int], [1, "2"], [1, 2]),
    "tuple_becomes_a_list": (tuple[float, float], (1, 2), [1.0, 2.0]),
    "list_of_anything": (list, [1, "a"], [1, "a"]),
    "dict": (dict[str, int], {"a": 1}, {"a": 1}),
    "anything": (Any, {"a": object}, {"a": object}),
    "range_inside_a_list": (list[Annotated[float, Range(ge=0)]], [0, 0.5], [0.0, 0.5]),
}
REFUSED = {
    "int_from_half": (int, 1.5, "model.x: expected int, got 1.5"),
    "int_from_infinity": (int, float("inf"), "model.x: expected int, got inf"),
    "int_from_bool": (int, True, "model.x: expected int, got True"),
    "int_from_word": (int, "three", "model.x: expected int, got 'three'"),
    "int_from_null": (int, None, "model.x: expected int, got None"),
    "float_from_nan": (float, float("nan"), "model.x: expected float, got nan"),
    "float_from_nan_text": (float, "nan", "model.x: expected float, got 'nan'"),
    "float_from_too_large_an_int": (float, 10**400, "model.x: expected float, got 1000"),
    "float_from_bool": (float, False, "model.x: expected float, got False"),
    "bool_from_int": (bool, 1, "model.x: expected bool, got 1"),
    "bool_from_yes": (bool, "yes", "model.x: expected bool, got 'yes'; write true or false"),
    "bool_from_off": (bool, "off", "model.x: expected bool, got 'off'; write true or false"),
    "str_none": (str, "None", "model.x: expected str, got 'None'; write null for no value"),
    "str_or_null_none": (str | None, "None", "model.x: expected str or null, got 'None'; write null for no value"),
    "float_or_null_none": (float | None, "None", "expected float or null, got 'None'; write null for no value"),
    "float_empty": (float, "", "model.x: expected float, got ''; write null for no value"),
    "str_from_int": (str, 3, "model.x: expected str, got 3"),
    "literal_typo": (Activation, "relo", "expected one of relu, gelu, got 'relo'; did you mean 'relu'?"),
    "literal_far_off": (Activation, "xyz", "got 'xyz'; choices: gelu, relu."),
    "literal_from_list": (Activation, ["relu"], "expected one of relu, gelu, got ['relu']"),
    "list_from_scalar": (list[int], 3, "model.x: expected list of int, got 3"),
    "list_with_one_wrong": (list[int], [1, "a"], "model.x: expected list of int, got [1, 'a']"),
    "dict_from_list": (dict, [1], "model.x: expected dict, got [1]"),
    "missing": (int, "???", "model.x: a value is missing; set model.x=int"),
    "missing_choice": (Activation, "???", "model.x: a value is missing; set model.x=one_of_relu,_gelu"),
    "range_inside_a_list": (list[Annotated[float, Range(ge=0)]], [1, -1], "expected list of float >= 0, got [1, -1]"),
}
BOUNDS = [
    (Range(ge=0), [0, 1], [-0.1], "must be >= 0, got"),
    (Range(gt=0), [0.1], [0, -1], "must be > 0, got"),
    (Range(le=1), [1, -3], [1.5], "must be <= 1, got"),
    (Range(lt=1), [0.9], [1], "must be < 1, got"),
    (Range(ge=0, lt=1), [0, 0.5], [-1, 1], "must be >= 0 and < 1, got"),
]
TYPES = [
    (int, "int"),
    (float | None, "float or null"),
    (Activation, "one of relu, gelu"),
    (list[int], "list of int"),
    (tuple[float, ...], "list of float"),
    (list, "list"),
    (Annotated[int, Range(ge=1)], "int >= 1"),
    (Annotated[int, ChoiceOf("norm")], "int"),
    (torch.Tensor, "Tensor"),
]


class Example:
    def __init__(
        self,
        d_model: int,
        n_heads: int = 2,
        *,
        rate: Annotated[float, Range(ge=0)] = 0.5,
        log: Annotated[bool, NO_EFFECT] = False,
        size: int,
    ) -> None:
        pass


class Silent(torch.nn.Module):
    """Has no constructor of its own."""


class Heir(Example):
    """Takes what its parent takes."""


@dataclass
class Settings:
    size: int
    rate: Annotated[float, Range(ge=0)] = 0.5
    names: list[str] = field(default_factory=lambda: ["a"])


@pytest.mark.parametrize(("kind", "value", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_coerce_accepts(kind, value, expected):
    result = coerce(Field("x", kind, REQUIRED), value, "model.x")
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(("kind", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_coerce_refuses(kind, value, message):
    with pytest.raises(ConfigError) as error:
        coerce(Field("x", kind, REQUIRED), value, "model.x")
    assert message in str(error.value)
    assert str(error.value).startswith("model.x: ")


@pytest.mark.parametrize(("bounds", "inside", "outside", "message"), BOUNDS, ids=[str(row[0]) for row in BOUNDS])
def test_ranges(bounds, inside, outside, message):
    limited = Field("x", float, REQUIRED, (bounds,))
    assert [coerce(limited, value, "model.x") for value in inside] == inside
    for value in outside:
        with pytest.raises(ConfigError, match=f"model.x: {message} {value}"):
            coerce(limited, value, "model.x")


def test_a_range_lets_null_through():
    assert coerce(Field("x", int | None, None, (Range(ge=1),)), None, "model.x") is None


@pytest.mark.parametrize(("kind", "text"), TYPES, ids=[row[1] for row in TYPES])
def test_types_in_words(kind, text):
    assert describe_type(kind) == text


def test_a_field_says_its_type_and_range():
    assert Field("x", int, REQUIRED, (Range(ge=1, le=8),)).describe() == "int >= 1 and <= 8"


def test_keyword_only_parameters_are_the_keys():
    rate, log, size = fields_of(Example)
    assert (rate.name, rate.type, rate.default, rate.mark(Range)) == ("rate", float, 0.5, Range(ge=0))
    assert (log.name, log.mark(NoEffect), log.mark(Range)) == ("log", NO_EFFECT, None)
    assert [f.required for f in (rate, log, size)] == [False, False, True]


def test_positional_parameters_are_injected():
    assert positional_of(Example) == ("d_model", "n_heads")


def test_a_dataclass_gives_all_its_fields():
    size, rate, names = fields_of(Settings)
    assert (size.required, rate.default, names.default) == (True, 0.5, ["a"])
    assert rate.mark(Range) == Range(ge=0)


def test_a_function_gives_its_keywords():
    def target(model, *, lr: float = 1e-3):
        return model, lr

    assert [(f.name, f.type, f.default) for f in fields_of(target)] == [("lr", float, 1e-3)]
    assert positional_of(target) == ("model",)


@pytest.mark.parametrize(("target", "keys"), [(Silent, []), (Heir, ["rate", "log", "size"])], ids=["torch", "parent"])
def test_an_inherited_constructor(target, keys):
    assert [f.name for f in fields_of(target)] == keys
    assert not takes_anything(target)


def test_swallowing_signatures_are_seen():
    assert takes_anything(lambda *args: args)
    assert takes_anything(lambda **kwargs: kwargs)
    assert not takes_anything(Example)
