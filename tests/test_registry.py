import subprocess
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from tfexp.errors import ConfigError, RegistryError
from tfexp.registry import check_choice, check_node, common_fields, create, known_slot, names, register, resolve
from tfexp.schema import ChoiceOf, ChoicesOf, Range
from tfexp.slots import SLOTS, Slot


class Plain:
    def __init__(self, d_model: int, *, rate: float = 0.5, norm: Annotated[Any, ChoiceOf("norm")] = None) -> None:
        self.d_model, self.rate, self.norm = d_model, rate, norm


def strange_positional(width: int) -> None: ...
def swallows_positional(*args: int) -> None: ...
def swallows_keywords(**kwargs: int) -> None: ...
def takes_name(*, name: str = "x") -> None: ...
def fine() -> None: ...


BAD_DECLARATIONS = {
    "unknown_slot": ("postion", fine, {}, "unknown slot 'postion'; did you mean 'position'?"),
    "injected_name": ("norm", strange_positional, {}, "norm/bad: positional parameter 'width' is not offered to this"),
    "injected_name_of_another_slot": ("schedule", Plain.__init__, {}, "positional parameter 'self' is not offered"),
    "says_what_is_offered": ("optim", strange_positional, {}, "let YAML set it, or use one of: model"),
    "nothing_is_offered": ("tokenizer", strange_positional, {}, "let YAML set it, or use one of: none"),
    "args": ("norm", swallows_positional, {}, r"norm/bad: \*args and \*\*kwargs would swallow a typo"),
    "kwargs": ("norm", swallows_keywords, {}, r"norm/bad: \*args and \*\*kwargs would swallow a typo"),
    "reserved_name": ("norm", takes_name, {}, "norm/bad: the key 'name' is taken by every norm; choose another"),
    "unknown_need": ("norm", fine, {"needs": {"casual"}}, "unknown trait 'casual'; did you mean 'causal'?"),
    "unknown_gift": ("norm", fine, {"gives": {"exactt"}}, "unknown trait 'exactt'; did you mean 'exact'?"),
}
BAD_CHOICES = {
    "typo_in_a_name": ("position", "ropee", "model.position: unknown position 'ropee'; did you mean 'rope'?"),
    "no_near_name": ("norm", "xyz", "model.norm: unknown norm 'xyz'; choices: layernorm, rmsnorm."),
    "no_name": ("norm", {"eps": 1.0}, "model.norm: expected the name of a norm, got {'eps': 1.0}; choices: layernorm"),
    "null": ("norm", None, "model.norm: expected the name of a norm, got None; choices: layernorm, rmsnorm."),
    "list": ("norm", ["rmsnorm"], "model.norm: expected the name of a norm, got ['rmsnorm']"),
    "typo_in_a_key": ("norm", {"name": "rmsnorm", "epss": 1}, "model.norm.epss: unknown key; did you mean 'eps'?"),
    "key_of_another_choice": (
        "norm",
        {"name": "rmsnorm", "bias": True},
        "model.norm.bias: unknown key; keys here: eps.",
    ),
    "no_keys_at_all": ("position", {"name": "none", "base": 1}, "base: unknown key; there are no choices."),
    "geometry_is_not_a_key": ("norm", {"name": "rmsnorm", "d_model": 8}, "model.norm.d_model: unknown key"),
    "value": ("norm", {"name": "rmsnorm", "eps": "small"}, "model.norm.eps: expected float > 0, got 'small'"),
    "range": ("norm", {"name": "rmsnorm", "eps": 0}, "model.norm.eps: must be > 0, got 0"),
    "nested_name": (
        "attention",
        {"name": "softmax", "score": "scaled_dott"},
        "model.attention.score: unknown score 'scaled_dott'; did you mean 'scaled_dot'?",
    ),
    "nested_key": (
        "attention",
        {"name": "softmax", "score": {"name": "cosine", "scales": 1}},
        "model.attention.score.scales: unknown key; did you mean 'scale'?",
    ),
}


@dataclass
class Inner:
    rate: Annotated[float, Range(ge=0)] = 0.5


@dataclass
class Outer:
    size: int
    inner: Inner = field(default_factory=Inner)
    logger: Annotated[Any, ChoicesOf("norm")] = field(default_factory=dict)


BAD_NODES = {
    "missing": ({}, "run.size: a value is missing (int)"),
    "marked_missing": ({"size": "???"}, "run.size: a value is missing; set run.size=int"),
    "unknown_key": ({"size": 1, "sizes": 2}, "run.sizes: unknown key; did you mean 'size'?"),
    "nested_key": ({"size": 1, "inner": {"rat": 1}}, "run.inner.rat: unknown key; did you mean 'rate'?"),
    "nested_range": ({"size": 1, "inner": {"rate": -1}}, "run.inner.rate: must be >= 0, got -1"),
    "nested_null": ({"size": 1, "inner": None}, "run.inner: expected a group of keys (rate), got None"),
    "not_a_group": ([1], "run: expected a group of keys (size, inner, logger), got [1]"),
    "choices_by_name_only": ({"size": 1, "logger": "rmsnorm"}, "run.logger: expected a group of norm choices, got"),
    "choices_typo": ({"size": 1, "logger": {"rmsnrm": {}}}, "run.logger.rmsnrm: unknown norm 'rmsnrm'; did you mean"),
}


