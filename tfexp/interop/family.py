"""How a Hugging Face family is described, and the two ways to read the description of its options."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

from tfexp.errors import ConfigError, nearest
from tfexp.model.ends import Ends
from tfexp.model.spec import SIDES, SLOTS_OF_A_LAYER, ModelSpec

Form = Literal["same", "transposed", "row"]
Id = Literal["begin", "end", "pad"]
ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "relu2": "relu_squared",
}
"""Names of Hugging Face and ours; where several mean one function, the first is written."""


@dataclass(frozen=True)
class Key:
    """An option of a Hugging Face config, and the key of `model` that says the same.

    Args:
        theirs: Dotted where options are nested.
        ours: Dotted, such as `attention.score.name`.
        values: Their values and ours; None = the same.
    """

    theirs: str
    ours: str
    values: Mapping[Any, Any] | None = None


@dataclass(frozen=True)
class Row:
    """A tensor of Hugging Face, and the parameters of ours that it holds.

    Args:
        theirs: Its name; `{i}` is the layer.
        ours: Several where it holds them one after the other, along the output features.
        form: `transposed` = (in, out) instead of (out, in); `row` = (1, V) instead of (V,).
        zero_if_missing: A file without it means zeros.
        only: For models that have, or have not, another parameter of ours.
    """

    theirs: str
    ours: tuple[str, ...]
    form: Form = "same"
    zero_if_missing: bool = False
    only: tuple[Literal["with", "without"], str] | None = None

    def at(self, layer: int) -> "Row":
        """This row of one layer."""
        theirs, *ours = (name.replace("{i}", str(layer)) for name in (self.theirs, *self.ours))
        only = self.only and (self.only[0], self.only[1].replace("{i}", str(layer)))
        return replace(self, theirs=theirs, ours=tuple(ours), only=only)


@dataclass(frozen=True)
class Family:
    """A family of models in transformers.

    Args:
        name: Its `model_type`.
        model: Its class with a head that scores tokens.
        auto: The class of transformers that makes such models of a config.
        prefix: What names begin with, except those of a model that was saved without its head.
        node: What all of its models have in common, as a `model` node.
        keys: What they may differ in.
        fixed: Options that could change the result and have one supported value.
        ids: Options that hold special ids, and which of `Ends` each is; the first one is read.
        required_ids: Those that transformers cannot do without.
        never_pads: Its models never generate the pad id.
        rows: Its tensors.
        computed: Regular expressions of tensors that follow from the config.
    """

    name: str
    model: str
    auto: str
    prefix: str
    node: Mapping[str, Any]
    keys: tuple[Key, ...]
    fixed: Mapping[str, Any]
    ids: Mapping[str, Id]
    rows: tuple[Row, ...]
    computed: tuple[str, ...] = ()
    required_ids: tuple[Id, ...] = ()
    never_pads: bool = False

    def node_of(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The `model` node of a Hugging Face config, given as a dict.

        Raises:
            ConfigError: An option has a value that tfexp has no counterpart of.
        """
        for option, only in {**self.fixed, "quantization_config": None}.items():
            value = _at(config, option, only)
            if value != only:
                raise ConfigError(f"from_hf: {self.name} with {option}={value} is not supported; only {only} is")
        node, said_by = deepcopy(dict(self.node)), {}
        for key in self.keys:
            value = _at(config, key.theirs, _ABSENT)
            if value is _ABSENT:
                continue
            before = said_by.setdefault(key.ours, (key.theirs, value))
            if before[1] != value:
                raise ConfigError(
                    f"from_hf: {self.name} with {before[0]}={before[1]} and {key.theirs}={value} is not supported; "
                    f"both are model.{key.ours}"
                )
            _put(node, key.ours, self._our_value(key, value))
        return node

    def options_of(self, spec: ModelSpec) -> dict[str, Any]:
        """The Hugging Face config that comes closest to a description; ids are not part of it."""
        config: dict[str, Any] = {}
        for option, only in self.fixed.items():
            _put(config, option, only)
        written = set()
        for key in self.keys:
            value = _at(_sides(spec), key.ours, _ABSENT)
            if value is _ABSENT or key.theirs in written:
                continue
            written.add(key.theirs)
            if key.values is not None:
                fitting = (theirs for theirs, ours in key.values.items() if _says(value, ours))
                value = next(fitting, next(iter(key.values)))
            _put(config, key.theirs, value)
        return config

    def misfits(self, spec: ModelSpec) -> list[str]:
        """What of a description this family cannot say, such as `model.position.name=alibi`."""
        try:
            closest = described(ModelSpec.from_config(self.node_of(self.options_of(spec))))
        except ConfigError:  # not even the sizes go together
            closest = {}
        return [f"{key}={value}" for key, value in described(spec).items() if closest.get(key, _ABSENT) != value]

    def ends_of(self, config: Mapping[str, Any]) -> Ends:
        """The special ids that a config names."""
        found: dict[str, int | None] = {"begin": None, "end": None, "pad": None}
        for option, which in self.ids.items():
            value = config.get(option)
            first = value[0] if isinstance(value, list) else value  # the chat models of Llama 3 have several
            found[which] = first if found[which] is None else found[which]
        pad = found["pad"]
        return Ends(**found, never=(pad,) if self.never_pads and pad is not None else ())

    def id_options(self, ends: Ends | None) -> dict[str, int | None]:
        """The options that name special ids."""
        ends = ends or Ends(None, None, None)
        missing = [which for which in self.required_ids if getattr(ends, which) is None]
        if missing:
            what = " and ".join(missing)
            raise ConfigError(f"to_hf: {self.name} needs the ids of {what}; set model.ends = Ends(begin, end, pad)")
        return {option: getattr(ends, which) for option, which in self.ids.items()}

    def _our_value(self, key: Key, value: Any) -> Any:
        if key.values is None:
            return value
        if value not in key.values:
            hint = nearest(str(value), [str(choice) for choice in key.values])
            raise ConfigError(f"from_hf: {self.name} with {key.theirs}={value} is not supported; {hint}")
        return deepcopy(key.values[value])


