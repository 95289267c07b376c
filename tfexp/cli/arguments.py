"""Command lines made of flags and `key=value` overrides."""

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from tfexp.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """An argument parser whose refusals look like every other one of tfexp.

    Args:
        verb: For the usage line.
        description: What the verb does.
    """

    def __init__(self, verb: str, description: str) -> None:
        super().__init__(prog=f"tfexp {verb}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.prog}: {message}; see {self.prog} --help")

    def add_overrides(self) -> None:
        self.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="overrides of conf/train.yaml")
        self.add_argument("--config-dir", help="a folder with groups or choices of your own")

    def add_outputs(self) -> None:
        self.add_argument("--outputs", type=Path, default=Path("outputs"), help="folder of runs (default: outputs)")


def show(text: str) -> None:
    """Print a line for a person, on standard error, so that standard output stays data."""
    print(text, file=sys.stderr)
