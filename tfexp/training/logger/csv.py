"""A CSV file per run."""

import csv
from collections.abc import Mapping
from pathlib import Path

from tfexp.files import write_whole
from tfexp.registry import register
from tfexp.training.mirror import Mirror, RunInfo
from tfexp.training.record import Record


@register("logger", "csv")
class CSVLogger(Mirror):
    """`metrics.csv` in the run's folder: a row per step, a column per metric."""

    def __init__(self, run: RunInfo) -> None:
        self.record = Record(run.folder)
        self.path = run.folder / "metrics.csv"

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        # From the record, which also holds what an interrupted run had logged before.
        rows: dict[float, dict[str, float]] = {}
        for line in self.record.metrics():
            rows.setdefault(line["step"], {}).update(line)
        columns = list(dict.fromkeys(key for row in rows.values() for key in row))

        def write(temporary: Path) -> None:
            with open(temporary, "w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, columns)
                writer.writeheader()
                writer.writerows(rows.values())

        write_whole(self.path, write)
