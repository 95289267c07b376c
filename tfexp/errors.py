"""The errors a user can meet: what is wrong, where, and the nearest right choice.

Every class here is a message for a person. The command line prints it as one line and exits with
a status other than 0; in Python it is an ordinary exception.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class TfexpError(Exception):
    """Base of everything that tfexp refuses; its text is meant to be read by the user."""


class ConfigError(TfexpError):
    """A key, value or combination in the config is not usable. The text starts with the dotted key."""


class IncompatibleError(ConfigError):
    """A component needs what no other part of the model gives; a study leaves such a cell out."""


class RegistryError(TfexpError):
    """A slot or a name is unknown, or a component is declared in a way that cannot be built."""


class DataError(TfexpError):
    """Input data is missing, unreadable, empty or too short."""


class RunError(TfexpError):
    """A run folder cannot be used: not found, ambiguous, busy, not writable, or damaged."""


class DivergedError(TfexpError):
    """Training produced a loss that is not finite, or far above where it started."""


def nearest(name: str, known: Iterable[str], limit: int = 12, label: str = "choices") -> str:
    """Return a hint that ends an error message: the closest known name, or all of them.

    Args:
        name: What the user wrote.
        known: The names that would have been right.
        limit: How many names to list at the most.
        label: What the names are.
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    if not names:
        return "there are no choices."
    shown = ", ".join(names[:limit])
    return f"{label}: {shown}{', ...' if len(names) > limit else ''}."
