import json
import shlex
import subprocess
import sys
import time

import pytest

import tfexp
from tests import runs
from tfexp.cli import train as train_verb
from tfexp.cli.main import VERBS, main
from tfexp.registry import SLOTS, names

# Command lines that are refused, and how the one line begins.
REFUSED = {
    "verb": ("trian", "unknown verb 'trian'; did you mean 'train'?"),
    "no_near_verb": ("xyz", "unknown verb 'xyz'; choices: ablate, completion, evaluate, generate, list, plan, report"),
    "key": ("train optim.lrr=1", "optim.lrr: unknown key; did you mean 'lr'?"),
    "plus_key": ("train +optim.lrr=1", "optim.lrr: unknown key; did you mean 'lr'?"),
    "group": ("train modle=small", "modle: unknown key or group; did you mean 'model'?"),
    "choice": ("train model/position=ropee", "model/position: unknown choice 'ropee'; did you mean 'rope'?"),
    "null_choice": ("train model=null", "model: null is not a choice; choices: "),
    "type": ("train trainer.max_steps=1.5", "trainer.max_steps: expected int >= 1, got 1.5"),
    "none": (
        "train trainer.clip=None",
        "trainer.clip: expected float or null > 0, got 'None'; write null for no value",
    ),
    "missing": ("train data=text_files", "data.train: a value is missing; set data.train=str_or_list_of_str"),
    "file": ("train data=text_files data.train=none.txt", "data.train: there is no file none.txt (looked from "),
    "heads": ("train model.n_heads=5", "model.n_heads: d_model=128 is not divisible by n_heads=5; use 4 heads or set"),
    "rope": ("train model.d_model=20 model.n_heads=4", "model.position=rope rotates pairs: head_dim must be even"),
    "several": ("train seed=0,1", "seed=0,1: add -m to run each value, or write seed=[0,1] for a list"),
    "grammar": ("train data.train=a=b", "cannot read the override: mismatched input '=' expecting <EOF>; quote values"),
    "flag": ("train --multirn seed=0", "--multirn: unknown flag; did you mean '--multirun'?"),
    "sweep_key": ("train -m seed=0,1 optim.lrr=1", "optim.lrr: unknown key; did you mean 'lr'?"),
    "sweep_choice": ("train -m model/position=rope,ropee", "model/position: unknown choice 'ropee'; did you mean"),
    "sweep_type": ("train -m trainer.max_steps=1,1.5", "trainer.max_steps: expected int >= 1, got 1.5"),
    "study_as_run": ("train ablation=quickstart", "ablation: tfexp train runs one config; use: tfexp ablate ablation="),
    "no_study": ("ablate", "ablation: no study is chosen; try ablation=quickstart"),
    "plan_study": ("plan ablation=quickstrat", "ablation: unknown choice 'quickstrat'; did you mean 'quickstart'?"),
    "no_runs": ("evaluate last", "there are no runs under outputs/runs; start one with: tfexp train"),
    "no_run": ("evaluate", "tfexp evaluate: the following arguments are required: RUN; see tfexp evaluate --help"),
    "report": ("report nope", "there are no runs under outputs/runs; start one with: tfexp train"),
    "generate": ("generate last -p ab", "there are no runs under outputs/runs; start one with: tfexp train"),
    "prompt_as_override": ("generate last hello", "hello: expected key=value; a prompt is given with --prompt"),
    "two_prompts": ("generate last -p a -f b", "generate: give prompts with --prompt or with --file, not both"),
    "prompt_file": ("generate last -f none.txt", "--file: cannot read none.txt: "),
    "slot": ("list postion", "unknown slot 'postion'; did you mean 'position'?"),
    "plugin": ("list --plugins nope", "plugins: importing 'nope' failed: ModuleNotFoundError: No module named 'nope'"),
    "show_form": ("show rope", "rope: expected SLOT/NAME, such as position/rope"),
    "show_name": ("show position/ropee", "model/position: unknown position 'ropee'; did you mean 'rope'?"),
    "json_typo": ("summary --jsn", "tfexp summary: unrecognized arguments: --jsn; see tfexp summary --help"),
    "length": ("summary --length 999", "summary: batch must be at least 1 and length 1 to 128, got 2, 999"),
    "batch": ("summary --batch x", "tfexp summary: argument --batch: invalid int value: 'x'; see tfexp summary --help"),
    "shell": ("completion fish", "tfexp completion: argument shell: invalid choice: 'fish'"),
}
# A shell that asks for completions of a line and prints them.
COMPLETE = """
eval "$({tfexp} completion bash)"
tfexp() {{ {tfexp} "$@"; }}
complete_line() {{
    COMP_LINE="$1"; COMP_WORDS=($1); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); COMPREPLY=()
    _tfexp_complete; echo "${{COMPREPLY[@]}}"
}}
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Every command runs in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("line", "message"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_a_line_with_status_1_and_leaves_nothing(tmp_path, capsys, line, message):
    assert main(line.split()) == 1
    out, err = capsys.readouterr()
    shown = [text for text in err.splitlines() if not text.endswith(" ...")]  # what was being prepared
    assert out == ""
    assert len(shown) in (1, 2)
    assert shown[0].startswith(f"error: {message}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(capsys, verb):
    try:
        status = main([verb, "--help"])
    except SystemExit as end:
        status = end.code
    assert status == 0
    assert f"tfexp {verb}" in capsys.readouterr().out


def test_help_shows_every_verb_and_version_the_version(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(verb in out for verb in VERBS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == tfexp.__version__
    assert main([]) == 2


def test_help_is_fast():
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([*runs.command("--help")], check=True, capture_output=True, env=runs.environment())
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.5  # the promise is 0.3 s; other processes may run beside this one


def test_list_shows_every_component(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name}" in out for slot in SLOTS for name in names(slot))
    assert main(["list", "position", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in listed["position"]] == names("position")


def test_show_prints_the_docstring_keys_and_source(capsys):
    for reference in ("position/rope", "model/position/rope"):
        assert main(["show", reference]) == 0
        out = capsys.readouterr().out
        assert "Rotate pairs of query and key features" in out
        assert "half_split" in out
        assert "arXiv:2104.09864" in out
    assert main(["show", "score/cosine", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["keys"]["scale"] == {"default": 10.0, "required": False, "type": "float > 0"}


def test_summary_counts_the_textbook_model(capsys):
    assert main(["summary", "model=teaching", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["parameters"]["total"] == 770  # a block of 600, embedding 80, head 90
    assert main(["summary", "model=teaching", "--length", "2", "model.d_ff=8"]) == 0
    assert "batch 2, 2 tokens" in capsys.readouterr().out


def test_the_composed_config_is_printed_and_nothing_runs(tmp_path, capsys):
    assert main(["train", "optim.lr=0.5", "--cfg", "job", "model/position=alibi"]) == 0
    out = capsys.readouterr().out
    assert "lr: 0.5" in out
    assert "name: alibi" in out
    assert list(tmp_path.iterdir()) == []


def test_an_unexpected_error_is_not_hidden(monkeypatch):
    def fail(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(train_verb, "run_hydra", fail)
    with pytest.raises(ZeroDivisionError):
        main(["train"])


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (KeyboardInterrupt(), 130, "interrupted; run the same command again to go on"),
        (OSError(28, "No space left on device", "x/y"), 1, "error: x/y: No space left on device"),
        (OSError(28, "No space left on device"), 1, "error: outputs: No space left on device"),
    ],
    ids=["interrupted", "disk_full", "disk_full_somewhere"],
)
def test_what_may_happen_to_anybody_is_a_line(monkeypatch, capsys, error, status, text):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(train_verb, "run_hydra", fail)
    assert main(["train"]) == status
    assert capsys.readouterr().err.strip() == text


def test_a_reader_that_goes_away_is_no_error():
    code = f"{shlex.join(runs.command('list'))} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", code], env=runs.environment(), cwd=runs.ROOT, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.stdout.split()[-1] in ("0", "141")


def test_tab_completes_verbs_groups_choices_and_keys():
    line = "\n".join(f"complete_line '{text}'" for text in ("tfexp ab", "tfexp train model/position=ro"))
    code = COMPLETE.format(tfexp=shlex.join([sys.executable, "-m", "tfexp"])) + line
    done = subprocess.run(["bash", "-c", code], env=runs.environment(), cwd=runs.ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["ablate", "model/position=rope"]
