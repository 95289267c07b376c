"""A report on the terminal: aligned, also readable as plain text in a file or a pipe."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from tfexp.ablation.report import prose
from tfexp.ablation.report.table import Column, TableRow, columns_of, table_of
from tfexp.ablation.results import StudyResult

WIDTH = 100  # columns at most
NAME_WIDTH = 14  # that a variant's name keeps at least before other columns give way
# What gives way first where the terminal is narrow; the p that is shown is the adjusted one if there is one.
DISPENSABLE = ("memory", "better", "p", "flops", "parameters", "speed", "interval", "p_holm", "difference")


class TerminalReport:
    """Draws itself in the width that it is given, leaving out columns that do not fit."""

    def __init__(self, result: StudyResult) -> None:
        self.result, self.table = result, table_of(result)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, WIDTH)
        yield Text(self.result.question or self.result.name, style="bold")
        yield Text("")
        yield self._grid(width)
        yield Text("")
        for text in (prose.headline(self.result, self.table), prose.pairing(self.result), *self.result.notes):
            if text:
                yield from _wrapped(text, width, console)
        for name, reason in self.result.pruned.items():
            yield from _wrapped(f"left out: {name}: {reason}", width, console)

    def _grid(self, width: int) -> RichTable:
        columns = self._columns(width)
        grid = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in columns:
            is_name = column.key == "variant"
            grid.add_column(
                Text(column.heading), justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold"
            )
        for row in self.table.rows:
            grid.add_row(*(_cell(row, column) for column in columns), style="bold" if row.is_best else "")
        return grid

    def _columns(self, width: int) -> list[Column]:
        columns = columns_of(self.result, self.table)
        if any(column.key == "p_holm" for column in columns):
            columns = [column for column in columns if column.key != "p"]
        for key in DISPENSABLE:
            if sum(self._width(column) + 2 for column in columns) - 2 <= width:
                break
            columns = [column for column in columns if column.key != key]
        return columns

    def _width(self, column: Column) -> int:
        widest = max(_cell(row, column).cell_len for row in self.table.rows)
        if column.key == "variant":
            widest = min(widest, NAME_WIDTH)
        return max(widest, len(column.heading))


def terminal_table(result: StudyResult) -> TerminalReport:
    """The table with its notes, for `rich.console.Console.print`."""
    return TerminalReport(result)


def _cell(row: TableRow, column: Column) -> Text:
    text = column.text(row)
    if column.key == "value":
        text += " *" if row.is_best else "  "
    if column.key == "difference" and row.is_baseline:
        text = "baseline"
    if column.key == "seeds" and row.has_failed:  # the notes say what happened
        text += " !"
    return Text(text)


def _wrapped(text: str, width: int, console: Console) -> list[Text]:
    return list(Text(text).wrap(console, width))
