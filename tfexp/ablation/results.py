"""What a study's records say, gathered: one value per run, one row per variant."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tfexp.ablation.plan import Plan
from tfexp.ablation.statistics import Difference, mean, paired_difference, pairing_gain, standard_deviation
from tfexp.config.freeze import effective, freeze
from tfexp.tasks.base import higher_is_better
from tfexp.training.record import Record


@dataclass(frozen=True)
class RunResult:
    """One run as its record tells it.

    Args:
        variant: Which row it belongs to.
        seed: Of its random streams.
        hash: Names the run.
        folder: Of the record.
        state: queued, running, complete, failed, diverged or interrupted.
        reason: Why it failed, diverged or was interrupted.
        value: The study's metric at the end of training; None if the run is not complete.
        metrics: Lines of metrics.jsonl.
        summary: summary.json, or None.
    """

    variant: str
    seed: int
    hash: str
    folder: Path
    state: str
    reason: str | None
    value: float | None
    metrics: list[dict[str, Any]]
    summary: dict[str, Any] | None


@dataclass(frozen=True)
class VariantResult:
    """One row of the table.

    Args:
        name: Of the variant.
        runs: All its runs, also those without a value.
        mean, sd: Of the values; None without any, sd None with one.
        difference: Paired with the baseline over shared seeds; None for the baseline itself, or
            with fewer than two shared seeds.
        parameters: Of the model.
        flops_per_token: Of a training step.
        tokens_per_s: Median over the runs.
        peak_memory_bytes: Largest over the runs.
    """

    name: str
    runs: tuple[RunResult, ...]
    mean: float | None
    sd: float | None
    difference: Difference | None
    parameters: int | None
    flops_per_token: float | None
    tokens_per_s: float | None
    peak_memory_bytes: int | None

    @property
    def n(self) -> int:
        return sum(run.value is not None for run in self.runs)


@dataclass(frozen=True)
class StudyResult:
    """Everything a report shows.

    Args:
        name: Of the study.
        question: It is to answer.
        command: That runs it.
        metric: That is compared.
        direction: `lower` or `higher` is better.
        baseline: Name of the first row.
        rows: One per variant, the baseline first.
        pruned: Variant -> why it cannot work.
        notes: What a careful reader must know: too few seeds, failed runs, mixed data or versions.
        pairing: Share of the variance of differences that shared seeds took out; None if unknown.
    """

    name: str
    question: str
    command: str
    metric: str
    direction: Literal["lower", "higher"]
    baseline: str
    rows: tuple[VariantResult, ...]
    pruned: dict[str, str]
    notes: tuple[str, ...]
    pairing: float | None

    @property
    def runs(self) -> list[RunResult]:
        return [run for row in self.rows for run in row.runs]

    @property
    def best(self) -> str | None:
        """The variant with the best mean."""
        sign = 1 if self.direction == "lower" else -1
        known = [(sign * row.mean, row.name) for row in self.rows if row.mean is not None]
        return min(known, key=lambda pair: pair[0])[1] if known else None  # of equals the first, so the baseline


def results_of_plan(plan: Plan) -> StudyResult:
    """Read the records of every cell of a plan."""
    study = plan.study
    assert study.direction is not None  # from_config fills it in
    runs = [_read(cell.record, cell.variant, cell.seed, study.metric) for cell in plan.cells]
    names = list(dict.fromkeys(cell.variant for cell in plan.cells))
    return _assemble(
        study.name, study.question, plan.command(), study.metric, study.direction, names, runs, plan.pruned
    )


def results_of_runs(records: Sequence[Record], metric: str = "val/loss") -> StudyResult:
    """Group any runs by their config without the seed and their data; the first group is the baseline.

    A row is named by the keys in which the groups differ.
    """
    unique = list({record.folder: record for record in records}.values())
    names = _names_of_groups(_settings(unique))
    runs = [_read(record, name, record.config().seed, metric) for record, name in zip(unique, names, strict=True)]
    order = list(dict.fromkeys(run.variant for run in runs))
    command = "tfexp report " + " ".join(record.hash for record in records)
    direction = "higher" if higher_is_better(metric) else "lower"
    return _assemble("runs", "", command, metric, direction, order, runs, {})


def _settings(records: Sequence[Record]) -> list[dict[str, str]]:
    """Everything that can change a result but the seed, flat: `model.n_layers` -> `4`.

    A run that is not complete has no fingerprint of its data yet; it is told apart only where runs differ in it.
    """
    plain = [effective(freeze(record.config())) for record in records]
    data = [r.summary()["data"]["fingerprint"][:8] if r.summary_file.is_file() else "unknown" for r in records]
    told_apart = len(set(data) - {"unknown"}) > 1
    return [
        {**_flat({k: v for k, v in p.items() if k != "seed"}), **({"data.fingerprint": d} if told_apart else {})}
        for p, d in zip(plain, data, strict=True)
    ]


def _flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in node.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": str(value)}
    return flat


def _names_of_groups(settings: Sequence[Mapping[str, str]]) -> list[str]:
    keys = sorted({key for setting in settings for key in setting})
    differing = [key for key in keys if len({setting.get(key) for setting in settings}) > 1]
    # Where rope meets none, `position=rope` says it all; keys that only one of them has follow from it.
    shared = [key for key in differing if all(key in setting for setting in settings)]
    full, short = _joined(settings, differing), _joined(settings, shared)
    return short if len(set(short)) == len(set(full)) else full


def _joined(settings: Sequence[Mapping[str, str]], keys: Sequence[str]) -> list[str]:
    label = {key: key.removeprefix("model.").removesuffix(".name") for key in keys}
    return [
        ", ".join(f"{label[key]}={setting[key]}" for key in keys if key in setting) or "run" for setting in settings
    ]


def _read(record: Record, variant: str, seed: int, metric: str) -> RunResult:
    state = record.state or "queued"
    summary = record.summary() if state == "complete" and record.summary_file.is_file() else None
    value = summary["final"].get(metric) if summary else None
    return RunResult(
        variant=variant,
        seed=seed,
        hash=record.hash,
        folder=record.folder,
        state=state,
        reason=record.status().get("reason"),
        value=value if value is not None and math.isfinite(value) else None,
        metrics=record.metrics(),
        summary=summary,
    )


def _assemble(
    name: str,
    question: str,
    command: str,
    metric: str,
    direction: Literal["lower", "higher"],
    names: Sequence[str],
    runs: Sequence[RunResult],
    pruned: dict[str, str],
) -> StudyResult:
    by_variant = {n: {r.seed: r for r in runs if r.variant == n} for n in names}
    values = {n: {s: r.value for s, r in rows.items() if r.value is not None} for n, rows in by_variant.items()}
    base = values[names[0]]
    rows = tuple(_row(n, tuple(by_variant[n].values()), values[n], None if n == names[0] else base) for n in names)
    return StudyResult(
        name=name,
        question=question,
        command=command,
        metric=metric,
        direction=direction,
        baseline=names[0],
        rows=rows,
        pruned=pruned,
        notes=tuple(_notes(runs, rows)),
        pairing=pairing_gain(base, [values[n] for n in names[1:]]),
    )


def _row(
    name: str, runs: tuple[RunResult, ...], values: dict[int, float], base: dict[int, float] | None
) -> VariantResult:
    summaries = [run.summary for run in runs if run.summary is not None]
    speeds = sorted(s["tokens_per_s"] for s in summaries)
    return VariantResult(
        name=name,
        runs=runs,
        mean=mean(list(values.values())),
        sd=standard_deviation(list(values.values())),
        difference=None if base is None else paired_difference(values, base),
        parameters=summaries[0]["parameters"]["total"] if summaries else None,
        flops_per_token=summaries[0]["flops_per_token"] if summaries else None,
        tokens_per_s=speeds[len(speeds) // 2] if speeds else None,
        peak_memory_bytes=max((s["peak_memory_bytes"] for s in summaries), default=None),
    )


def _notes(runs: Sequence[RunResult], rows: Sequence[VariantResult]) -> list[str]:
    notes = []
    for state in ("queued", "running", "failed", "diverged", "interrupted"):
        found = [run for run in runs if run.state == state]
        if found:
            what = ", ".join(f"{r.variant} seed {r.seed}" + (f" ({r.reason})" if r.reason else "") for r in found[:5])
            notes.append(f"{len(found)} of {len(runs)} runs {state}: {what}{', ...' if len(found) > 5 else ''}")
    pairs = [row.difference.n for row in rows if row.difference is not None]
    if pairs and min(pairs) < 6:
        n = min(pairs)
        notes.append(
            f"With {n} paired seeds an exact sign-flip test cannot go below p = {2 / 2**n:.3g}; "
            "the intervals assume normal differences. Six seeds or more allow p < 0.05."
        )
    return notes + _mixtures(runs)


def _mixtures(runs: Sequence[RunResult]) -> list[str]:
    summaries = [run.summary for run in runs if run.summary is not None]
    kinds = {
        "data fingerprints": {s["data"]["fingerprint"] for s in summaries},
        "library versions": {str(sorted(s["versions"].items())) for s in summaries},
        "devices": {s["device"] for s in summaries},
        "code versions": {s["git_commit"] for s in summaries},
    }
    return [f"The runs mix {len(found)} {kind}." for kind, found in kinds.items() if len(found) > 1]
