"""`tfexp plan ablation=NAME`: the cells of a study and what they cost; trains nothing."""

import json

from tfexp.cli.arguments import Parser, show


def run(arguments: list[str]) -> int:
    parser = Parser("plan", "Show a study's cells: variants, seeds, parameters, FLOPs, what is there already.")
    parser.add_overrides()
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_intermixed_args(arguments)
    from rich.console import Console

    from tfexp.ablation.plan import make_plan
    from tfexp.ablation.plan_view import plan_json, plan_table

    plan = make_plan(options.overrides, options.config_dir)
    if options.json:
        print(json.dumps(plan_json(plan), indent=2))
        return 0
    console = Console()
    console.print(plan_table(plan))
    for variant, reason in plan.pruned.items():
        console.print(f"left out: {variant}: {reason}", highlight=False)
    show(f"{plan.folder}/plan.json\nnext: {plan.command()}")
    return 0
