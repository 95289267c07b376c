"""A plan as a table and as JSON."""

from dataclasses import asdict
from typing import Any

from rich.table import Table

from tfexp.ablation.launch import pending_cells
from tfexp.ablation.plan import Cell, Plan


def plan_table(plan: Plan) -> Table:
    """One row per variant: seeds, parameters, cost, and how many runs are missing."""
    pending = {cell.hash for cell in pending_cells(plan)}
    table = Table(title=plan.study.question or plan.study.name, title_justify="left", box=None)
    table.add_column("variant")
    for heading in ("seeds", "parameters", "MFLOP/token", "tokens/run", "TFLOP in all", "missing"):
        table.add_column(heading, justify="right")
    for name in dict.fromkeys(cell.variant for cell in plan.cells):
        cells = [cell for cell in plan.cells if cell.variant == name]
        missing = sum(cell.hash in pending for cell in cells)
        table.add_row(name, str(len(cells)), *_costs(cells), str(missing))
    table.add_section()
    total = sum(cell.hash in pending for cell in plan.cells)
    table.add_row("all", str(len(plan.cells)), "", "", "", f"{_flops(list(plan.cells)) / 1e12:,.2f}", str(total))
    return table


def plan_json(plan: Plan) -> dict[str, Any]:
    """Everything that is known before training."""
    return {
        "study": plan.study.name,
        "command": plan.command(),
        "cells": [{**asdict(cell), "state": cell.record.state or "queued"} for cell in plan.cells],
        "pruned": plan.pruned,
        "flops": _flops(list(plan.cells)),
    }


def _costs(cells: list[Cell]) -> tuple[str, ...]:
    first = cells[0]
    return (
        f"{first.parameters:,}",
        f"{first.flops_per_token / 1e6:.2f}",
        f"{first.tokens:,}",
        f"{_flops(cells) / 1e12:,.2f}",
    )


def _flops(cells: list[Cell]) -> float:
    return sum(cell.flops_per_token * cell.tokens for cell in cells)
