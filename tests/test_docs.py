"""README and docs say what is true: links exist, commands run, generated parts are current."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from tfexp.cli.main import VERBS, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TINY = [
    "data/tokenizer=byte", "data.seq_len=8", "data.batch_size=2", "model.d_model=16", "model.n_layers=1",
    "trainer.max_steps=2", "trainer.val_every=2", "trainer.progress=false",
]  # fmt: skip
SMALL_DATA = ["data.val_fraction=0.01"]
EXTRA = {
    "train": TINY,
    "ablate": [*TINY, *SMALL_DATA, "hydra/launcher=basic"],
    "plan": [*TINY, *SMALL_DATA],
    "generate": ["max_new_tokens=3"],
}


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def console_commands() -> list[list[str]]:
    lines = [line for block in code_blocks("console") for line in block.splitlines() if line.strip()]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def python_block(start: str) -> str:
    return next(block for block in code_blocks("python") if block.startswith(start))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder as a reader has it: README beside it, and the component of the README in a file."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "README.md").write_text(README, encoding="utf-8")
    (folder / "recency.py").write_text(python_block("# recency.py"), encoding="utf-8")
    return folder


def test_readme_commands_run_in_their_order(workplace, monkeypatch, capsys, scratch_registry):
    monkeypatch.chdir(workplace)
    commands = console_commands()
    assert len(commands) >= 12
    for command in commands:
        verb, extra = command[0], EXTRA.get(command[0], [])
        if "data=text_files" in command:
            extra = [o for o in extra if not o.startswith("data/tokenizer")]
        elif verb == "train":
            extra = [*extra, *SMALL_DATA]
        elif verb == "generate" and "temperature=0.8" not in command:
            extra = []  # a task that answers takes no keys of generation
        elif verb == "evaluate":
            command = [c.replace("256", "16") for c in command]
        assert main([*command, *extra]) == 0, (command, capsys.readouterr().err)
    assert len(list((workplace / "outputs" / "runs").iterdir())) >= 10 + 1 + 4 + 2 + 1


def test_readme_names_every_verb_that_a_user_types():
    typed = {command[0] for command in console_commands()} | {"completion"}
    assert typed == set(VERBS)


def test_readme_python_runs(workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    quick = '"model=small", "data/tokenizer=byte", "data.val_fraction=0.01", "model.d_model=16"'
    code = python_block("import tfexp").replace('"model=small"', quick).replace("max_steps=50", "max_steps=2")
    exec(compile(code.replace('"model=gpt2"', '"model=gpt2", "model.d_model=48"'), "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_straight_line_exists():
    links = re.findall(r"\[`([\w/.]+)`\]\(([\w/.]+)\)(?: `(\w+)`)?", README)
    assert len(links) >= 10
    for shown, target, name in links:
        text = (ROOT / target).read_text(encoding="utf-8")
        assert shown == target
        assert not name or re.search(rf"(def|class) {name}\b", text), (target, name)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_relative_links_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)", text) if "://" not in t]
    missing = [t for t in targets if not (ROOT / page).parent.joinpath(t).exists()]
    assert not missing


def test_generated_parts_are_current():
    spec = importlib.util.spec_from_file_location("update", ROOT / "docs" / "update.py")
    update = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(update)
    assert update.updated(README) == README, "run: python docs/update.py"


def test_a_generated_part_that_is_stale_is_noticed():
    stale = README.replace("| rope | yes |", "| rope | no |")
    assert stale != README
    spec = importlib.util.spec_from_file_location("update", ROOT / "docs" / "update.py")
    update = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(update)
    assert update.updated(stale) != stale


def test_components_have_the_three_files_that_contributing_promises():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tfexp|conf|tests)/[\w/<>.]+)`", text)
    for path in ("tfexp/components/<slot>/<name>.py", "conf/model/<slot>/<name>.yaml", "tests/components/cases.py"):
        assert path in named
