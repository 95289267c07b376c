"""Text of users, safe inside each format: a variant's name may hold any character."""

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tfexp.ablation.report.numbers import MISSING

LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "−": r"$-$",
}  # fmt: skip

UNIT = re.compile(r"(?<=\d) (?=(?:[kMGTP]?FLOP|[kMG]|[KMGT]iB|\\%)(?![A-Za-z]))")
# A tag, an entity and the end of a link's text are markup only before certain characters.
MARKUP = re.compile(r"[\\`*_|~]|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])|\](?=[(\[:])")


def latex(text: str) -> str:
    """Characters that TeX would read as commands."""
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))


def latex_number(text: str) -> str:
    """The same with real minus signs, and the small spaces between a number and its unit."""
    if text == MISSING:
        return "--"
    signed = re.sub(r"(?<![\w$])([-+])(?=\d)", r"$\1$", latex(text))
    return UNIT.sub(r"\,", signed)


def markdown(text: str) -> str:
    """Characters that Markdown, or HTML inside it, would read as markup, also in a table; the rest stays legible."""
    return MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def markdown_code(text: str) -> str:
    """An inline code span that the text itself cannot end."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def script_json(value: Any) -> Markup:
    """JSON for a script element, which a `</script>` inside a string cannot end."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def minus(text: str) -> str:
    """A typographic minus sign before each negative number, and a dash for a missing one."""
    return "–" if text == MISSING else re.sub(r"(?<!\w)-(?=\d)", "−", text)


def relative_link(target: Path, folder: Path) -> str:
    """The address of a file or folder as seen from a page in `folder`."""
    try:
        return quote(Path(os.path.relpath(target, folder)).as_posix())
    except ValueError:  # another drive on Windows
        return target.resolve().as_uri()


def environment() -> Environment:
    """HTML templates of this package; an unknown name in one is an error, not an empty string."""
    made = Environment(
        loader=PackageLoader("tfexp.ablation.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(script_json=script_json, minus=minus)
    return made
