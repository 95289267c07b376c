"""The sentences of a report, each derived from the numbers: what was found, and how far to trust it."""

from tfexp.ablation.report import numbers
from tfexp.ablation.report.table import Table, TableRow, states
from tfexp.ablation.results import StudyResult

SIGNIFICANT = 0.05


def headline(result: StudyResult, table: Table) -> str:
    """What the study found, in words no stronger than its interval."""
    if result.best is None:
        return _nothing(result)
    best = table.row(result.best)
    reached = f"the {_most(result)} {result.metric}: {best.value} over {plural(best.result.n, 'seed')}"
    others = sum(row.mean is not None for row in result.rows) - 1
    if not others:
        return f"Only {best.name} has values: {result.metric} {best.value} over {plural(best.result.n, 'seed')}."
    if best.is_baseline or best.result.mean == table.rows[0].result.mean:
        best = table.rows[0]
        return f"No variant beats the baseline {best.name}, which has {reached}."
    return f"{best.name} has {reached}{_against(result, table, best)}"


def pairing(result: StudyResult) -> str | None:
    """How much variance the shared seeds took out of the differences."""
    if result.pairing is None:
        return None
    if result.pairing < 0:
        return (
            f"Pairing by seed added {numbers.percent(-result.pairing)} to the variance of the differences: "
            "here runs of one seed have nothing in common that helps the comparison."
        )
    sentence = (
        f"Variants share their seeds' data order and initial values, which took {numbers.percent(result.pairing)} "
        "of the variance out of the differences"
    )
    if 0.05 < result.pairing < 0.995:
        sentence += f": unpaired, the same precision would need {1 / (1 - result.pairing):.1f} times as many seeds"
    return sentence + "."


def method(result: StudyResult) -> str:
    """How each number of the table came about."""
    comparisons = sum(row.difference is not None for row in result.rows)
    parts = [
        f"Values are {result.metric} at the end of training, mean ± sample standard deviation over seeds; "
        f"{result.direction} is better."
    ]
    if comparisons:
        adjusted = f", also adjusted by Holm's method for {comparisons} comparisons" if comparisons > 1 else ""
        parts.append(
            f"Differences are variant minus {result.baseline} over the seeds that both have finished, with the 95 % "
            f"interval of Student's t; p is two-sided and paired{adjusted}."
        )
    if any(row.tokens_per_s is not None for row in result.rows):
        parts.append("Speed is the median over runs, memory their maximum.")
    return " ".join(parts)


def pending(result: StudyResult) -> bool:
    """Whether a later report may differ, because runs are still to come."""
    return any(run.state in ("queued", "running") for run in result.runs)


def plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _nothing(result: StudyResult) -> str:
    done, runs = states(result.rows).get("complete", 0), len(result.runs)
    if not done:
        return f"No run is complete yet: 0 of {runs}."
    summaries = [run.summary for run in result.runs if run.summary is not None]
    known = sorted({name for summary in summaries for name in summary["final"]} - {"step", result.metric})
    found = f"; recorded are: {', '.join(known)}" if known else ""
    return f"None of the {plural(done, 'complete run')} has a finite {result.metric} at its end{found}."


def _against(result: StudyResult, table: Table, best: TableRow) -> str:
    difference, baseline = best.result.difference, table.rows[0]
    if baseline.result.mean is None:
        return f". The baseline {baseline.name} has no value to compare with."
    if difference is None:
        return (
            f", against {baseline.value} of the baseline {baseline.name}. "
            "Fewer than two shared seeds give no interval: chance and effect cannot be told apart."
        )
    size = numbers.fixed(abs(difference.mean), table.difference_decimals)
    p = "" if best.adjusted is None else f", p = {best.p_holm}".replace("= <", "< ")
    comparisons = sum(row.result.difference is not None for row in table.rows)
    if p and comparisons > 1:
        p += f" adjusted for {comparisons} comparisons"
    return (
        f", {size} {result.direction} than the baseline {baseline.name} (95 % interval of the difference "
        f"{best.interval}{p}). {_verdict(best, comparisons)}"
    )


def _verdict(best: TableRow, comparisons: int) -> str:
    difference = best.result.difference
    assert difference is not None
    if difference.low <= 0 <= difference.high:
        return "The interval includes zero: this study does not separate the two."
    if best.adjusted is not None and best.adjusted >= SIGNIFICANT and comparisons > 1:
        return f"The interval excludes zero, but over {comparisons} comparisons that is not yet evidence."
    return "The interval excludes zero."


def _most(result: StudyResult) -> str:
    return "lowest" if result.direction == "lower" else "highest"
