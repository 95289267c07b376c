"""Files that are written whole or not at all, and hashes of what they hold."""

import json
import os
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, force it to disk, then rename it into place.

    A reader sees the old file or the new one, never a part; a crash leaves only a `.tmp` file.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with open(temporary, "rb") as stream:
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file whole or not at all."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8", newline="\n")

    write_whole(path, write)


def write_json(path: Path, value: Any) -> None:
    """Write JSON whole or not at all. NaN is not JSON and is refused."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def fingerprint(value: Any) -> str:
    """SHA-256 of a JSON value in canonical form, in hexadecimal."""
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


def _umask() -> int:
    # mkstemp makes private files; a record is to be as readable as any other file of the user.
    mask = os.umask(0)
    os.umask(mask)
    return mask