@pytest.mark.parametrize(("slot", "target", "traits", "message"), BAD_DECLARATIONS.values(), ids=BAD_DECLARATIONS)
def test_register_refuses(scratch_registry, slot, target, traits, message):
    with pytest.raises(RegistryError, match=message):
        register(slot, "bad", **traits)(target)
    assert "bad" not in scratch_registry._components.get(slot, {})


def test_a_key_that_every_choice_takes_is_reserved(scratch_registry, monkeypatch):
    slot = Slot("", "tfexp.components.norm", "model/norm", frozenset({"d_model"}), common=f"{__name__}:Inner")
    monkeypatch.setitem(SLOTS, "norm", slot)
    assert [f.name for f in common_fields("norm")] == ["rate"]
    with pytest.raises(RegistryError, match="norm/bad: the key 'rate' is taken by every norm"):
        register("norm", "bad")(Plain)
    assert check_choice("norm", {"name": "rmsnorm", "rate": 1}, "model.norm")["rate"] == 1.0


@pytest.mark.parametrize(("slot", "node", "message"), BAD_CHOICES.values(), ids=BAD_CHOICES)
def test_check_choice_refuses(slot, node, message):
    with pytest.raises(ConfigError) as error:
        check_choice(slot, node, f"model.{slot}")
    assert message in str(error.value)


@pytest.mark.parametrize(("node", "message"), BAD_NODES.values(), ids=BAD_NODES)
def test_check_node_refuses(node, message):
    with pytest.raises(ConfigError) as error:
        check_node(Outer, node, "run")
    assert message in str(error.value)


def test_an_error_at_the_root_names_the_key_alone():
    with pytest.raises(ConfigError, match=r"^sizes: unknown key; did you mean 'size'"):
        check_node(Outer, {"size": 1, "sizes": 2}, "")


def test_check_node_fills_every_default():
    checked = check_node(Outer, {"size": "3", "logger": {"rmsnorm": None, "layernorm": {"bias": False}}}, "run")
    assert checked["size"] == 3
    assert checked["inner"] == {"rate": 0.5}
    assert checked["logger"]["rmsnorm"] == {"name": "rmsnorm", "eps": 1e-6}
    assert checked["logger"]["layernorm"]["bias"] is False


def test_check_choice_fills_every_default_at_every_depth():
    checked = check_choice("attention", {"name": "softmax", "qk_norm": "rmsnorm"}, "model.attention")
    assert checked["score"] == {"name": "scaled_dot", "scale": None}
    assert checked["qk_norm"] == {"name": "rmsnorm", "eps": 1e-6}
    assert check_choice("attention", checked, "model.attention") == checked


def test_default_config_is_what_the_signature_says(scratch_registry):
    register("norm", "plain")(Plain)
    register("norm", "wanting")(required)
    assert resolve("norm", "plain").default_config() == {"name": "plain", "rate": 0.5, "norm": None}
    assert resolve("norm", "wanting").default_config() == {"name": "wanting", "size": "???"}


def required(*, size: int) -> int:
    return size


def test_create_injects_by_name_and_sets_keys(scratch_registry):
    register("norm", "plain")(Plain)
    made = create("norm", {"name": "plain", "rate": 0.25}, {"d_model": 8, "n_heads": 2})
    assert (made.d_model, made.rate, made.norm) == (8, 0.25, None)


def test_create_says_what_it_cannot_inject(scratch_registry):
    register("norm", "plain")(Plain)
    with pytest.raises(RegistryError, match="norm/plain: nothing to inject for d_model here"):
        create("norm", {"name": "plain"}, {"n_heads": 2})


@pytest.mark.parametrize("call", [known_slot, names, lambda s: resolve(s, "x"), lambda s: check_choice(s, "x", "m")])
def test_an_unknown_slot_is_refused_everywhere(call):
    with pytest.raises(RegistryError, match="unknown slot 'attentoin'; did you mean 'attention'"):
        call("attentoin")


def test_resolve_without_a_place_names_the_config_group():
    with pytest.raises(ConfigError, match=r"^model/norm: unknown norm 'rmsnor'; did you mean 'rmsnorm'"):
        resolve("norm", "rmsnor")


def test_two_classes_of_one_file_under_one_name_are_refused(scratch_registry):
    register("norm", "plain")(Plain)
    with pytest.raises(RegistryError, match=r"norm/plain is registered twice: in .*test_registry.py \(Plain\) and"):
        register("norm", "plain")(fine)


def test_a_class_may_be_declared_again(scratch_registry):
    # What importlib.reload and running a notebook cell twice do.
    register("norm", "plain")(Plain)
    again = type("Plain", (Plain,), {"__module__": __name__, "__qualname__": "Plain"})
    register("norm", "plain")(again)
    assert resolve("norm", "plain").target is again


def test_a_notebook_may_register_and_run_its_cell_twice():
    cell = "from tfexp.registry import *\n@register('norm', 'mine')\nclass Mine: pass\n"
    code = f"{cell}{cell}print(names('norm'), resolve('norm', 'mine').file)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "['layernorm', 'mine', 'rmsnorm'] ?\n"


def test_every_slot_has_a_purpose_and_a_group_of_its_own():
    assert all(slot.purpose and slot.package.startswith("tfexp.") for slot in SLOTS.values())
    assert len({slot.group for slot in SLOTS.values()}) == len(SLOTS)


def test_importing_the_registry_needs_no_torch():
    code = "import sys, tfexp.registry; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "False\n"
