"""Reads the transaction log of an offline wandb run: what was sent, without wandb's private modules."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

BLOCK = 32_768  # bytes, of LevelDB's log format
HEADER = struct.Struct("<IHB")  # checksum, length, kind: 1 whole, 2 first, 3 middle, 4 last piece


@dataclass
class OfflineRun:
    """What one file says."""

    id: str = ""
    group: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    exit_code: int | None = None

    @property
    def steps(self) -> list[int]:
        return [row["_step"] for row in self.rows]


def offline_runs(folder: Path) -> list[OfflineRun]:
    """Every offline run below a folder."""
    return [read_run(path) for path in sorted(folder.rglob("offline-run-*/*.wandb"))]


def read_run(path: Path) -> OfflineRun:
    run = OfflineRun()
    for data in _records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run.id, run.group = record.run.run_id, record.run.run_group
            run.config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif kind == "history":
            items = record.history.item
            run.rows.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    return run


def _records(data: bytes) -> Iterator[bytes]:
    place, pieces = 7, b""  # behind wandb's own header
    while place + HEADER.size <= len(data):
        if BLOCK - place % BLOCK < HEADER.size:
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = HEADER.unpack_from(data, place)
        place += HEADER.size
        pieces += data[place : place + length]
        place += length
        if kind in (1, 4):
            yield pieces
            pieces = b""
