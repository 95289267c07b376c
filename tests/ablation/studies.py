"""Results of studies built by hand, from a table of final values; nothing is trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfexp.ablation.results import RunResult, StudyResult, VariantResult
from tfexp.ablation.statistics import mean, paired_difference, pairing_gain, standard_deviation

# Variant -> value per seed; a text is the state of a run without a value.
Values = Mapping[str, Sequence[float | str]]

# Differences of rope: -0.20, -0.20, -0.17; of alibi: -0.15, -0.14.
POSITIONS: Values = {"sinusoidal": [3.30, 3.32, 3.31], "rope": [3.10, 3.12, 3.14], "alibi": [3.15, 3.18, "diverged"]}
STEPS = (0, 100, 200)


def study(values: Values = POSITIONS, folder: Path = Path("outputs"), **changes: Any) -> StudyResult:
    """A study with these values; `changes` are fields of StudyResult."""
    runs = {name: _runs(name, row, folder, changes.get("metric", "val/loss")) for name, row in values.items()}
    known = {name: {run.seed: run.value for run in row if run.value is not None} for name, row in runs.items()}
    baseline = next(iter(values))
    rows = tuple(_row(name, runs[name], known, baseline) for name in values)
    fields: dict[str, Any] = {
        "name": "positions",
        "question": "Which positions?",
        "command": "tfexp ablate ablation=positions",
        "metric": "val/loss",
        "direction": "lower",
        "baseline": baseline,
        "rows": rows,
        "pruned": {},
        "notes": (),
        "pairing": pairing_gain(known[baseline], [known[name] for name in values if name != baseline]),
    }
    return StudyResult(**{**fields, **changes})


def _runs(variant: str, row: Sequence[float | str], folder: Path, metric: str) -> tuple[RunResult, ...]:
    return tuple(_run(variant, seed, value, folder, metric) for seed, value in enumerate(row))


def _run(variant: str, seed: int, value: float | str, folder: Path, metric: str) -> RunResult:
    state = value if isinstance(value, str) else "complete"
    end = 3.0 if isinstance(value, str) else value
    curve = [{"step": step, metric: end + 2.0 * (1 - step / STEPS[-1])} for step in STEPS]
    if state == "queued":
        curve = []
    number = sum(map(ord, variant)) * 100 + seed
    return RunResult(
        variant=variant,
        seed=seed,
        hash=f"{number:08x}",
        folder=folder / "runs" / f"run-{number:08x}",
        state=state,
        reason="loss 99 at step 100" if state == "diverged" else None,
        value=None if isinstance(value, str) else value,
        metrics=curve,
        summary=_summary(variant, seed, end, metric) if state == "complete" else None,
    )


def _summary(variant: str, seed: int, value: float, metric: str) -> dict[str, Any]:
    return {
        "signature": f"task:next_token|pos:{variant}|d:96|seed:{seed}",
        "final": {"step": STEPS[-1], metric: value, "val/perplexity": 1.0},
        "parameters": {"total": 542_208},
        "flops_per_token": 3_240_000.0,
        "tokens_seen": 1_024_000,
        "seconds": {"training": 31.5},
        "tokens_per_s": 32_508.0 + 1000 * seed,
        "peak_memory_bytes": 800 * 2**20,
        "data": {"fingerprint": "0123456789abcdef" * 4},
        "versions": {"tfexp": "0.1.0", "torch": "2.13.0"},
        "git_commit": "abcdef123456",
        "device": "some CPU",
    }


def _row(name: str, runs: tuple[RunResult, ...], known: Mapping[str, dict[int, float]], baseline: str) -> VariantResult:
    values, summaries = known[name], [run.summary for run in runs if run.summary is not None]
    speeds = sorted(summary["tokens_per_s"] for summary in summaries)
    return VariantResult(
        name=name,
        runs=runs,
        mean=mean(list(values.values())),
        sd=standard_deviation(list(values.values())),
        difference=None if name == baseline else paired_difference(values, known[baseline]),
        parameters=summaries[0]["parameters"]["total"] if summaries else None,
        flops_per_token=summaries[0]["flops_per_token"] if summaries else None,
        tokens_per_s=speeds[len(speeds) // 2] if speeds else None,
        peak_memory_bytes=max((summary["peak_memory_bytes"] for summary in summaries), default=None),
    )
