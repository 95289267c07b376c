"""A study's report: one page to read, one table per format, and the numbers to work everything out again."""

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tfexp
from tfexp.ablation.report import prose
from tfexp.ablation.report.charts import figures_of
from tfexp.ablation.report.escaping import relative_link
from tfexp.ablation.report.figures import write_figures
from tfexp.ablation.report.page import html_page, setting
from tfexp.ablation.report.series import curve_of
from tfexp.ablation.report.table import adjusted_p, better_seeds, paired_differences, states, table_of
from tfexp.ablation.report.text import latex_table, markdown_page
from tfexp.ablation.results import RunResult, StudyResult, VariantResult
from tfexp.files import write_json, write_text

REPORT_VERSION = 1  # of report.json, documented in docs/records.md


def write_report(result: StudyResult, folder: Path) -> Path:
    """Write report.{html,md,tex,csv,json} and figures/ into `folder`; returns the path of the page.

    Every file is written whole or not at all; the page comes last, so that what it links to is there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = figures_of(result)
    write_figures(figures, folder / "figures")
    write_json(folder / "report.json", report_json(result, folder))
    write_text(folder / "report.csv", runs_csv(result, folder))
    write_text(folder / "report.md", markdown_page(result))
    write_text(folder / "report.tex", latex_table(result))
    page = folder / "report.html"
    write_text(page, html_page(result, figures, folder))
    return page


def report_json(result: StudyResult, folder: Path) -> dict[str, Any]:
    """The exact numbers of the table, each run's value and curve, and how one came from the other."""
    adjusted = adjusted_p(result)
    return {
        "report_version": REPORT_VERSION,
        "tfexp": tfexp.__version__,
        "study": result.name,
        "question": result.question,
        "command": result.command,
        "metric": result.metric,
        "direction": result.direction,
        "baseline": result.baseline,
        "best": result.best,
        "answer": prose.headline(result, table_of(result)),
        "method": prose.method(result),
        "pairing": result.pairing,
        "notes": list(result.notes),
        "pruned": result.pruned,
        "setting": setting(result),
        "rows": [_row_json(result, row, adjusted.get(row.name)) for row in result.rows],
        "runs": [_run_json(result, run, folder) for run in result.runs],
    }


def runs_csv(result: StudyResult, folder: Path) -> str:
    """One row per run; empty where nothing is known."""
    stream = io.StringIO()
    rows = [_run_row(result, run, folder) for run in result.runs]
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _row_json(result: StudyResult, row: VariantResult, adjusted: float | None) -> dict[str, Any]:
    difference = None
    if row.difference is not None:
        difference = {**asdict(row.difference), "p_holm": adjusted, "better": better_seeds(result, row)}
    return {
        "variant": row.name,
        "n": row.n,
        "mean": row.mean,
        "sd": row.sd,
        "difference": difference,
        "paired_differences": {str(seed): value for seed, value in paired_differences(result, row).items()},
        "parameters": row.parameters,
        "flops_per_token": row.flops_per_token,
        "tokens_per_s": row.tokens_per_s,
        "peak_memory_bytes": row.peak_memory_bytes,
        "states": states([row]),
    }


def _run_json(result: StudyResult, run: RunResult, folder: Path) -> dict[str, Any]:
    return {
        "variant": run.variant,
        "seed": run.seed,
        "hash": run.hash,
        "state": run.state,
        "reason": run.reason,
        "value": run.value,
        "signature": (run.summary or {}).get("signature"),
        "folder": relative_link(run.folder, folder),
        "curve": list(curve_of(run, result.metric).items()),
    }


def _run_row(result: StudyResult, run: RunResult, folder: Path) -> dict[str, Any]:
    summary = run.summary or {}
    return {
        "study": result.name,
        "variant": run.variant,
        "baseline": run.variant == result.baseline,
        "seed": run.seed,
        "state": run.state,
        "reason": run.reason,
        result.metric: run.value,
        "parameters": summary.get("parameters", {}).get("total"),
        "flops_per_token": summary.get("flops_per_token"),
        "tokens_seen": summary.get("tokens_seen"),
        "seconds": summary.get("seconds", {}).get("training"),
        "tokens_per_s": summary.get("tokens_per_s"),
        "peak_memory_bytes": summary.get("peak_memory_bytes"),
        "hash": run.hash,
        "signature": summary.get("signature"),
        "folder": relative_link(run.folder, folder),
    }
