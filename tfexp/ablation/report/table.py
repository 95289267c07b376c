"""A study's table as text: one place that decides digits, marks and headings for every format."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tfexp.ablation.report import numbers
from tfexp.ablation.results import StudyResult, VariantResult
from tfexp.ablation.statistics import holm

FAILED = {"failed", "diverged", "interrupted"}  # states that a reader must see at once


@dataclass(frozen=True)
class TableRow:
    """One variant, as text; a dash where nothing is known.

    Args:
        result: The exact numbers.
        name: Of the variant.
        is_baseline, is_best: Marks; at most one row each.
        seeds: Runs with a value, `3` or `2 of 3`.
        trouble: What became of the other runs, `1 diverged`; empty if all is well.
        value: Mean ± sd of the metric.
        difference, interval: Paired with the baseline, and its 95 % interval; signed.
        p, p_holm: Of that difference, as it is and adjusted for the number of comparisons.
        adjusted: `p_holm` as a number.
        better: Shared seeds in which the variant beat the baseline, `3 of 3`.
        parameters, flops, speed, memory: What it costs.
    """

    result: VariantResult
    name: str
    is_baseline: bool
    is_best: bool
    seeds: str
    trouble: str
    value: str
    difference: str
    interval: str
    p: str
    p_holm: str
    adjusted: float | None
    better: str
    parameters: str
    flops: str
    speed: str
    memory: str

    @property
    def has_failed(self) -> bool:
        return bool(FAILED & states([self.result]).keys())


@dataclass(frozen=True)
class Table:
    """The rows, and how many decimals their values and differences carry."""

    rows: tuple[TableRow, ...]
    decimals: int
    difference_decimals: int

    def row(self, name: str) -> TableRow:
        return next(row for row in self.rows if row.name == name)


@dataclass(frozen=True)
class Column:
    """A column of the plain formats.

    Args:
        key: By which a format picks its columns.
        heading: Unescaped.
        text: Of a row's cell, unescaped.
    """

    key: str
    heading: str
    text: Callable[[TableRow], str]


def columns_of(result: StudyResult, table: Table) -> list[Column]:
    """Every column that says something: those that would be empty, or repeat another, are left out."""
    differences = any(row.result.difference is not None for row in table.rows)
    tested = sum(row.adjusted is not None for row in table.rows)
    costs = any(row.result.parameters is not None for row in table.rows)
    shown = [
        (True, Column("variant", "variant", lambda row: row.name)),
        (True, Column("seeds", "seeds", lambda row: row.seeds)),
        (True, Column("value", result.metric, lambda row: row.value)),
        (differences, Column("difference", "difference", lambda row: row.difference)),
        (differences, Column("interval", "95 % interval", lambda row: row.interval or numbers.MISSING)),
        (differences, Column("better", "better in", lambda row: row.better)),
        (tested > 0, Column("p", "p", lambda row: row.p)),
        (tested > 1, Column("p_holm", "p (Holm)", lambda row: row.p_holm)),
        (costs, Column("parameters", "parameters", lambda row: row.parameters)),
        (costs, Column("flops", "per token", lambda row: row.flops)),
        (costs, Column("speed", "tokens/s", lambda row: row.speed)),
        (costs, Column("memory", "memory", lambda row: row.memory)),
    ]
    return [column for show, column in shown if show]


def table_of(result: StudyResult) -> Table:
    """Round every column as its uncertainties ask."""
    rows, differences = result.rows, [row.difference for row in result.rows if row.difference is not None]
    decimals = numbers.decimals_for((row.sd for row in rows), (row.mean for row in rows))
    if differences:
        widths = [(difference.high - difference.low) / 2 for difference in differences]
        of_differences = numbers.decimals_for(widths, (difference.mean for difference in differences))
    else:
        of_differences = decimals
    adjusted = adjusted_p(result)
    made = tuple(_row(result, row, decimals, of_differences, adjusted.get(row.name)) for row in rows)
    return Table(made, decimals, of_differences)


def adjusted_p(result: StudyResult) -> dict[str, float]:
    """Variant -> p after Holm, over all comparisons that have one."""
    known = {row.name: row.difference.p for row in result.rows if row.difference and row.difference.p is not None}
    return dict(zip(known, holm(list(known.values())), strict=True))


def values_by_seed(row: VariantResult) -> dict[int, float]:
    return {run.seed: run.value for run in row.runs if run.value is not None}


def paired_differences(result: StudyResult, row: VariantResult) -> dict[int, float]:
    """Seed -> variant minus baseline, where both have a value."""
    base = values_by_seed(result.rows[0])
    return {seed: value - base[seed] for seed, value in values_by_seed(row).items() if seed in base}


def states(rows: Iterable[VariantResult]) -> dict[str, int]:
    return dict(Counter(run.state for row in rows for run in row.runs))


def better_seeds(result: StudyResult, row: VariantResult) -> int:
    sign = 1 if result.direction == "lower" else -1
    return sum(sign * difference < 0 for difference in paired_differences(result, row).values())


def _row(
    result: StudyResult, row: VariantResult, decimals: int, of_differences: int, adjusted: float | None
) -> TableRow:
    difference, is_baseline = row.difference, row.name == result.baseline
    shared = len(paired_differences(result, row))
    return TableRow(
        result=row,
        name=row.name,
        is_baseline=is_baseline,
        is_best=row.name == result.best,
        seeds=str(row.n) if row.n == len(row.runs) else f"{row.n} of {len(row.runs)}",
        trouble=_trouble(row),
        value=numbers.plus_minus(row.mean, row.sd, decimals),
        difference=numbers.fixed(difference.mean, of_differences, sign=True) if difference else numbers.MISSING,
        interval=numbers.interval(difference.low, difference.high, of_differences) if difference else "",
        p=numbers.p_value(difference.p if difference else None),
        p_holm=numbers.p_value(adjusted),
        adjusted=adjusted,
        better=numbers.MISSING if is_baseline or not shared else f"{better_seeds(result, row)} of {shared}",
        parameters=numbers.count(row.parameters),
        flops=numbers.flops(row.flops_per_token),
        speed=numbers.rate(row.tokens_per_s),
        memory=numbers.memory(row.peak_memory_bytes),
    )


def _trouble(row: VariantResult) -> str:
    counted = {state: n for state, n in states([row]).items() if state != "complete"}
    without = sum(run.state == "complete" and run.value is None for run in row.runs)
    if without:
        counted["without the metric"] = without
    return ", ".join(f"{n} {state}" for state, n in counted.items())
