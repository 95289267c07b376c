"""The table of tensors, read in both directions: theirs into a model of ours, and back."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from tfexp.errors import DataError
from tfexp.interop.family import Family, Row
from tfexp.model.spec import SIDES, ModelSpec
from tfexp.model.transformer import Transformer

EMBEDDING, HEAD = "embedding.token.weight", "head.project.weight"


def rows_of(family: Family, spec: ModelSpec, ours: Collection[str]) -> Iterator[Row]:
    """The rows of a family that this model has, with the layers counted out.

    Args:
        family: Whose rows.
        spec: Of a model of that family.
        ours: The names of its parameters; a model without biases has no row of biases.
    """
    depths = {side: spec.stack_spec(side).n_layers for side in SIDES[spec.architecture]}
    for row in family.rows:
        side = next((side for side in depths if row.ours[0].startswith(f"{side}.layers.{{i}}")), None)
        for one in [row] if side is None else map(row.at, range(depths[side])):
            wanted = one.only is None or (one.only[1] in ours) == (one.only[0] == "with")
            if wanted and one.ours[0] in ours:
                yield one


def with_prefix(family: Family, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the names of the model with its head, without those that follow from the config."""
    bare = not any(name.startswith(family.prefix) for name in tensors)
    named = {f"{family.prefix}{name}" if bare else name: tensor for name, tensor in tensors.items()}
    computed = re.compile("|".join(family.computed) or r"\Z")
    return {name: tensor for name, tensor in named.items() if not computed.fullmatch(name)}


def has_its_own_head(family: Family, tensors: Mapping[str, Tensor]) -> bool:
    """Whether the head differs from the embedding: then transformers does not tie them, whatever the config says."""
    heads, tables = (
        [tensors[row.theirs] for row in family.rows if row.ours == (name,) and row.theirs in tensors]
        for name in (HEAD, EMBEDDING)
    )
    return any(not torch.equal(head, table) for head in heads for table in tables)


def fill(model: Transformer, family: Family, tensors: Mapping[str, Tensor]) -> None:
    """Give a model on the meta device its parameters.

    Raises:
        DataError: A tensor is missing, left over or of the wrong shape, or two are to be one and differ.
    """
    own = dict(model.named_parameters(remove_duplicate=False))
    rows = list(rows_of(family, model.spec, own))
    left = sorted(tensors.keys() - {row.theirs for row in rows})
    if left:
        raise DataError(f"from_hf: {left[0]}{_more(left)} of the weights is no tensor of such a {family.name}")
    filled: dict[int, tuple[str, Tensor]] = {}  # by parameter, since a tied one has several names
    for row in rows:
        for name, value in _parts(row, tensors, [own[name] for name in row.ours]):
            source, before = filled.setdefault(id(own[name]), (row.theirs, value))
            if not torch.equal(before, value):
                raise DataError(f"from_hf: {source} and {row.theirs} differ, and the config says that they are one")
    missing = [row.theirs for row in rows if id(own[row.ours[0]]) not in filled]
    if missing:
        raise DataError(f"from_hf: the weights lack {missing[0]}{_more(missing)}")
    _assign(model, {place: value for place, (_, value) in filled.items()})


def exported(model: Transformer, family: Family, names: Collection[str]) -> dict[str, Tensor]:
    """The tensors of a model under those of their names that are wanted."""
    own = dict(model.named_parameters(remove_duplicate=False))
    found, seen = {}, set()
    for row in rows_of(family, model.spec, own):
        if row.theirs in names:  # tables that are not shared have no name in common
            whole = torch.cat([own[name].detach() for name in row.ours])
            found[row.theirs] = whole.T if row.form == "transposed" else whole[None] if row.form == "row" else whole
            seen |= {id(own[name]) for name in row.ours}
    assert seen == {id(p) for p in model.parameters()}  # the description fits, so the tensors do
    return found


def _parts(row: Row, tensors: Mapping[str, Tensor], own: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The parameters, by name, that one of their tensors holds; none if it is not there."""
    whole = tensors.get(row.theirs)
    if whole is None:
        if row.zero_if_missing:
            yield from ((name, torch.zeros(p.shape)) for name, p in zip(row.ours, own, strict=True))
        return
    if not whole.is_floating_point():
        raise DataError(f"from_hf: {row.theirs} holds {str(whole.dtype).removeprefix('torch.')}; only floats are read")
    turned = whole.T if row.form == "transposed" else whole[0] if row.form == "row" else whole
    sizes = [len(p) for p in own]
    if turned.shape != (sum(sizes), *own[0].shape[1:]):
        raise DataError(f"from_hf: {row.theirs} has shape {tuple(whole.shape)}, which is not what the config says")
    yield from zip(row.ours, turned.split(sizes), strict=True)


def _assign(model: nn.Module, values: Mapping[int, Tensor]) -> None:
    """Put one new parameter at every place of each old one, so that what was tied stays tied."""
    dtype = reduce(torch.promote_types, {value.dtype for value in values.values()})  # holds all without loss
    olds = {id(p): p for p in model.parameters()}  # kept, so that no new parameter gets the id of an old one
    made = {
        place: nn.Parameter(value.to(dtype).clone(memory_format=torch.contiguous_format), olds[place].requires_grad)
        for place, value in values.items()
    }
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, made[id(parameter)])


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
