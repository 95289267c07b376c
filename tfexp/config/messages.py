"""Hydra's errors in one or two lines, with the nearest right choice."""

import re

from hydra.errors import HydraException

from tfexp.config.settings import RunSettings
from tfexp.errors import nearest
from tfexp.schema import fields_of


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
    if (
        "mismatched input" in text
        or "no viable alternative" in text
        or "extraneous input" in text
        or "token recognition" in text
    ):
        return (
            f"cannot read the override: {text.splitlines()[0]}; quote values with special characters: 'key=\"value\"'"
        )
    return " ".join(line.strip() for line in text.splitlines()[:2])


def _unknown(key: str) -> str:
    known = [f.name for f in fields_of(RunSettings)] + ["experiment", "ablation"]
    return f"{key}: unknown key or group; {nearest(key.strip('+/'), known, limit=20)}"
