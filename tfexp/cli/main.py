"""`tfexp VERB ...`: finds the verb, runs it, and turns every refusal into a line and an exit status."""

import os
import sys
from importlib import import_module

VERBS = {
    "train": "train one config, or several with -m",
    "evaluate": "score a run's best weights on its validation and test parts",
    "ablate": "run a study and report it",
    "plan": "show a study's cells and their cost; trains nothing",
    "report": "table and page of a study, or of any runs",
    "generate": "continue prompts with a trained run",
    "summary": "the model's operations with shapes, parameters and FLOPs",
    "list": "registered components",
    "show": "one component: docstring, keys, defaults, source",
    "completion": "shell code for tab completion",
}

HELP = """\
tfexp {version}: controlled ablation studies of Transformer components

usage: tfexp VERB [arguments] [key=value ...]

{verbs}

Start with:   tfexp ablate ablation=quickstart
One run:      tfexp train model=small model/position=rope trainer.max_steps=500
More of one:  tfexp VERB --help
"""


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the console script; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help", "help"):
        print(help_text(), end="")
        return 0 if given else 2
    if given[0] in ("-V", "--version"):
        print(_version())
        return 0
    verb, rest = given[0], given[1:]
    if verb not in VERBS:
        return _refuse(_unknown_verb(verb))
    return _run(verb, rest)


def help_text() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {purpose}" for verb, purpose in VERBS.items())
    return HELP.format(version=_version(), verbs=verbs)


def _run(verb: str, rest: list[str]) -> int:
    from tfexp.errors import TfexpError

    # Hydra then raises what goes wrong instead of printing a part of it.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        return import_module(f"tfexp.cli.{verb}").run(rest)
    except TfexpError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        text = _explain(error)
        if text is None:
            raise
        return _refuse(text)


def _explain(error: Exception) -> str | None:
    """A line for an error of Hydra's or of the disk; None for what would be a fault of tfexp."""
    from hydra.errors import HydraException
    from yaml import YAMLError

    if isinstance(error, HydraException):
        from tfexp.config.messages import explain

        return explain(error)
    if isinstance(error, YAMLError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _speaks_of_memory(error)):
        return f"not enough memory: lower data.batch_size, model.d_model or model.n_layers ({str(error)[:80]})"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'outputs'}: {error.strerror}"
    return None


def _speaks_of_memory(error: RuntimeError) -> bool:
    return any(words in str(error).lower() for words in ("out of memory", "can't allocate memory", "storage size"))


def _unknown_verb(verb: str) -> str:
    from tfexp.errors import nearest

    return f"unknown verb '{verb}'; {nearest(verb, VERBS)}"


def _refuse(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return 1


def _version() -> str:
    import tfexp

    return tfexp.__version__


if __name__ == "__main__":
    sys.exit(main())
