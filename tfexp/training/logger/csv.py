"""A CSV file per run."""

import csv
from collections.abc import Mapping

from tfexp.files import write_whole
from tfexp.registry import register
from tfexp.training.mirror import Mirror, RunInfo


@register("logger", "csv")
class CSVLogger(Mirror):
    """`metrics.csv` in the run's folder: a row per step, a column per metric."""

    def __init__(self, run: RunInfo) -> None:
        self.path = run.folder / "metrics.csv"
        self.rows: dict[int, dict[str, float]] = {}

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.rows.setdefault(step, {"step": step}).update(metrics)
        self._write()

    def _write(self) -> None:
        columns = list(dict.fromkeys(key for row in self.rows.values() for key in row))

        def write(temporary) -> None:  # type: ignore[no-untyped-def]
            with open(temporary, "w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, columns)
                writer.writeheader()
                writer.writerows(self.rows.values())

        write_whole(self.path, write)
