"""Where words begin among the tokens of a vocabulary."""

import json
import unicodedata
from typing import get_args

import numpy as np

from tfexp.data.tokenization import Special, Tokenizer

SPACE_BYTES = "ĠĊĉč"  # how a byte-level vocabulary writes space, newline, tab and carriage return
METASPACE = "▁"
CONTINUES = "##"


def holds_space(tokenizer: Tokenizer) -> bool:
    """Whether a word's token also holds the space before it; false of whole words, characters and single bytes."""
    sign = {"byte_level": SPACE_BYTES[0], "metaspace": METASPACE}.get(_kind(tokenizer) or "")
    tokens = tokenizer.backend.get_vocab()
    return sign is not None and any(token[:1] == sign and token.strip(SPACE_BYTES + METASPACE) for token in tokens)


def word_flags(tokenizer: Tokenizer) -> np.ndarray:
    """(2, V) bool: tokens that begin a word, and tokens that are a word of their own (punctuation).

    A token continues the word before it unless it begins with a space, or unless one of the two is
    punctuation or a special token. How a space is written is found from the vocabulary's pre-tokenizer; where there is
    none to be found, as with whole words and single characters, every token begins a word.
    """
    kind = _kind(tokenizer)
    begins = np.ones(tokenizer.vocab_size, dtype=bool)
    alone = np.zeros(tokenizer.vocab_size, dtype=bool)
    for token, index in tokenizer.backend.get_vocab().items():
        if kind == "byte_level":
            begins[index] = token[0] in SPACE_BYTES
        elif kind == "metaspace":
            begins[index] = token.startswith(METASPACE)
        elif kind == "wordpiece":
            begins[index] = not token.startswith(CONTINUES)
        text = token.strip(SPACE_BYTES + METASPACE).removeprefix(CONTINUES)
        alone[index] = bool(text) and all(unicodedata.category(c)[0] in "PS" and ord(c) < 128 for c in text)
    # A document may begin without a space after the token that ends the one before it.
    specials = (tokenizer.special_id(name) for name in get_args(Special))
    alone[[index for index in specials if index is not None]] = True
    return np.stack((begins, alone))


def _kind(tokenizer: Tokenizer) -> str | None:
    """How a vocabulary writes that a token begins a word, or continues one; None = it does not."""
    settings = json.loads(tokenizer.to_json())
    said = json.dumps([settings.get("pre_tokenizer"), settings.get("model", {}).get("continuing_subword_prefix")])
    signs = {"byte_level": '"ByteLevel"', "metaspace": '"Metaspace"', "wordpiece": f'"{CONTINUES}"'}
    return next((kind for kind, sign in signs.items() if sign in said), None)
