"""What the charts draw: each run's curve, the mean over seeds, and the gap to the baseline."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfexp.ablation.results import RunResult, StudyResult, VariantResult

Curve = dict[int, float]  # step -> value
MAX_POINTS = 3500  # of all runs of a chart together; more only makes the page heavy


@dataclass(frozen=True)
class Band:
    """One variant over steps.

    Args:
        variant: Its name.
        steps: At which every counted run was evaluated.
        mean, low, high: Over the counted runs; low and high are the extremes.
        n: Counted runs.
    """

    variant: str
    steps: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: int


def curve_of(run: RunResult, metric: str) -> Curve:
    """Every finite value of a run's metric."""
    lines = [(line.get("step"), line.get(metric)) for line in run.metrics]
    return {int(step): float(v) for step, v in lines if step is not None and v is not None and math.isfinite(v)}


def run_curves(result: StudyResult) -> dict[tuple[str, int], Curve]:
    """(variant, seed) -> curve, thinned alike for all runs; runs without any value are left out."""
    curves = {(run.variant, run.seed): curve_of(run, result.metric) for run in result.runs}
    curves = {key: curve for key, curve in curves.items() if curve}
    kept = _thinned(sorted({step for curve in curves.values() for step in curve}), len(curves))
    # A run that stopped between two kept steps still shows where it stopped.
    return {key: {s: v for s, v in curve.items() if s in kept or s == max(curve)} for key, curve in curves.items()}


def mean_bands(result: StudyResult) -> list[Band]:
    """The mean of each variant over its complete runs, or over all if none is complete."""
    curves = run_curves(result)
    return _bands(result, {row.name: _counted(row, curves) for row in result.rows})


def gap_bands(result: StudyResult) -> list[Band]:
    """The paired difference of each variant to the baseline, over steps."""
    curves = run_curves(result)
    base = _counted(result.rows[0], curves)
    gaps = {}
    for row in result.rows[1:]:
        counted = _counted(row, curves)
        gaps[row.name] = {seed: _minus(counted[seed], base[seed]) for seed in counted if seed in base}
    return _bands(result, gaps)


def _counted(row: VariantResult, curves: Mapping[tuple[str, int], Curve]) -> dict[int, Curve]:
    complete = [run for run in row.runs if run.value is not None]
    runs = complete or row.runs
    return {run.seed: curves[row.name, run.seed] for run in runs if (row.name, run.seed) in curves}


def _bands(result: StudyResult, by_variant: Mapping[str, Mapping[int, Curve]]) -> list[Band]:
    bands = (_band(row.name, list(by_variant.get(row.name, {}).values())) for row in result.rows)
    return [band for band in bands if band is not None]


def _band(variant: str, curves: Sequence[Curve]) -> Band | None:
    # Where one run is missing the mean would jump, so only steps that all of them have are drawn.
    steps = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    if not steps:
        return None
    columns = [[curve[step] for curve in curves] for step in steps]
    return Band(
        variant,
        tuple(steps),
        tuple(sum(column) / len(column) for column in columns),
        tuple(min(column) for column in columns),
        tuple(max(column) for column in columns),
        len(curves),
    )


def _minus(curve: Curve, base: Curve) -> Curve:
    return {step: value - base[step] for step, value in curve.items() if step in base}


def _thinned(steps: Sequence[int], n_curves: int) -> set[int]:
    limit = max(20, MAX_POINTS // max(1, n_curves))
    stride = max(1, math.ceil(len(steps) / limit))
    # Counted from the end, which is what the study compares.
    return set(steps[::-1][::stride])
