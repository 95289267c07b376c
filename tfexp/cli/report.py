"""`tfexp report STUDY|RUN...`: a table on the terminal, a page and figures on disk."""

import sys
from pathlib import Path

from tfexp.cli.arguments import Parser, show


def run(arguments: list[str]) -> int:
    parser = Parser("report", "Report a study, or any runs grouped by their config without the seed.")
    parser.add_argument("what", nargs="+", metavar="STUDY|RUN", help="a study's name or folder, or runs")
    parser.add_argument("--metric", default="val/loss", help="compared metric, for runs (default: val/loss)")
    parser.add_argument("--json", action="store_true", help="print report.json and nothing else")
    parser.add_outputs()
    options = parser.parse_intermixed_args(arguments)
    study = _study_folder(options.what, options.outputs)
    if study is not None:
        return show_study(study, options.json)
    from tfexp.ablation.results import results_of_runs
    from tfexp.training.record import find_record

    records = [find_record(reference, options.outputs) for reference in options.what]
    return _show(results_of_runs(records, options.metric), options.outputs / "studies" / "runs", options.json)


def show_study(folder: Path, as_json: bool = False) -> int:
    """Write and print the report of a study's folder."""
    from tfexp.ablation.plan import load_plan
    from tfexp.ablation.results import results_of_plan

    return _show(results_of_plan(load_plan(folder)), folder, as_json)


def _show(result: object, folder: Path, as_json: bool) -> int:
    from rich.console import Console

    from tfexp.ablation.report.terminal import terminal_table
    from tfexp.ablation.report.write import write_report
    from tfexp.ablation.results import StudyResult

    assert isinstance(result, StudyResult)
    folder.mkdir(parents=True, exist_ok=True)
    page = write_report(result, folder)
    if as_json:
        print((folder / "report.json").read_text(encoding="utf-8"), end="")
        return 0
    # Piped output has no width of its own; 100 columns hold the whole table.
    Console(width=None if sys.stdout.isatty() else 100).print(terminal_table(result))
    best = next((run for run in result.runs if run.variant == result.best and run.value is not None), None)
    show(f"\npage: {page}")
    show(f"next: tfexp generate {best.hash}" if best else f"next: {result.command}")
    return 0


def _study_folder(what: list[str], outputs: Path) -> Path | None:
    if len(what) != 1:
        return None
    candidates = (Path(what[0]), outputs / "studies" / what[0])
    return next((folder for folder in candidates if (folder / "plan.json").is_file()), None)
