"""The tokenizer of a run: text to ids and back, with special tokens that text can never produce."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import tokenizers

from tfexp.errors import DataError

Special = Literal["pad", "unk", "bos", "eos", "mask", "sep"]
DEFAULT_SPECIALS: list[Special] = ["pad", "unk", "bos", "eos"]


def special_text(name: str) -> str:
    """`eos` -> `<eos>`: how a special token is written in a vocabulary."""
    return f"<{name}>"


def special_texts(names: Sequence[str]) -> list[str]:
    """How the special tokens of a vocabulary are written, in its order; each may be listed once."""
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"data.tokenizer.specials: '{name}' is listed twice")
    return [special_text(name) for name in names]


class TokenizerRecipe:
    """The contract of the slot `tokenizer`: how to train one, and a fast way to encode if there is one."""

    def train(self, documents: Sequence[str]) -> tokenizers.Tokenizer:
        """Train on the training part."""
        raise NotImplementedError

    def encode(self, tokenizer: "Tokenizer", documents: Sequence[str]) -> list[np.ndarray]:
        """Ids of each document; an override must give what the library gives."""
        return [np.array(e.ids, dtype=np.int64) for e in tokenizer.backend.encode_batch_fast(list(documents))]


class Tokenizer:
    """A trained tokenizer of the tokenizers library.

    Args:
        backend: The tokenizer; its special tokens are those added as such.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        # "<eos>" inside a text is four characters like any others.
        backend.encode_special_tokens = True
        backend.no_padding()
        backend.no_truncation()
        self.backend = backend
        self.vocab_size = backend.get_vocab_size()

    @classmethod
    def from_file(cls, path: Path) -> "Tokenizer":
        """Load a `tokenizer.json`."""
        if not path.is_file():
            raise DataError(f"there is no tokenizer file {path}")
        try:
            return cls(tokenizers.Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises nothing more precise
            raise DataError(f"{path} is no tokenizer file: {error}") from error

    def special_id(self, name: Special) -> int | None:
        """The id of a special token, or None if this tokenizer has none of that name."""
        return self.backend.token_to_id(special_text(name))

    def encode(self, text: str) -> list[int]:
        """Ids of one text; raises DataError for a character that the vocabulary has no token for."""
        try:
            ids = self.backend.encode(text).ids
        except Exception as error:  # the library raises nothing narrower
            stranger = next((c for c in text if self.backend.token_to_id(c) is None), text[:20])
            raise DataError(f"the tokenizer has no token for {stranger!r}, and no 'unk' either") from error
        if text and not ids:
            raise DataError(f"the tokenizer knows none of the characters of {text[:20]!r}")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=True)

    def to_json(self) -> str:
        return self.backend.to_str()

    def fingerprint(self) -> str:
        return sha256(self.to_json().encode()).hexdigest()
