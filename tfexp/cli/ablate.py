"""`tfexp ablate ablation=NAME`: plan, launch what is missing, report."""

import sys

from tfexp.cli.arguments import Parser, show


def run(arguments: list[str]) -> int:
    parser = Parser("ablate", "Run a study: every variant with every seed, then the table and the page.")
    parser.add_overrides()
    options = parser.parse_intermixed_args(arguments)
    from rich.console import Console

    from tfexp.ablation.launch import Watch, job_arguments, pending_cells
    from tfexp.ablation.plan import make_plan
    from tfexp.cli.hydra_app import run_hydra
    from tfexp.cli.report import show_study
    from tfexp.cli.train import train_one

    hydra_overrides = [o for o in options.overrides if o.startswith(("hydra.", "hydra/"))]
    show("preparing data and cells ...")
    plan = make_plan([o for o in options.overrides if o not in hydra_overrides], options.config_dir)
    pending = pending_cells(plan)
    show(f"{plan.study.name}: {len(plan.cells)} runs, {len(plan.cells) - len(pending)} there already")
    for variant, reason in plan.pruned.items():
        show(f"left out: {variant}: {reason}")
    failure = None
    if pending:
        console = Console(stderr=True)
        job = job_arguments(pending, hydra_overrides)
        try:
            Watch(plan, console).during(lambda: run_hydra(train_one, job))
        except Exception as error:  # the runs that went well are still worth a report
            # Another process may have trained what this one could not: then nothing failed.
            failure = None if all(cell.record.is_complete for cell in plan.cells) else error
    show_study(plan.folder)
    if failure is not None:
        sys.stdout.flush()
        raise failure
    return 0
