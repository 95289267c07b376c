"""Reads every import of the package with ast, also inside functions, and holds the layers."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tfexp.registry import names, resolve
from tfexp.slots import SLOTS

ROOT = Path(__file__).parents[1]
BASE = {"errors", "schema", "slots", "registry", "streams", "files", "batch"}
MODEL = BASE | {"components", "model"}
RUN = MODEL | {"data", "tasks", "generation", "interop", "config", "training"}
MAY_IMPORT = {
    "errors": set(),
    "schema": {"errors"},
    "slots": set(),
    "registry": {"errors", "schema", "slots"},
    "streams": set(),
    "files": {"errors"},
    "batch": {"errors"},
    "components": BASE,
    "model": BASE | {"components"},
    "data": BASE,  # beside the model: the two meet in Batch
    "generation": MODEL,
    "interop": MODEL,
    "tasks": BASE | {"model", "data", "generation"},  # a task sees the model, never a concrete component
    "config": MODEL | {"data", "tasks", "generation", "interop"},
    "training": RUN - {"training"},
    "ablation": RUN,
    "registry_view": {"registry", "schema"},
    "cli": RUN | {"ablation", "registry_view"},
    "__main__": {"cli"},
}
LIGHT = {"errors", "schema", "slots", "registry", "files"}  # imported by every command, so without torch
NEVER = {
    "torch": LIGHT,
    "hydra": MODEL | {"data", "tasks", "generation"},
    "omegaconf": MODEL | {"data", "tasks", "generation"},
    "pytorch_lightning": MODEL | {"generation"},
    "transformers": MODEL,
}
BAD_FILES = {
    "upwards": ("components/norm/x.py", "from tfexp.model.build import build_model"),
    "upwards_in_a_function": ("data/x.py", "def f():\n    import tfexp.model.build"),
    "by_name_of_the_package": ("model/x.py", "from tfexp import data"),
    "relative": ("model/x.py", "from ..training import run"),
    "same_slot": ("components/norm/x.py", "from tfexp.components.norm.rmsnorm import RMSNorm"),
    "other_slot": ("components/norm/x.py", "from tfexp.components.position.rope import RoPE"),
    "unknown_folder": ("utils/x.py", "from tfexp.errors import nearest"),
    "heavy": ("registry.py", "import torch.nn"),
    "hydra_in_a_function": ("model/x.py", "def f():\n    from omegaconf import DictConfig"),
}
BAD_BRANCHES = {
    "key": "if spec.position['name'] == 'rope': pass",
    "among": "x = name in ('rope', 'alibi')",
    "match": "match part.name:\n    case 'rope': pass",
}


def sources() -> dict[str, str]:
    """Path below tfexp/ -> source, of every module but the lazy public face."""
    files = {p.relative_to(ROOT / "tfexp").as_posix(): p for p in sorted((ROOT / "tfexp").rglob("*.py"))}
    return {path: file.read_text(encoding="utf-8") for path, file in files.items() if path != "__init__.py"}


def module_of(path: str) -> str:
    return "tfexp." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(source: str) -> set[str]:
    """Every name that a file imports at run time; `from tfexp.a import b` is tfexp.a.b, which may be a module."""
    tree = ast.parse(source)
    guards = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    skipped = {id(node) for guard in guards for statement in guard.body for node in ast.walk(statement)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in skipped:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and id(node) not in skipped:
            found |= {f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names}
    return found


def violations(path: str, source: str) -> list[str]:
    """What a file imports although its layer must not."""
    layer = path.split("/")[0].removesuffix(".py")
    if layer not in MAY_IMPORT:
        return [f"{path}: no row in MAY_IMPORT"]
    allowed = MAY_IMPORT[layer] | ({layer} if "/" in path else set()) | {"__version__"}
    in_slot = path.startswith("components/") and path.count("/") == 2
    wrong = []
    for name in sorted(imports(source)):
        top, *rest = name.split(".")
        upwards = top == "tfexp" and bool(rest) and rest[0] not in allowed
        sideways = in_slot and rest[:1] == ["components"] and rest[1] in SLOTS
        if upwards or sideways or name.startswith(".") or layer in NEVER.get(top, ()):
            wrong.append(f"{path} imports {name}")
    return wrong


@pytest.mark.parametrize("path", sources())
def test_imports_go_down_the_layers_only(path):
    assert violations(path, sources()[path]) == []


@pytest.mark.parametrize(("path", "source"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_wrong_import_is_seen(path, source):
    with pytest.raises(AssertionError):
        assert violations(path, source) == []


def graph() -> dict[str, set[str]]:
    """Module -> the modules of tfexp that it imports."""
    modules = {module_of(path): imports(source) for path, source in sources().items()}
    # `from tfexp.errors import nearest` is found as tfexp.errors.nearest: the part before the last dot counts too.
    reached = {module: found | {name.rpartition(".")[0] for name in found} for module, found in modules.items()}
    return {module: (found & modules.keys()) - {module} for module, found in reached.items()}


def test_no_import_circles():
    order = list(TopologicalSorter(graph()).static_order())
    assert order.index("tfexp.errors") < order.index("tfexp.registry") < order.index("tfexp.model.build")


def test_an_import_circle_is_seen():
    with pytest.raises(CycleError):
        list(TopologicalSorter({**graph(), "tfexp.errors": {"tfexp.registry"}}).static_order())


def branches_on_names(source: str, registered: set[str]) -> list[str]:
    """Comparisons of something called `name` (or `["name"]`) with a registered component's name."""
    pairs = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            pairs.append((node.left, node.comparators))
        elif isinstance(node, ast.Match):
            pairs.append((node.subject, [case.pattern for case in node.cases]))
    found = []
    for subject, others in pairs:
        constants = {c.value for other in others for c in ast.walk(other) if isinstance(c, ast.Constant)}
        if ast.unparse(subject).endswith(("name", "['name']")) and constants & registered:
            found.append(ast.unparse(subject))
    return found


def registered_names() -> set[str]:
    return {name for slot, s in SLOTS.items() if s.package.startswith("tfexp.components.") for name in names(slot)}


def test_nothing_branches_on_the_name_of_a_component():
    registered = registered_names()
    # "none" is also the name of an activation and of other choices that are not components.
    found = {path: branches_on_names(source, registered - {"none"}) for path, source in sources().items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("source", BAD_BRANCHES.values(), ids=BAD_BRANCHES)
def test_a_branch_on_a_name_is_seen(source):
    assert branches_on_names(source, registered_names())


def test_every_component_is_in_a_file_of_its_slot():
    for slot, declared in SLOTS.items():
        if declared.package.startswith("tfexp.components."):
            files = {Path(resolve(slot, name).file) for name in names(slot)}
            folder = ROOT / "tfexp" / "components" / slot
            assert files == set(folder.glob("*.py")) - {folder / "__init__.py"}
