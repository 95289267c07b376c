"""Charts as files: SVG for the page, PDF for LaTeX, PNG for slides."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from tfexp.ablation.report.charts import Figure
from tfexp.files import write_text, write_whole

PNG_SCALE = 2.5  # pixels of the file per pixel of the chart: 1800 wide, enough for a column of print
KNOWN = ("differences", "curves", "gap", "cost")  # every name that charts.py gives
ENDINGS = ("svg", "png", "pdf")


def write_figures(figures: Sequence[Figure], folder: Path) -> None:
    """Write each figure in three formats, and remove those of an earlier report that no longer hold."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        svg = svg_of(figure, background="white")
        write_text(folder / f"{figure.name}.svg", svg)
        _write_bytes(folder / f"{figure.name}.png", vl_convert.svg_to_png(svg, scale=PNG_SCALE))
        _write_bytes(folder / f"{figure.name}.pdf", vl_convert.svg_to_pdf(svg))
    for name in set(KNOWN) - {figure.name for figure in figures}:
        for ending in ENDINGS:
            (folder / f"{name}.{ending}").unlink(missing_ok=True)


def svg_of(figure: Figure, background: str = "transparent") -> str:
    """The chart as SVG, whose identifiers do not clash with those of another chart in one page."""
    spec = spec_of(figure)
    spec["config"]["background"] = background
    svg = vl_convert.vegalite_to_svg(spec, vl_version=_vegalite_version())
    svg = re.sub(r'<path [^>]*\bopacity="0"/>', "", svg)  # what only a pointer could find
    return re.sub(r'(\bid="|url\(#)(?=[A-Za-z])', rf"\1{figure.name}-", svg)


def spec_of(figure: Figure) -> dict[str, Any]:
    """The Vega-Lite description."""
    return figure.chart.to_dict()


def chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, so that the page works offline."""
    return vl_convert.javascript_bundle(vl_version=_vegalite_version())  # pyright: ignore[reportCallIssue]


def _vegalite_version() -> str:
    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def _write_bytes(path: Path, data: bytes) -> None:
    def write(temporary: Path) -> None:
        temporary.write_bytes(data)

    write_whole(path, write)
