"""The charts of a report. One description serves the page, SVG, PNG and PDF."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from tfexp.ablation.report.chart_style import INK, Style, chart_of, end_labels, finish, padded
from tfexp.ablation.report.series import Band, Curve, gap_bands, mean_bands, run_curves
from tfexp.ablation.report.table import paired_differences, table_of
from tfexp.ablation.results import StudyResult, VariantResult

HEIGHT = 340
FEW_STEPS = 12  # up to which each evaluation gets a symbol on its line
SYMBOLS = 6  # along a line, where dashes alone do not tell the lines apart
ROW_HEIGHT = 34  # of the forest plot
WORTH_SHOWING = 1.05  # ratio of the dearest to the cheapest variant, below which a chart of cost says nothing


@dataclass(frozen=True)
class Figure:
    """A chart with what a reader needs beside it.

    Args:
        name: Of its files.
        title, caption: In the page.
        chart: Its description.
    """

    name: str
    title: str
    caption: str
    chart: alt.LayerChart


def figures_of(result: StudyResult) -> list[Figure]:
    """Every chart that the study has data for."""
    makers = (differences_figure, curves_figure, gap_figure, cost_figure)
    return [figure for make in makers if (figure := make(result)) is not None]


def curves_figure(result: StudyResult) -> Figure | None:
    """The metric over steps: each run thin, the mean of a variant thick, the range of its seeds shaded."""
    bands, runs = mean_bands(result), run_curves(result)
    if not bands:
        return None
    # The scale follows the means: a run that diverged leaves the plot instead of flattening the others.
    domain = padded([v for band in bands for v in (*band.low, *band.high)])
    style = _style(result)
    inside = [_run_lines(runs, style, domain, leaving) for leaving in (False, True)]
    thin = [layer for layer in inside if layer is not None]
    chart = _lines(bands, style, domain, f"{result.metric} ({result.direction} is better)", thin)
    caption = "Thick: mean over complete runs. Thin: each run. Shaded: the range of the seeds."
    return Figure("curves", f"{result.metric} during training", caption, chart)


def gap_figure(result: StudyResult) -> Figure | None:
    """The paired difference to the baseline over steps, where the fall that all variants share is gone."""
    bands = gap_bands(result)
    if not any(len(band.steps) > 1 for band in bands):
        return None
    # The first evaluations differ most and matter least, so the later half sets the scale.
    late = [v for band in bands for v in (*_late(band, band.low), *_late(band, band.high))]
    domain = padded([0.0, *late], 0.12)
    zero = chart_of([{"y": 0}]).mark_rule(color=INK, strokeWidth=2).encode(y="y:Q")
    steps = max(band.steps[-1] for band in bands)
    title = f"difference in {result.metric}"
    chart = _lines(bands, _style(result), domain, title, [zero], {result.baseline: (steps, 0.0)})
    caption = (
        f"Variant minus {result.baseline}, seed by seed: {'below' if result.direction == 'lower' else 'above'} "
        "zero is better. Line: mean. Shaded: the range over seeds. "
        "The later half sets the scale."
    )
    return Figure("gap", "Difference to the baseline during training", caption, chart)


def differences_figure(result: StudyResult) -> Figure | None:
    """A forest plot: paired difference of each variant with its 95 % interval, and the seeds it comes from."""
    rows = [row for row in result.rows[1:] if paired_differences(result, row)]
    if not rows:
        return None
    better, worse = ("← better", "worse →") if result.direction == "lower" else ("← worse", "better →")
    names = [row.name for row in rows]
    y = alt.Y("variant:N", sort=None, scale=alt.Scale(domain=names), axis=_name_axis())
    title = f"{better}\u2003\u2003difference in {result.metric}\u2003\u2003{worse}"
    x = alt.X("mean:Q", scale=alt.Scale(domain=_forest_domain(result, rows)), axis=alt.Axis(title=title, tickCount=6))
    layers = _forest_layers(result, rows, x, y)
    chart = finish(alt.layer(*layers), f"Paired differences to {result.baseline}", height=ROW_HEIGHT * len(rows))
    caption = (
        f"Variant minus {result.baseline} at the end of training. Symbol and bar: mean and 95 % interval of Student's "
        f"t. Small dots: single seeds."
    )
    return Figure("differences", "Difference to the baseline", caption, chart)


def cost_figure(result: StudyResult) -> Figure | None:
    """Quality against speed, or against operations where the speeds are alike; None where neither differs."""
    rows = [row for row in result.rows if row.mean is not None]
    choices = (("tokens_per_s", "tokens/s (more is cheaper)"), ("flops_per_token", "FLOP per token (fewer is cheaper)"))
    field = next(((f, title) for f, title in choices if _differs([getattr(row, f) for row in rows])), None)
    if field is None:
        return None
    points = [
        {
            "variant": row.name, "cost": getattr(row, field[0]), "mean": row.mean,
            "low": row.mean - (row.sd or 0.0), "high": row.mean + (row.sd or 0.0),
        }
        for row in rows if row.mean is not None
    ]  # fmt: skip
    domain, style = padded([v for p in points for v in (p["low"], p["high"])], 0.12), _style(result)
    y_title = f"{result.metric} ({result.direction} is better)"
    base = chart_of(points).encode(
        x=alt.X("cost:Q", scale=alt.Scale(zero=False, padding=16), axis=alt.Axis(title=field[1], tickCount=6)),
        color=style.colour(),
    )
    y = alt.Y("mean:Q", scale=_scale(domain), axis=alt.Axis(title=y_title, tickCount=7))
    bars = base.mark_rule(strokeWidth=1.2).encode(y=alt.Y("low:Q", scale=_scale(domain)), y2="high:Q")
    marks = base.mark_point(filled=True, size=90, opacity=1).encode(
        y=y, shape=style.shape(), tooltip=["variant:N", alt.Tooltip("mean:Q", format=".4f"), "cost:Q"]
    )
    ends = {p["variant"]: (p["cost"], p["mean"]) for p in points}
    labels = end_labels(style, ends, domain, HEIGHT, leaders=False)
    chart = finish(alt.layer(bars, marks, labels), "Quality against cost", height=HEIGHT)
    caption = "Bars: one standard deviation over seeds. Names are in order of the metric."
    return Figure("cost", "Quality against cost", caption, chart)


def _lines(
    bands: Sequence[Band],
    style: Style,
    domain: tuple[float, float],
    y_title: str,
    behind: Sequence[Any],
    more_ends: dict[str, tuple[float, float]] | None = None,
) -> alt.LayerChart:
    """Means with shaded ranges over steps, named at their right end; pointing at one fades the others."""
    rows: list[dict[str, Any]] = [
        {"variant": band.variant, "step": step, "mean": _short(mean), "low": _short(low), "high": _short(high)}
        for band in bands
        for step, mean, low, high in zip(band.steps, band.mean, band.low, band.high, strict=True)
    ]
    hover = alt.selection_point(name="hover", fields=["variant"], on="pointerover", clear="pointerout")
    strong = alt.when(hover).then(alt.value(1)).otherwise(alt.value(0.2))
    x = alt.X("step:Q", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(title="step", grid=False, tickCount=6))
    y = alt.Y("mean:Q", scale=_scale(domain), axis=alt.Axis(title=y_title, tickCount=7))
    base = chart_of(rows).encode(x=x)
    clip = _leaves(domain, [row[end] for row in rows for end in ("low", "high")])
    shade = base.mark_area(clip=clip).encode(
        y=alt.Y("low:Q", scale=_scale(domain)), y2="high:Q", color=style.colour(),
        fillOpacity=alt.when(hover).then(alt.value(0.07 if style.crowded else 0.14)).otherwise(alt.value(0.02)),
    )  # fmt: skip
    line = base.mark_line(strokeWidth=2, clip=clip).encode(
        y=y, color=style.colour(), strokeDash=style.dash(), opacity=strong
    )
    # Nothing to see, but something for the pointer to find.
    found = base.mark_point(filled=True, size=60, clip=clip, aria=False).encode(
        y=y, opacity=alt.value(0),
        tooltip=["variant:N", "step:Q", *(alt.Tooltip(f"{f}:Q", format=".4f") for f in ("mean", "low", "high"))],
    )  # fmt: skip
    marked = _marked(bands, style)
    symbols = [_symbols(chart_of(marked).encode(x=x, y=y, opacity=strong), style, clip)] if marked else []
    ends = {band.variant: (band.steps[-1], band.mean[-1]) for band in bands} | (more_ends or {})
    labels = end_labels(style, ends, domain, HEIGHT)
    return finish(alt.layer(*behind, shade, line, *symbols, found.add_params(hover), labels), y_title, height=HEIGHT)


def _symbols(base: alt.Chart, style: Style, clip: bool) -> alt.Chart:
    return base.mark_point(filled=True, size=34, clip=clip).encode(color=style.colour(), shape=style.shape())


def _marked(bands: Sequence[Band], style: Style) -> list[dict[str, Any]]:
    """Points that get a symbol: all where they are few; some, not side by side, where dashes repeat; else none."""
    longest = max(len(band.steps) for band in bands)
    if longest > FEW_STEPS and not style.crowded:
        return []
    stride = 1 if longest <= FEW_STEPS else longest // SYMBOLS
    return [
        {"variant": band.variant, "step": step, "mean": _short(mean)}
        for number, band in enumerate(bands)
        for place, (step, mean) in enumerate(zip(band.steps, band.mean, strict=True))
        if (place + number) % stride == 0
    ]


def _run_lines(
    runs: Mapping[tuple[str, int], Curve], style: Style, domain: tuple[float, float], leaving: bool
) -> alt.Chart | None:
    """Thin lines of the runs that stay inside the plot, or of those that leave it and have to be clipped."""
    points = [
        {"variant": variant, "seed": seed, "step": step, "value": _short(value)}
        for (variant, seed), curve in runs.items()
        if _leaves(domain, list(curve.values())) is leaving
        for step, value in curve.items()
    ]
    if not points:
        return None
    line = chart_of(points).mark_line(
        strokeWidth=0.7, strokeOpacity=0.15 if style.crowded else 0.4, opacity=1, clip=leaving, aria=False
    )
    return line.encode(x="step:Q", y="value:Q", detail="seed:N", color=style.colour())


def _forest_layers(result: StudyResult, rows: Sequence[VariantResult], x: alt.X, y: alt.Y) -> list[Any]:
    """Zero, the single seeds, and for variants with an interval its bar and numbers."""
    seeds = [
        {"variant": row.name, "seed": seed, "mean": difference}
        for row in rows
        for seed, difference in paired_differences(result, row).items()
    ]
    zero = chart_of([{"mean": 0}]).mark_rule(color=INK, strokeWidth=1.2).encode(x=x)
    dots = chart_of(seeds).mark_circle(size=14, opacity=0.65, yOffset=9, color=INK)
    layers = [zero, dots.encode(x=x, y=y, tooltip=["variant:N", "seed:N", alt.Tooltip("mean:Q", format="+.4f")])]
    table, style = table_of(result), _style(result)
    known = [
        {
            "variant": row.name, "mean": row.difference.mean, "low": row.difference.low, "high": row.difference.high,
            "text": f"{table.row(row.name).difference} {table.row(row.name).interval}".replace("-", "−"),
        }
        for row in rows if row.difference is not None
    ]  # fmt: skip
    if not known:
        return layers
    base = chart_of(known).encode(y=y, color=style.colour())
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q")
    caps = [base.mark_tick(orient="vertical", size=9, thickness=2).encode(x=f"{end}:Q") for end in ("low", "high")]
    means = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=x, shape=style.shape(), tooltip=["variant:N", "text:N"]
    )
    text = base.mark_text(align="left", baseline="middle", xOffset=14, fontSize=11)
    numbers = text.encode(x=alt.value("width"), text="text:N", color=alt.value(INK)).properties(name="numbers")
    return [*layers, bars, *caps, means, numbers]


def _forest_domain(result: StudyResult, rows: Sequence[VariantResult]) -> tuple[float, float]:
    ends = [v for row in rows if (d := row.difference) is not None for v in (d.low, d.high)]
    return padded([0.0, *ends, *(v for row in rows for v in paired_differences(result, row).values())])


def _short(value: float) -> float:
    # A pixel is a thousandth of the plot; the exact numbers are in report.json.
    return float(f"{value:.6g}")


def _style(result: StudyResult) -> Style:
    return Style([row.name for row in result.rows], result.baseline)


def _scale(domain: tuple[float, float]) -> alt.Scale:
    return alt.Scale(domain=list(domain), nice=False, zero=False)


def _name_axis() -> alt.Axis:
    return alt.Axis(title=None, ticks=False, domain=False, labelLimit=220, labelPadding=12, grid=True)


def _leaves(domain: tuple[float, float], values: Sequence[float]) -> bool:
    # Clipping makes the PNG many times slower, so it is asked for only where a line leaves the plot.
    return min(values) < domain[0] or max(values) > domain[1]


def _late(band: Band, values: Sequence[float]) -> Sequence[float]:
    middle = (band.steps[0] + band.steps[-1]) / 2
    return [value for step, value in zip(band.steps, values, strict=True) if step >= middle]


def _differs(costs: Sequence[float | None]) -> bool:
    known = [cost for cost in costs if cost]
    return len(known) == len(costs) > 1 and max(known) / min(known) > WORTH_SHOWING
