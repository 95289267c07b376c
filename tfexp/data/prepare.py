"""Encode a source once, into a memory-mapped cache keyed by source, tokenizer and settings."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from filelock import FileLock

from tfexp.data.corpus import Corpus, Pair
from tfexp.data.encoded import Part, Ragged, count_part, encode_part, labels_of, training_texts
from tfexp.data.tokenization import Tokenizer, TokenizerRecipe
from tfexp.errors import DataError, RunError
from tfexp.files import fingerprint, write_json, write_text
from tfexp.registry import create, resolve

CACHE_VERSION = 4  # of the layout below
DAMAGED = (OSError, ValueError, KeyError, TypeError, DataError)  # raised by what is not there, or not whole


@dataclass(frozen=True)
class PreparedData:
    """Encoded parts and what a record says of them.

    Args:
        tokenizer: Trained on the training part.
        parts: `train`, `val` and, if there is one, `test`; memory-mapped.
        labels: Classes of the training part, in the order of their ids; empty for other kinds.
        fingerprint: Of the examples and their split.
        report: Files, examples, tokens, bytes, unknown tokens.
    """

    tokenizer: Tokenizer
    parts: dict[str, Part]
    labels: tuple[str, ...]
    fingerprint: str
    report: dict[str, Any]


def prepare(data: Mapping[str, Any], cache: Path) -> PreparedData:
    """Read, split, tokenize and encode; from the cache if that was done before.

    A source that can say whether it has changed is not even read again.

    Args:
        data: The checked `data` node.
        cache: Folder of all encoded sets.
    """
    recipe: TokenizerRecipe = create("tokenizer", data["tokenizer"], {})
    stamp, of_tokenizer = create("data", data, {}).stamp(), recipe.fingerprint()
    known = _note_of(data, stamp, of_tokenizer, cache)
    if known is not None and known.is_file():
        try:
            return _recall(known)
        except DAMAGED:
            known.unlink(missing_ok=True)
    corpus, source_fingerprint = _read(json.dumps(data, sort_keys=True), object() if stamp is None else stamp)
    if of_tokenizer is not None:
        source_fingerprint = fingerprint([source_fingerprint, of_tokenizer])
    key = fingerprint(
        {
            "layout": CACHE_VERSION,
            "source": source_fingerprint,
            "tokenizer": data["tokenizer"],
            "tokenizers": tokenizers.__version__,
        }
    )[:16]
    folder = cache / key
    _make_folder(cache)  # only now: what could not be read leaves no folder behind
    with FileLock(cache / f".{key}.lock"):
        try:
            found = _load(folder, corpus.report)
        except DAMAGED:
            shutil.rmtree(folder, ignore_errors=True)
            _encode(corpus, source_fingerprint, recipe, folder)
            found = _load(folder, corpus.report)
    if known is not None:
        write_json(known, {"set": key, "read": corpus.report})
    return found


def _recall(note: Path) -> PreparedData:
    """The set that a source led to before, with what was read of that source.

    Of the set itself nothing is said about the reading: other files may hold the same examples.
    """
    noted = json.loads(note.read_text(encoding="utf-8"))
    return _load(note.parent / noted["set"], noted["read"])


def _note_of(data: Mapping[str, Any], stamp: str | None, of_tokenizer: str | None, cache: Path) -> Path | None:
    """Where it is noted what a source and a tokenizer give as they are now: keys, stamps and code; None = unknown."""
    own = {resolve(slot, node["name"]).file for slot, node in (("data", data), ("tokenizer", data["tokenizer"]))}
    paths = sorted({*Path(__file__).parent.rglob("*.py"), *map(Path, own)})
    if stamp is None or not all(path.is_file() for path in paths):  # a class made at a prompt has no file
        return None
    code = [[str(path), sha256(path.read_bytes()).hexdigest()] for path in paths]
    names = {"data": data, "stamp": stamp, "tokenizer": of_tokenizer, "code": code}
    return cache / f".{fingerprint({**names, 'tokenizers': tokenizers.__version__})[:16]}.key"


def encode_with(tokenizer: Tokenizer, labels: tuple[str, ...], data: Mapping[str, Any]) -> PreparedData:
    """The evaluation parts of a source, encoded with a vocabulary and classes that are there already."""
    stamp = create("data", data, {}).stamp()
    corpus, source_fingerprint = _read(json.dumps(data, sort_keys=True), object() if stamp is None else stamp)
    recipe: TokenizerRecipe = create("tokenizer", data["tokenizer"], {})
    parts = {
        name: encode_part(name, rows, recipe, tokenizer, labels)
        for name, rows in corpus.parts().items()
        if rows and name != "train"
    }
    report: dict[str, Any] = dict(corpus.report)
    for name, part in parts.items():
        report |= count_part(name, part, tokenizer)
    return PreparedData(tokenizer, parts, labels, source_fingerprint, report)


@lru_cache(maxsize=2)
def _read(data: str, stamp: object) -> tuple[Corpus, str]:
    """Examples of a source; read once per process as long as its stamp stays as it is."""
    corpus: Corpus = create("data", json.loads(data), {}).read()
    return corpus, corpus.fingerprint()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"outputs: cannot write to {folder}: {error.strerror or error}") from error


def _encode(corpus: Corpus, source_fingerprint: str, recipe: TokenizerRecipe, folder: Path) -> None:
    tokenizer, labels = Tokenizer(recipe.train(training_texts(corpus.train))), labels_of(corpus)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        report: dict[str, Any] = {}
        parts: dict[str, Any] = {}
        for name, rows in corpus.parts().items():
            if rows:
                part = encode_part(name, rows, recipe, tokenizer, labels)
                report |= count_part(name, part, tokenizer)
                parts[name] = {"kind": part.kind, "n_bytes": part.n_bytes, "columns": list(part.columns)}
                if part.texts:
                    write_json(temporary / f"{name}.texts.json", [list(pair) for pair in part.texts])
                for column, values in part.columns.items():
                    np.save(temporary / f"{name}.{column}.ids.npy", values.ids)
                    np.save(temporary / f"{name}.{column}.ends.npy", values.ends)
        write_text(temporary / "tokenizer.json", tokenizer.to_json())
        meta = {"fingerprint": source_fingerprint, "report": report, "labels": list(labels), "parts": parts}
        write_json(temporary / "meta.json", meta)
        temporary.chmod(0o755)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _load(folder: Path, read: Mapping[str, Any]) -> PreparedData:
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    parts = {}
    for name, known in meta["parts"].items():
        columns = {column: Ragged(*_arrays(folder, f"{name}.{column}")) for column in known["columns"]}
        texts = folder / f"{name}.texts.json"
        pairs = json.loads(texts.read_text(encoding="utf-8")) if texts.is_file() else []
        parts[name] = Part(known["kind"], columns, known["n_bytes"], tuple(Pair(*pair) for pair in pairs))
    tokenizer = Tokenizer.from_file(folder / "tokenizer.json")
    return PreparedData(tokenizer, parts, tuple(meta["labels"]), meta["fingerprint"], {**read, **meta["report"]})


def _arrays(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    ids, ends = (np.load(folder / f"{name}.{kind}.npy", mmap_mode="r") for kind in ("ids", "ends"))
    return ids, ends
