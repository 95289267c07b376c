"""A report for a README (Markdown) and for a paper (LaTeX with booktabs)."""

import re
from collections.abc import Sequence

from tfexp.ablation.report import prose
from tfexp.ablation.report.escaping import latex, latex_number, markdown, markdown_code
from tfexp.ablation.report.page import setting
from tfexp.ablation.report.table import Column, TableRow, columns_of, table_of
from tfexp.ablation.results import StudyResult

IN_A_PAPER = ("variant", "seeds", "value", "difference", "interval", "p", "p_holm", "parameters", "flops", "speed")


def markdown_page(result: StudyResult) -> str:
    """The table, aligned also as plain text, and what a reader must know beside it."""
    table = table_of(result)
    columns = columns_of(result, table)
    grid = [[markdown(column.heading) for column in columns]]
    grid += [[_markdown_cell(row, column) for column in columns] for row in table.rows]
    parts = [f"# {markdown(result.question or result.name)}", markdown(prose.headline(result, table)), _aligned(grid)]
    parts += [markdown(text) for text in (prose.method(result), prose.pairing(result)) if text]
    parts += _section("Read with care", [markdown(note) for note in result.notes])
    pruned = [f"{markdown(name)}: {markdown(reason)}" for name, reason in result.pruned.items()]
    parts += _section("Left out", pruned)
    parts += ["## Run it again", markdown_code(result.command)]
    known = [f"- {name}: {markdown_code(text)}" for name, text in setting(result).items()]
    return "\n\n".join([*parts, *(["\n".join(known)] if known else [])]) + "\n"


def latex_table(result: StudyResult) -> str:
    r"""A table environment to `\input` into a paper; needs nothing but booktabs."""
    table = table_of(result)
    columns = [column for column in columns_of(result, table) if column.key in IN_A_PAPER]
    heading = " & ".join(re.sub(r"^p\b", "$p$", latex_number(column.heading)) for column in columns)
    rows = [" & ".join(_latex_cell(row, column) for column in columns) for row in table.rows]
    title = (result.question or result.name).rstrip(".")
    caption = f"{title}{'' if title.endswith('?') else '.'} {prose.method(result)}"
    label = re.sub(r"[^A-Za-z0-9:-]", "-", result.name)
    lines = [
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}[t]",
        r"  \centering",
        r"  \small",
        rf"  \caption{{{latex_number(caption)} The best mean is bold.}}",
        rf"  \label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        r"    \toprule",
        rf"    {heading} \\",
        r"    \midrule",
        *(rf"    {row} \\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _markdown_cell(row: TableRow, column: Column) -> str:
    text = markdown(column.text(row))
    if column.key == "variant" and row.is_baseline:
        return f"{text} (baseline)"
    if column.key == "seeds" and row.trouble:
        return f"{text} ({row.trouble})"
    return f"**{text}**" if column.key == "value" and row.is_best else text


def _latex_cell(row: TableRow, column: Column) -> str:
    if column.key == "variant":
        return latex(row.name) + (" (baseline)" if row.is_baseline else "")
    text = latex_number(column.text(row))
    return rf"\textbf{{{text}}}" if column.key == "value" and row.is_best else text


def _aligned(grid: Sequence[Sequence[str]]) -> str:
    widths = [max(3, *(len(row[i]) for row in grid)) for i in range(len(grid[0]))]
    lines = []
    for row in grid:
        cells = [
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(cells)} |")
    rule = [("-" * (width - 1) + ":") if i else ":" + "-" * (width - 1) for i, width in enumerate(widths)]
    return "\n".join([lines[0], f"| {' | '.join(rule)} |", *lines[1:]])


def _section(title: str, items: Sequence[str]) -> list[str]:
    return [f"## {title}", "\n".join(f"- {item}" for item in items)] if items else []
