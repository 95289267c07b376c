"""Encode a source once, into a memory-mapped cache keyed by source, tokenizer and settings."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from filelock import FileLock

from tfexp.data.corpus import Corpus
from tfexp.data.tokenization import Tokenizer, TokenizerRecipe
from tfexp.errors import DataError, RunError
from tfexp.files import fingerprint, write_json, write_text
from tfexp.registry import create

CACHE_VERSION = 1  # of the layout below


@dataclass(frozen=True)
class PreparedData:
    """Encoded parts and what a record says of them.

    Args:
        tokenizer: Trained on the training part.
        parts: Token ids of `train`, `val` and, if there is one, `test`; memory-mapped.
        n_bytes: Length of each part's text in UTF-8.
        fingerprint: Of the documents and their split.
        report: Files, documents, tokens, bytes, unknown tokens.
    """

    tokenizer: Tokenizer
    parts: dict[str, np.ndarray]
    n_bytes: dict[str, int]
    fingerprint: str
    report: dict[str, Any]


def prepare(data: Mapping[str, Any], cache: Path) -> PreparedData:
    """Read, split, tokenize and encode; from the cache if that was done before.

    Args:
        data: The checked `data` node.
        cache: Folder of all encoded sets.
    """
    corpus, source_fingerprint = _read(json.dumps(data, sort_keys=True), _state_of_files(data))
    key = fingerprint(
        {
            "layout": CACHE_VERSION,
            "source": source_fingerprint,
            "tokenizer": data["tokenizer"],
            "tokenizers": tokenizers.__version__,
        }
    )[:16]
    folder = cache / key
    _make_folder(cache)
    with FileLock(cache / f".{key}.lock"):
        try:
            return _load(folder)
        except (OSError, ValueError, KeyError, DataError):  # not there yet, or damaged
            shutil.rmtree(folder, ignore_errors=True)
            _encode(corpus, source_fingerprint, data["tokenizer"], folder)
    return _load(folder)


def encode_with(tokenizer: Tokenizer, data: Mapping[str, Any]) -> PreparedData:
    """The evaluation parts of a source, encoded with a vocabulary that is there already."""
    corpus, source_fingerprint = _read(json.dumps(data, sort_keys=True), _state_of_files(data))
    recipe: TokenizerRecipe = create("tokenizer", data["tokenizer"], {})
    documents = {name: texts for name, texts in corpus.parts().items() if texts and name != "train"}
    parts = {name: _join(recipe.encode(tokenizer, texts), tokenizer) for name, texts in documents.items()}
    n_bytes = {name: sum(len(text.encode()) for text in texts) for name, texts in documents.items()}
    return PreparedData(tokenizer, parts, n_bytes, source_fingerprint, dict(corpus.report))


@lru_cache(maxsize=2)
def _read(data: str, state: tuple[Any, ...]) -> tuple[Corpus, str]:
    """Documents of a source; read once per process as long as the files named stay as they are."""
    corpus: Corpus = create("data", json.loads(data), {}).read()
    return corpus, corpus.fingerprint()


def _state_of_files(data: Mapping[str, Any]) -> tuple[Any, ...]:
    names = [n for key in ("train", "val", "test") for n in _listed(data.get(key))]
    paths = [Path(n).expanduser() for n in names]
    return tuple((str(p), p.stat().st_mtime_ns, p.stat().st_size) if p.is_file() else object() for p in paths)


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"outputs: cannot write to {folder}: {error.strerror or error}") from error


def _encode(corpus: Corpus, source_fingerprint: str, choice: Mapping[str, Any], folder: Path) -> None:
    recipe: TokenizerRecipe = create("tokenizer", choice, {})
    tokenizer = Tokenizer(recipe.train(corpus.train))
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        meta: dict[str, Any] = {"fingerprint": source_fingerprint, "report": dict(corpus.report), "n_bytes": {}}
        for name, documents in corpus.parts().items():
            if documents:
                ids = _join(recipe.encode(tokenizer, documents), tokenizer)
                np.save(temporary / f"{name}.npy", ids)
                meta["n_bytes"][name] = sum(len(d.encode()) for d in documents)
                meta["report"] |= _count(name, documents, ids, tokenizer, meta["n_bytes"][name])
        write_text(temporary / "tokenizer.json", tokenizer.to_json())
        write_json(temporary / "meta.json", meta)
        temporary.chmod(0o755)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _join(encoded: list[np.ndarray], tokenizer: Tokenizer) -> np.ndarray:
    """One row of ids, with the end-of-sequence token after each document if there is one."""
    end = tokenizer.special_id("eos")
    mark = [] if end is None else [np.array([end])]
    pieces = [piece for ids in encoded for piece in (ids, *mark)]
    return np.concatenate(pieces).astype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)


def _count(
    name: str, documents: tuple[str, ...], ids: np.ndarray, tokenizer: Tokenizer, n_bytes: int
) -> dict[str, float]:
    unknown = tokenizer.special_id("unk")
    return {
        f"{name}_documents": len(documents),
        f"{name}_tokens": len(ids),
        f"{name}_bytes": n_bytes,
        f"{name}_unknown_rate": 0.0 if unknown is None else float((ids == unknown).mean()),
    }


def _load(folder: Path) -> PreparedData:
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    parts = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in meta["n_bytes"]}
    tokenizer = Tokenizer.from_file(folder / "tokenizer.json")
    return PreparedData(tokenizer, parts, meta["n_bytes"], meta["fingerprint"], meta["report"])
