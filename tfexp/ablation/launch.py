"""Run the cells of a plan through any Hydra launcher, and show how far they are while they run."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tfexp.ablation.plan import Cell, Plan

POLL_SECONDS = 1.0
LINE_SECONDS = 10.0  # between two lines where there is no terminal to draw on


def pending_cells(plan: Plan) -> list[Cell]:
    """The cells that are neither complete nor known to diverge, each run once."""
    unique = {cell.hash: cell for cell in plan.cells}
    return [c for c in unique.values() if not c.record.is_complete and c.record.state != "diverged"]


def job_arguments(cells: Sequence[Cell], hydra_overrides: Sequence[str]) -> list[str]:
    """A command line for Hydra: one job per cell, on the launcher that the user chose or on all cores.

    Small models run fastest as one single-threaded process per core.
    """
    cell_list = ",".join(f"'{cell.config_file}'" for cell in cells)
    arguments = ["-m", f"cell={cell_list}", *hydra_overrides]
    if not any(o.startswith("hydra/launcher=") for o in hydra_overrides):
        arguments += ["hydra/launcher=joblib", f"hydra.launcher.n_jobs={default_jobs(len(cells))}"]
    return arguments


def default_jobs(n_cells: int) -> int:
    """Runs at a time: one per core on a CPU, one where there is a GPU to share."""
    return 1 if torch.cuda.is_available() else max(1, min(n_cells, _usable_cpus()))


def _usable_cpus() -> int:
    """Processors that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Watch:
    """Draws the state of every cell from the records, whoever runs them and wherever.

    Args:
        plan: What is being run.
        console: Where to draw.
    """

    def __init__(self, plan: Plan, console: Console) -> None:
        self.plan, self.console = plan, console
        self.bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        # One unit is a thousandth of a run, so that the bar moves while runs do.
        self.task = self.bar.add_task(plan.study.name, total=1000 * len(plan.cells), state="")
        self._stop = threading.Event()
        self._started = time.monotonic()

    def during(self, work: Callable[[], Any]) -> Any:
        """Call `work` and draw until it returns."""
        if not self.console.is_terminal:
            return self._with_thread(work, self._print_line, LINE_SECONDS)
        with Live(self._view(), console=self.console, refresh_per_second=2, transient=True) as live:
            return self._with_thread(work, lambda: live.update(self._view()), POLL_SECONDS)

    def _with_thread(self, work: Callable[[], Any], draw: Callable[[], None], seconds: float) -> Any:
        def loop() -> None:
            draw()
            while not self._stop.wait(seconds):
                draw()

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        try:
            return work()
        finally:
            self._stop.set()
            thread.join()
            draw()

    def _view(self) -> Table:
        states = [(cell, *_progress(cell)) for cell in self.plan.cells]
        self._advance(states)
        names = list(dict.fromkeys(cell.variant for cell in self.plan.cells))
        seeds = list(dict.fromkeys(cell.seed for cell in self.plan.cells))
        table = Table(box=None, pad_edge=False)
        for heading in ("", *(f"seed {seed}" for seed in seeds)):
            table.add_column(heading, justify="left" if not heading else "right")
        by_place = {(cell.variant, cell.seed): text for cell, text, _ in states}
        for name in names:
            table.add_row(name, *(by_place.get((name, seed), "-") for seed in seeds))
        whole = Table.grid(padding=(0, 0))
        whole.add_row(table)
        whole.add_row(self.bar)
        return whole

    def _print_line(self) -> None:
        states = [(cell, *_progress(cell)) for cell in self.plan.cells]
        done = self._advance(states)
        running = [f"{cell.variant}/{cell.seed} {text}" for cell, text, part in states if 0 < part < 1000]
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        share = sum(part for *_, part in states) / (1000 * len(states))
        text = f"{minutes}:{seconds:02d}  {share:4.0%}  {done} of {len(states)} runs"
        self.console.print(f"{text}  {', '.join(running)}", highlight=False, soft_wrap=True)

    def _advance(self, states: Sequence[tuple[Cell, str, int]]) -> int:
        done = sum(cell.record.state in ("complete", "failed", "diverged") for cell, *_ in states)
        self.bar.update(self.task, completed=sum(part for *_, part in states), state=f"{done}/{len(states)} runs")
        return done


def _progress(cell: Cell) -> tuple[str, int]:
    """A cell in a few characters, and its progress in thousandths."""
    state = cell.record.state or "queued"
    metrics = cell.record.metrics()
    losses = [line["val/loss"] for line in metrics if line.get("val/loss") is not None]
    loss = f" {losses[-1]:.3f}" if losses else ""
    if state == "complete":
        return f"done{loss}", 1000
    if state in ("failed", "diverged"):
        return state, 1000
    if state == "queued" or not metrics:
        return state, 0
    steps = cell.record.config().trainer.max_steps
    share = metrics[-1]["step"] / steps
    return f"{share:.0%}{loss}", int(1000 * share)
