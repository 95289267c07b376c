"""`tfexp generate RUN`: continue prompts, or answer them as the run's task does."""

import json
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from tfexp.cli.arguments import Parser, show
from tfexp.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tfexp.training.record import Record


def run(arguments: list[str]) -> int:
    parser = Parser(
        "generate", "Continue prompts with a run's weights; a classifier, translator or masked model answers each line."
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, the start of its hash, or last")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="such as temperature=0.8 top_k=40"
    )
    parser.add_argument("-p", "--prompt", action="append", help="a prompt; may be given several times")
    parser.add_argument("-f", "--file", type=Path, help="a file of prompts, one per line; - for standard input")
    parser.add_argument("-s", "--strategy", help="a choice of `generation` (default: the run's own)")
    parser.add_argument("--weights", choices=("best", "last"), default="best", help="default: best")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_outputs()
    options = parser.parse_intermixed_args(arguments)
    values, prompts = _values(options.overrides), _prompts(options.prompt, options.file)
    from tfexp.registry import check_choice, discover
    from tfexp.training.record import find_record

    record = find_record(options.run, options.outputs)
    config = record.config()
    discover(config.get("plugins") or ())
    own = {"name": options.strategy} if options.strategy else dict(config.generation)
    choice = check_choice("generation", {**own, **values}, "generation")
    if _answer(record, prompts, options):
        return 0
    from tfexp.generation.generate import generate_one
    from tfexp.training.api import load_record

    model = load_record(record, options.weights)
    results = []
    for index, prompt in enumerate(prompts):
        if options.json:
            results.append({"prompt": prompt, "text": generate_one(model, prompt, choice, index)})
            continue
        print(prompt, end="", flush=True)
        generate_one(model, prompt, choice, index, on_text=lambda piece: print(piece, end="", flush=True))
        print(flush=True)
    if options.json:
        print(json.dumps({"run": str(record.folder), "generation": choice, "results": results}, ensure_ascii=False))
        return 0
    show(f"{record.folder}, {options.weights} weights, generation={choice['name']}")
    show(f"next: {shlex.join(['tfexp', 'evaluate', options.run])}")
    return 0


def _answer(record: "Record", prompts: list[str], options: Namespace) -> bool:
    """Print the answers of a run whose task gives some; whether it does."""
    from tfexp.training.answer import answer

    answers = answer(record, prompts, options.weights, show)
    if answers is None:
        return False
    if options.overrides or options.strategy:
        raise ConfigError("generate: this run's task answers by itself; strategies and their keys are for next_token")
    if options.json:
        results = [{"prompt": prompt, **found} for prompt, found in zip(prompts, answers, strict=True)]
        print(json.dumps({"run": str(record.folder), "results": results}, ensure_ascii=False))
        return True
    for found in answers:
        print(found["text"])
    show(f"{record.folder}, {options.weights} weights\nnext: {shlex.join(['tfexp', 'evaluate', options.run])}")
    return True


def _values(overrides: list[str]) -> dict[str, object]:
    for override in overrides:
        if "=" not in override:
            raise ConfigError(f"{override}: expected key=value; a prompt is given with --prompt")
    from tfexp.config.dotlist import read_dotlist
    from tfexp.config.freeze import to_plain

    return dict(to_plain(read_dotlist(o.removeprefix("generation.") for o in overrides)))


def _prompts(given: list[str] | None, file: Path | None) -> list[str]:
    if given is not None and file is not None:
        raise ConfigError("generate: give prompts with --prompt or with --file, not both")
    if given is not None:
        return given
    if file is None and sys.stdin.isatty():
        return [""]
    try:
        text = sys.stdin.read() if file is None or str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"--file: cannot read {file}: {error}") from error
    lines = text.split("\n")  # no other sign ends a line: answers stand line for line
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)] or [""]
