"""A report as one HTML page: what its template is filled with."""

from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

import tfexp
from tfexp.ablation.report import numbers, prose
from tfexp.ablation.report.chart_style import Style
from tfexp.ablation.report.charts import Figure
from tfexp.ablation.report.escaping import environment, relative_link
from tfexp.ablation.report.figures import chart_library, spec_of, svg_of
from tfexp.ablation.report.table import columns_of, table_of
from tfexp.ablation.results import RunResult, StudyResult

REFRESH_SECONDS = 20  # of a page whose runs are still going


def html_page(result: StudyResult, figures: Sequence[Figure], folder: Path) -> str:
    """One file that needs no network: styles, scripts and data are inside."""
    table = table_of(result)
    context = {
        "result": result,
        "table": table,
        "title": result.question or result.name,
        "headline": prose.headline(result, table),
        "method": prose.method(result),
        "pairing": prose.pairing(result),
        "setting": setting(result),
        "shows": {column.key for column in columns_of(result, table)},
        "version": tfexp.__version__,
        "css": _asset("report.css"),
        "js": _asset("report.js"),
        "library": Markup(chart_library()) if figures else "",
        "figures": [
            {"name": f.name, "title": f.title, "caption": f.caption, "svg": Markup(svg_of(f)), "spec": spec_of(f)}
            for f in figures
        ],
        "keys": _keys(result),
        "runs": [_run(result, run, folder) for run in result.runs],
        "refresh": REFRESH_SECONDS if prose.pending(result) else None,
    }
    return environment().get_template("report.html.j2").render(context)


def shared_signature(runs: Iterable[RunResult]) -> str:
    """The parts of the signatures that all runs have in common."""
    parts = [run.summary["signature"].split("|") for run in runs if run.summary is not None]
    if not parts:
        return ""
    common = set.intersection(*(set(p) for p in parts))
    return "|".join(part for part in parts[0] if part in common)


def setting(result: StudyResult) -> dict[str, str]:
    """What the runs ran on and with; several values where they differ."""
    summaries = [run.summary for run in result.runs if run.summary is not None]
    fields = {
        "tokens per run": (numbers.rate(s["tokens_seen"]) for s in summaries),
        "data": (s["data"]["fingerprint"][:16] for s in summaries),
        "device": (s["device"] for s in summaries),
        "versions": (" ".join(f"{k} {v}" for k, v in s["versions"].items()) for s in summaries),
        "code": (s["git_commit"] for s in summaries),
        "signature": (shared_signature(result.runs),),
    }
    found = {name: "; ".join(dict.fromkeys(str(v) for v in values if v)) for name, values in fields.items()}
    return {name: text for name, text in found.items() if text}


def _run(result: StudyResult, run: RunResult, folder: Path) -> dict[str, Any]:
    table, summary = table_of(result), run.summary or {}
    return {
        "variant": run.variant,
        "seed": run.seed,
        "state": run.state,
        "reason": run.reason or "",
        "exact": run.value,
        "value": numbers.fixed(run.value, table.decimals + 1),
        "exact_speed": summary.get("tokens_per_s"),
        "speed": numbers.rate(summary.get("tokens_per_s")),
        "hash": run.hash,
        "link": relative_link(run.folder, folder),
    }


def _keys(result: StudyResult) -> dict[str, dict[str, str]]:
    """Variant -> the line that the charts draw it with, repeated beside its name."""
    style = Style([row.name for row in result.rows], result.baseline)
    colours, dashes, _ = style.ranges
    return {
        name: {"colour": colour, "dash": " ".join(map(str, dash)) if len(dash) and dash != [1, 0] else "none"}
        for name, colour, dash in zip(style.names, colours, dashes, strict=True)
    }


def _asset(name: str) -> Markup:
    return Markup(files("tfexp.ablation.report").joinpath("templates", name).read_text(encoding="utf-8"))
