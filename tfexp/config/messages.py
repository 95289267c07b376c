"""Hydra's errors in one or two lines, with the nearest right choice."""

import re

from hydra.errors import HydraException

from tfexp.config.settings import RunSettings
from tfexp.errors import nearest
from tfexp.registry import SLOTS, names
from tfexp.schema import fields_of

UNREADABLE = (
    "mismatched input",
    "no viable alternative",
    "extraneous input",
    "token recognition",
    "LexerNoViableAlt",
)


def explain(error: HydraException) -> str:
    """What the user should read instead of Hydra's text."""
    text = str(error).strip()
    if match := re.search(r"Could not find '([^']+)/([^'/]+)'\s+Available options in '[^']+':\s+(.*)", text, re.DOTALL):
        group, name, listed = match.groups()
        choices = listed.partition("Config search path")[0].split()
        return f"{group}: unknown choice '{name}'; {nearest(name, choices)}"
    if match := re.search(r"Ambiguous value for argument '\+*([^=]+)=(.*)'", text):
        key, value = match.groups()
        return f"{key}={value}: add -m to run each value, or write {key}=[{value}] for a list"
    if match := re.search(r"(?:Could not override|In '[^']+': Could not override) '([^']+)'", text):
        return _unknown(match.group(1))
    if match := re.search(r"Could not (?:append|find|load)[^']*'([^']+)'", text):
        return _unknown(match.group(1))
    if match := re.search(r"Error parsing override '([^']*)'\s+missing EQUAL", text):
        return f"{match.group(1)}: expected key=value"
    if any(sign in text for sign in UNREADABLE):
        problem = text.splitlines()[0].replace("++", "")  # which tfexp has put there
        return f"cannot read the override: {problem}; quote values with special characters: 'key=\"value\"'"
    return " ".join(line.strip() for line in text.splitlines()[:2])


def _unknown(key: str) -> str:
    key = key.strip("+/")
    group, _, name = key.rpartition("/")
    for slot, description in SLOTS.items():
        if description.group == group:  # one of a list of choices, such as logger=[csv,wandbb]
            return f"{group}: unknown choice '{name}'; {nearest(name, names(slot))}"
    groups = [description.group for description in SLOTS.values() if "/" in description.group]
    known = groups if group else [*(f.name for f in fields_of(RunSettings)), "experiment"]
    return f"{key}: unknown key or group; {nearest(key, known, limit=20)}"