# --- a description, side by side ----------------------------------------------------------------

OF_A_MODEL = ("architecture", "d_model", "max_seq_len", "vocab_size", "tie_embeddings", "head")
OF_ITS_ENDS = ("norm_placement", "norm")  # of a stack, which layers may override
OF_A_LAYER = ("n_heads", "n_kv_heads", "head_dim", "d_ff", *SLOTS_OF_A_LAYER)
NOT_WHAT_BUT_HOW = "form"  # of attention: the same numbers, another kernel


def described(spec: ModelSpec) -> dict[str, Any]:
    """Everything that decides what a model computes in evaluation: dotted key -> value.

    The value of a key that differs between the layers of a stack, or its ends, is the list of them.
    """
    found = _flat("model", {key: getattr(spec, key) for key in OF_A_MODEL})
    two_sided = spec.architecture == "encoder_decoder"
    if two_sided:
        found["model.share_embeddings"] = spec.share_embeddings
    for side in SIDES[spec.architecture]:
        place = f"model.{side}" if two_sided else "model"
        stack = spec.stack_spec(side)
        found[f"{place}.n_layers"] = stack.n_layers
        layers = [_layer(layer, two_sided and side == "decoder") for layer in spec.layer_specs(side)]
        ends = _flat("", {key: getattr(stack, key) for key in OF_ITS_ENDS})
        for key in dict.fromkeys(key for part in (*layers, ends) for key in part):
            values = [part.get(key) for part in ([*layers, ends] if key in ends else layers)]
            found[f"{place}.{key}"] = values[0] if values.count(values[0]) == len(values) else values
    return found


def _layer(spec: ModelSpec, crossing: bool) -> dict[str, Any]:
    parts = {key: getattr(spec, key) for key in OF_A_LAYER}
    return _flat("", {**parts, "cross_attention": spec.cross_attention or spec.attention} if crossing else parts)


def _flat(place: str, node: Mapping[str, Any]) -> dict[str, Any]:
    """Nested keys as dotted ones; a component's name comes before its options."""
    found: dict[str, Any] = {}
    for key, value in node.items():
        path = f"{place}.{key}".lstrip(".")
        if isinstance(value, Mapping):
            found |= _flat(path, value)
        elif key != NOT_WHAT_BUT_HOW:
            found[path] = value
    return found


def _sides(spec: ModelSpec) -> dict[str, Any]:
    """The node of a description whose shared part is that of the only side, or of the target side."""
    stacks = {side: spec.stack_spec(side).as_node() for side in SIDES[spec.architecture]}
    return {**list(stacks.values())[-1], **stacks}


_ABSENT: Any = object()


def _at(node: Mapping[str, Any], path: str, otherwise: Any) -> Any:
    for name in path.split("."):
        if not isinstance(node, Mapping) or name not in node:
            return otherwise
        node = node[name]
    return node


def _put(node: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    for name in above:
        node = node.setdefault(name, {})
    node[last] = value


def _says(value: Any, ours: Any) -> bool:
    """Whether our value is the one of a table, which may name some keys of a choice only."""
    if isinstance(ours, Mapping) and isinstance(value, Mapping):
        return all(value.get(key) == part for key, part in ours.items())
    return value == ours
