"""From names of files to their text: patterns, gzip, encodings, line ends."""

import gzip
import json
import os
import zlib
from glob import glob
from pathlib import Path

from tfexp.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"  # RFC 1952, section 2.3.1
BYTE_ORDER_MARK = "\ufeff"


def find_files(patterns: str | list[str], key: str) -> list[Path]:
    """The files that paths and patterns name, in the order given and each once; those of one pattern are sorted."""
    listed = [patterns] if isinstance(patterns, str) else patterns
    if not listed:
        raise DataError(f"{key}: the list is empty; name at least one file")
    # By its place, not by what a link leads to: a class may be a folder of links to shared files.
    found: dict[str, Path] = {}
    for path in (path for pattern in listed for path in _expand(pattern, key)):
        found.setdefault(os.path.abspath(path), path)
    return list(found.values())


def stamp_of_files(*patterns: str | list[str] | None) -> str | None:
    """What changes whenever a file named does, of the files of each part; None if one is not there to be asked.

    A copy or an edit can keep a file's size and its time (`cp -p`, `rsync -t`), but not also its inode and the
    time at which the system noted the change, which no program can set.
    """
    try:
        return json.dumps([[_state_of(path) for path in find_files(some, "data")] if some else [] for some in patterns])
    except (DataError, OSError):
        return None


def _state_of(path: Path) -> list[str | int]:
    state = path.stat()
    return [
        str(path.resolve()), state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev
    ]  # fmt: skip


def read_text(path: Path, key: str, encoding: str = "utf-8") -> str:
    """Read one text file, gzipped or not, or say which file, line and byte cannot be read.

    Windows line ends become newlines, and so do carriage returns where there is no newline at all (old Macs).
    A byte order mark goes. Nothing else is ever replaced silently.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{key}: cannot read {path}: {error.strerror or error}") from error
    data = _unpacked(data, path, key)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n" if b"\n" in data else b"\r", 0, error.start) + 1
        raise DataError(
            f"{key}: {path}, line {line}: byte 0x{data[error.start]:02x} is not {encoding}; "
            "convert the file or set data.encoding"
        ) from error
    except LookupError as error:
        raise DataError(f"data.encoding: Python knows no encoding '{encoding}'") from error
    text = text.removeprefix(BYTE_ORDER_MARK)
    if not text.strip():
        raise DataError(f"{key}: {path} is empty")
    text = text.replace("\r\n", "\n")
    return text if "\n" in text else text.replace("\r", "\n")


def split_lines(text: str) -> list[str]:
    """The lines of a text, without their ends.

    Only a newline ends a line: `str.splitlines` would also cut at U+2028, U+0085 and others that stand
    inside sentences, and shift every line after them.
    """
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def stray_return(*pieces: str) -> str:
    """What to add to a message about a line that holds a carriage return, which was perhaps meant to end it."""
    return "; a carriage return in it ends no line: use newlines" if any("\r" in piece for piece in pieces) else ""


def _unpacked(data: bytes, path: Path, key: str) -> bytes:
    if not data.startswith(GZIP_MAGIC) and path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{key}: {path} is no gzip file, or a damaged one: {error}") from error


def _expand(pattern: str, key: str) -> list[Path]:
    path = Path(pattern).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        raise DataError(f"{key}: {pattern} is a folder; name files, such as {pattern.rstrip('/')}/*.txt")
    found = sorted(Path(p) for p in glob(str(path), recursive=True) if Path(p).is_file())
    if not found:
        raise DataError(f"{key}: there is no file {pattern} (looked from {Path.cwd()})")
    return found
