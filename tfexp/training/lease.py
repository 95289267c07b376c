"""Only one process trains a run: a lease that its holder renews and that runs out without it."""

import json
import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock

from tfexp.errors import RunError
from tfexp.files import write_json

RENEW_SECONDS = 10.0
EXPIRE_SECONDS = 90.0  # nine missed renewals: the holder is gone, even on a machine that one cannot ask


class Lease:
    """A claim on a folder, as a context manager.

    Works over a shared file system: the file says which process on which host holds the folder and
    when it last said so. A holder on this host that no longer runs is recognised at once.

    Raises:
        RunError: On entry, if somebody else holds it.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "lease.json"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> "Lease":
        with FileLock(self.file.with_suffix(".lock")):
            holder = holder_of(self.file.parent)
            if holder is not None:
                since = time.strftime("%H:%M:%S", time.localtime(holder["since"]))
                raise RunError(
                    f"{self.file.parent} is being trained by process {holder['pid']} on {holder['host']} "
                    f"since {since}; wait for it, or change the config"
                )
            self.since = time.time()
            self._write()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.file.unlink(missing_ok=True)

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            try:
                self._write()
            except OSError:
                continue  # a full disk now may have room at the next renewal

    def _write(self) -> None:
        write_json(
            self.file,
            {"pid": os.getpid(), "host": socket.gethostname(), "since": self.since, "renewed": time.time()},
        )


def holder_of(folder: Path) -> dict[str, Any] | None:
    """Who holds a folder now; None if nobody does, or the holder is gone."""
    try:
        holder = json.loads((folder / "lease.json").read_text(encoding="utf-8"))
        expired = time.time() - holder["renewed"] > EXPIRE_SECONDS
        gone = holder["host"] == socket.gethostname() and not _runs(holder["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if expired or gone else holder


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
