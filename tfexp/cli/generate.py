"""`tfexp generate RUN`: continue prompts, or answer them as the run's task does."""

import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfexp.cli.arguments import Parser, show
from tfexp.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tfexp.model.mode import Precision
    from tfexp.training.record import Record


def run(arguments: list[str]) -> int:
    parser = Parser(
        "generate", "Continue prompts with a run's weights; a classifier, translator or masked model answers each line."
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, the start of its hash, or last")
    parser.add_argument(
        "overrides",
        nargs="*",
        default=[],
        metavar="key=value",
        help="such as temperature=0.8 trainer.precision=32-true",
    )
    parser.add_argument("-p", "--prompt", action="append", help="a prompt; may be given several times")
    parser.add_argument(
        "-f", "--file", type=Path, help="a file of prompts, one per line; - for standard input (at a terminal: a loop)"
    )
    parser.add_argument("-s", "--strategy", help="a choice of `generation` (default: the run's own)")
    parser.add_argument("--weights", choices=("best", "last"), default="best", help="default: best")
    parser.add_argument("--stream", action="store_true", help="print text as it comes, one prompt after the other")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--jsonl", action="store_true", help="print one JSON object a line, with scores")
    parser.add_outputs()
    options = parser.parse_intermixed_args(arguments)
    if options.stream and (options.json or options.jsonl):
        raise ConfigError("generate: --stream prints plain text; leave out --json and --jsonl")
    values, prompts = _values(options.overrides), _prompts(options.prompt, options.file)
    wanted = values.pop("trainer", {}).get("precision")
    from tfexp.registry import discover
    from tfexp.training.answer import check_generation, precision_of
    from tfexp.training.record import find_record

    record = find_record(options.run, options.outputs)
    discover(record.config().get("plugins") or ())
    choice, precision = check_generation(record, options.strategy, values), precision_of(record, wanted)
    if choice is not None and (options.stream or prompts is None):
        _stream(record, prompts, choice, precision, options)
    else:
        _answer(record, _read() if prompts is None else prompts, choice, precision, options)
    if not options.json:
        how = f", generation={choice['name']}" if choice else ""
        show(f"{record.folder}, {options.weights} weights{how}")
        show(f"next: {shlex.join(['tfexp', 'evaluate', options.run])}")
    return 0


def _answer(
    record: "Record",
    prompts: list[str],
    choice: dict[str, Any] | None,
    precision: "Precision | None",
    options: Namespace,
) -> None:
    """Answer all prompts at once."""
    from tfexp.training.answer import answer, continues, task_of

    answers = answer(record, prompts, options.weights, show, choice, options.outputs, precision)
    results = [{"prompt": prompt, **found} for prompt, found in zip(prompts, answers, strict=True)]
    if options.json:
        document = {"run": str(record.folder), "generation": choice, "results": results}
        print(json.dumps(document, ensure_ascii=False))
        return
    before = continues(task_of(record))  # a continuation is read after what it continues
    for result in results:
        text = f"{result['prompt'] if before else ''}{result['text']}"
        print(json.dumps(result, ensure_ascii=False) if options.jsonl else text)


def _stream(
    record: "Record",
    prompts: list[str] | None,
    choice: dict[str, Any],
    precision: "Precision | None",
    options: Namespace,
) -> None:
    """One prompt after the other, as the text comes; without prompts those that are typed."""
    from tfexp.generation.generate import stream_one
    from tfexp.training.answer import continues, open_session, task_of

    before = continues(task_of(record))
    with open_session(record, choice, options.weights, options.outputs, precision) as session:
        for index, prompt in enumerate(_typed() if prompts is None else prompts):
            # Nothing is the answer to nothing.
            pieces = stream_one(session, prompt, index) if prompt or before else iter(())
            try:
                print(f"{prompt if before else ''}{next(pieces, '')}", end="", flush=True)
                for piece in pieces:
                    print(piece, end="", flush=True)
                print(flush=True)
            except DataError as error:
                if prompts is not None:
                    raise
                show(str(error))  # who types can type another


def _typed() -> Iterator[str]:
    """Lines that a person types, until the end of input."""
    show("one prompt a line; Ctrl-D ends")
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        yield line.removesuffix("\n")


def _read() -> list[str]:
    return list(_typed())


def _values(overrides: list[str]) -> dict[str, Any]:
    """Keys of the strategy, and of `trainer` the precision."""
    for override in overrides:
        if "=" not in override:
            raise ConfigError(f"{override}: expected key=value; a prompt is given with --prompt")
        key = override.partition("=")[0]
        if key.startswith("trainer.") and key != "trainer.precision":
            raise ConfigError(f"{key}: generating can change the precision only; keys: generation.*, trainer.precision")
    from tfexp.config.dotlist import read_dotlist
    from tfexp.config.freeze import to_plain

    return dict(to_plain(read_dotlist(o.removeprefix("generation.") for o in overrides)))


def _prompts(given: list[str] | None, file: Path | None) -> list[str] | None:
    """The prompts that were given; None = a person is about to type them."""
    if given is not None and file is not None:
        raise ConfigError("generate: give prompts with --prompt or with --file, not both")
    if given is not None:
        return given
    if sys.stdin.isatty() and (file is None or str(file) == "-"):
        return None
    try:
        text = sys.stdin.read() if file is None or str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"--file: cannot read {file}: {error}") from error
    lines = text.split("\n")  # no other sign ends a line: answers stand line for line
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)] or [""]
