"""How charts look: colours, dashes and shapes that survive colour blindness and black-and-white print, and labels."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

# `currentColor` is the colour of the text around a chart: black on paper, light on a dark page.
INK = "currentColor"
# Okabe and Ito 2008, without its yellow (too pale on paper) and with its black as INK; the last is Paul Tol's wine.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")
DASHES = ([7, 3], [2, 2], [9, 3, 2, 3], [14, 4], [1, 0])
SHAPES = ("square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
BASELINE = (INK, [1, 0], "circle")

WIDTH = 560  # pixels of the plot itself
LABEL_GAP = 15  # pixels between two labels, one line of text
LABEL_ROOM = 24  # pixels between the plot's edge and a label's text
LABEL_LIMIT = 200  # pixels after which a name is cut off
FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"


class Style:
    """Gives each variant of a study a colour, a dash and a shape; 35 variants differ in at least one of the first two.

    Args:
        names: Of the variants, in the table's order.
        baseline: Drawn in ink, solid.
    """

    def __init__(self, names: Sequence[str], baseline: str) -> None:
        self.names, self.baseline = list(names), baseline
        others = iter(range(len(self.names)))
        marks = {name: BASELINE if name == baseline else _marks(next(others)) for name in self.names}
        self.crowded = len(self.names) - 1 > len(DASHES)  # so that a dash alone does not name a variant
        self.ranges = [list(values) for values in zip(*marks.values(), strict=True)]

    def colour(self) -> alt.Color:
        return alt.Color("variant:N", scale=self._scale(0), legend=None)

    def dash(self) -> alt.StrokeDash:
        return alt.StrokeDash("variant:N", scale=self._scale(1), legend=None)

    def shape(self) -> alt.Shape:
        return alt.Shape("variant:N", scale=self._scale(2), legend=None)

    def _scale(self, which: int) -> alt.Scale:
        return alt.Scale(domain=self.names, range=self.ranges[which])


def chart_of(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """A chart over rows, which travel as CSV: a third of the size of JSON, and nothing for altair to check row by row.

    The rows must not be empty and have the same keys.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return alt.Chart(alt.Data(values=stream.getvalue(), format=alt.CsvDataFormat(type="csv")))


def end_labels(
    style: Style,
    ends: Mapping[str, tuple[float, float]],
    domain: tuple[float, float],
    height: int,
    leaders: bool = True,
) -> Any:
    """Names at the right edge, each at the height of the (x, y) it belongs to, moved apart where they would overlap.

    Leaders are short lines from the point to its name.
    """
    gap = LABEL_GAP * (domain[1] - domain[0]) / height
    places = spread([y for _, y in ends.values()], gap, domain)
    rows = [{"variant": v, "x": x, "y": y, "at": at} for (v, (x, y)), at in zip(ends.items(), places, strict=True)]
    base = chart_of(rows).encode(y=alt.Y("at:Q"))
    edge = alt.value("width")
    lines = base.mark_rule(strokeWidth=1, opacity=0.55, x2Offset=8).encode(
        x="x:Q", x2=edge, y="y:Q", y2="at:Q", color=style.colour()
    )
    symbols = base.mark_point(filled=True, size=46, opacity=1, xOffset=14).encode(
        x=edge, color=style.colour(), shape=style.shape()
    )
    text = base.mark_text(
        align="left", baseline="middle", xOffset=LABEL_ROOM, limit=LABEL_LIMIT, color=INK, fontSize=11
    )
    names = text.encode(x=edge, text="variant:N", tooltip=alt.Tooltip("variant:N"))
    return alt.layer(*([lines] if leaders else []), symbols, names)


def spread(values: Sequence[float], gap: float, domain: tuple[float, float]) -> list[float]:
    """The nearest places to `values` (least squares) that are at least `gap` apart and keep their order.

    They stay inside the domain as long as there is room in it.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    blocks: list[list[float]] = []  # neighbours that push each other: [sum of values - rank * gap, how many]
    for rank, index in enumerate(order):
        blocks.append([values[index] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, n = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + n]
    flat = [total / n for total, n in blocks for _ in range(int(n))]
    highest = max(domain[0], domain[1] - (len(values) - 1) * gap)
    places = [0.0] * len(values)
    for rank, index in enumerate(order):
        places[index] = min(max(flat[rank], domain[0]), highest) + rank * gap
    return places


def padded(values: Sequence[float], share: float = 0.05) -> tuple[float, float]:
    """The range of the values and a little more; never empty."""
    low, high = min(values), max(values)
    room = share * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def finish(chart: Any, title: str, width: int = WIDTH, height: int | None = None) -> alt.LayerChart:
    """Size, description for screen readers, and the house look."""
    size = {"width": width} if height is None else {"width": width, "height": height}
    axis = {
        "labelColor": INK, "titleColor": INK, "domainColor": INK, "tickColor": INK, "gridColor": INK,
        "gridOpacity": 0.12, "domainOpacity": 0.5, "tickOpacity": 0.5, "labelFontSize": 11, "titleFontSize": 12,
        "titleFontWeight": "normal", "titlePadding": 10,
    }  # fmt: skip
    return (
        chart.properties(description=title, **size)
        .configure(font=FONT, background="transparent", padding=6)
        .configure_view(stroke=None)
        .configure_axis(**axis)
    )


def _marks(index: int) -> tuple[str, list[int], str]:
    return COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)], SHAPES[index % len(SHAPES)]
