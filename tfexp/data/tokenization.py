"""The tokenizer of a run: text to ids and back, with special tokens that text can never produce."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import tokenizers
from tokenizers import processors

from tfexp.errors import DataError

Special = Literal["pad", "unk", "bos", "eos", "mask", "sep"]
DEFAULT_SPECIALS: list[Special] = ["pad", "unk", "bos", "eos"]
SPACE = r"\s\x1c-\x1f"
"""Inside a class of a regular expression: what str.split() splits at; the library's `\\s` lacks four separators."""


def special_text(name: str) -> str:
    """`eos` -> `<eos>`: how a special token is written in a vocabulary."""
    return f"<{name}>"


def special_texts(names: Sequence[Special] | None) -> list[str]:
    """How the special tokens of a vocabulary are written, in its order; each may be listed once; None = the usual."""
    names = DEFAULT_SPECIALS if names is None else names
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"data.tokenizer.specials: '{name}' is listed twice")
    return [special_text(name) for name in names]


def byte_names() -> list[str]:
    """How byte-level vocabularies write byte 0, 1, ... 255: printable bytes as themselves, others from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


class TokenizerRecipe:
    """The contract of the slot `tokenizer`: how to train one, and a fast way to encode if there is one."""

    remedy = "add 'unk' to data.tokenizer.specials"
    """What to do about text that the vocabulary has no token for."""

    def fingerprint(self) -> str | None:
        """Hash of what decides the vocabulary besides the training part and the keys: a file; None = nothing."""
        return None

    def train(self, documents: Sequence[str]) -> tokenizers.Tokenizer:
        """Train on the training part."""
        raise NotImplementedError

    def encode(self, tokenizer: "Tokenizer", documents: Sequence[str]) -> list[np.ndarray]:
        """Ids of each document; an override must give what the library gives."""
        try:
            encodings = tokenizer.backend.encode_batch_fast(list(documents), add_special_tokens=False)
        except Exception as error:  # the library raises nothing narrower, and does not say where
            strangers = (tokenizer.stranger(document) for document in documents)
            raise DataError(no_token(next((s for s in strangers if s), ""), self.remedy)) from error
        return [np.array(e.ids if d else [], dtype=np.int64) for d, e in zip(documents, encodings, strict=True)]


def no_token(stranger: str, remedy: str) -> str:
    """The message for text that a vocabulary without an unknown token cannot hold."""
    return f"data.tokenizer: no token for {stranger!r}, and no 'unk' to stand for it; {remedy}"


class Tokenizer:
    """A trained tokenizer of the tokenizers library.

    Args:
        backend: The tokenizer. Its special tokens are those added as such and written `<pad>`, `<eos>`, ...;
            where they are written otherwise, the special tokens of its template say which is which.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        # "<eos>" inside a text is four characters like any others.
        backend.encode_special_tokens = True
        backend.no_padding()
        backend.no_truncation()
        self.backend = backend
        # One more than the largest id: a file may leave ids out.
        self.vocab_size = 1 + max(backend.get_vocab().values(), default=-1)
        self._special_ids = _special_ids(backend)

    @classmethod
    def from_file(cls, path: Path) -> "Tokenizer":
        """Load a `tokenizer.json`."""
        if not path.is_file():
            raise DataError(f"there is no tokenizer file {path}")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from error
        return cls(read_backend(data, str(path)))

    def special_id(self, name: Special) -> int | None:
        """The id of a special token, or None if this tokenizer has none of that name."""
        return self._special_ids.get(name)

    def encode(self, text: str) -> list[int]:
        """Ids of one text; raises DataError for a piece of it that the vocabulary has no token for."""
        if not text:
            return []
        try:
            ids = self.backend.encode(text, add_special_tokens=False).ids
        except Exception as error:  # the library raises nothing narrower
            stranger = self.stranger(text) or text[:20]
            raise DataError(f"the tokenizer has no token for {stranger!r}, and no 'unk' either") from error
        if text.strip() and not ids:
            raise DataError(f"the tokenizer knows none of the characters of {text[:20]!r}")
        return ids

    def stranger(self, text: str) -> str | None:
        """The first piece of a text that the vocabulary has no token for: a character, a word."""
        normalizer, splitter = self.backend.normalizer, self.backend.pre_tokenizer
        text = normalizer.normalize_str(text) if normalizer else text
        pieces = [piece for piece, _ in splitter.pre_tokenize_str(text)] if splitter else [text]
        return next((piece[:20] for piece in pieces if not _knows(self.backend.model, piece)), None)

    def decode(self, ids: Sequence[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=True)

    def to_json(self) -> str:
        return self.backend.to_str()

    def fingerprint(self) -> str:
        return sha256(self.to_json().encode()).hexdigest()


def read_backend(data: bytes, where: str) -> tokenizers.Tokenizer:
    """The tokenizer that the bytes of a `tokenizer.json` hold; `where` starts the message if they hold none."""
    try:
        return tokenizers.Tokenizer.from_buffer(data)
    except BaseException as error:  # the library raises nothing narrower, and its panics are no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        raise DataError(f"{where} is no tokenizer file: {' '.join(str(error).split())}") from error


def special_template(ids: Mapping[str, tuple[int, str]]) -> processors.TemplateProcessing:
    """A template that adds nothing to a text and notes which id and spelling each special token has."""
    tokens = [{"id": name, "ids": [index], "tokens": [text]} for name, (index, text) in ids.items()]
    return processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=tokens)


def _special_ids(backend: tokenizers.Tokenizer) -> dict[str, int]:
    added = {token.content: i for i, token in backend.get_added_tokens_decoder().items() if token.special}
    found = {name: added[special_text(name)] for name in get_args(Special) if special_text(name) in added}
    if isinstance(backend.post_processor, processors.TemplateProcessing):
        noted = json.loads(backend.post_processor.__getstate__())["special_tokens"]
        found |= {name: token["ids"][0] for name, token in noted.items() if name in get_args(Special)}
    return found


def _knows(model: tokenizers.models.Model, piece: str) -> bool:
    try:
        model.tokenize(piece)
    except Exception:  # the library raises nothing narrower
        return False
    return True
