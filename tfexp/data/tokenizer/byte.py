"""One token per byte of UTF-8."""

from collections.abc import Sequence

import numpy as np
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from tfexp.data.tokenization import Special, Tokenizer, TokenizerRecipe, byte_names, special_texts
from tfexp.registry import register


@register("tokenizer", "byte")
class ByteTokenizer(TokenizerRecipe):
    """The 256 bytes: no text is unknown, nothing is learned.

    Args:
        specials: Special tokens, first in the vocabulary; null = pad unk bos eos and what the task needs.
            `unk` is never used.
    """

    def __init__(self, *, specials: list[Special] | None = None) -> None:
        self.specials = special_texts(specials)

    def train(self, documents: Sequence[str]) -> LibraryTokenizer:
        names = byte_names()
        vocabulary = {token: i for i, token in enumerate([*self.specials, *names])}
        library = LibraryTokenizer(models.BPE(vocabulary, []))
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.decoder = decoders.ByteLevel()
        library.add_special_tokens([AddedToken(token, special=True) for token in self.specials])
        return library

    def encode(self, tokenizer: Tokenizer, documents: Sequence[str]) -> list[np.ndarray]:
        # Ids are bytes plus the number of specials; the library takes about a second per megabyte here.
        shift = tokenizer.vocab_size - 256
        return [np.frombuffer(d.encode(), dtype=np.uint8).astype(np.int64) + shift for d in documents]
