"""One token per character."""

from collections.abc import Sequence

import numpy as np
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from tfexp.data.tokenization import Special, Tokenizer, TokenizerRecipe, special_text, special_texts
from tfexp.errors import DataError
from tfexp.registry import register


@register("tokenizer", "char")
class CharTokenizer(TokenizerRecipe):
    """A vocabulary of the characters of the training part, in order of their code points.

    Args:
        specials: Special tokens, first in the vocabulary; null = pad unk bos eos and what the task needs.
            Without `unk`, a character that is not in the training part is an error; without `eos`,
            documents are joined without a mark.
    """

    def __init__(self, *, specials: list[Special] | None = None) -> None:
        self.specials = special_texts(specials)

    def train(self, documents: Sequence[str]) -> LibraryTokenizer:
        characters = sorted({character for document in documents for character in set(document)})
        vocabulary = {token: i for i, token in enumerate([*self.specials, *characters])}
        unknown = special_text("unk")
        library = LibraryTokenizer(models.WordLevel(vocabulary, unk_token=unknown if unknown in vocabulary else ""))
        library.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        library.decoder = decoders.Fuse()
        library.add_special_tokens([AddedToken(token, special=True) for token in self.specials])
        return library

    def encode(self, tokenizer: Tokenizer, documents: Sequence[str]) -> list[np.ndarray]:
        # A table over code points: the library takes about a second per megabyte here.
        vocabulary = {t: i for t, i in tokenizer.backend.get_vocab(with_added_tokens=False).items() if len(t) == 1}
        unknown = tokenizer.special_id("unk")
        table = np.full(0x110000, -1 if unknown is None else unknown, dtype=np.int64)
        for character, index in vocabulary.items():
            table[ord(character)] = index
        encoded = [table[np.frombuffer(d.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)] for d in documents]
        for document, ids in zip(documents, encoded, strict=True):
            if unknown is None and (ids < 0).any():
                stranger = document[int(np.argmax(ids < 0))]
                raise DataError(
                    f"data.tokenizer: the character {stranger!r} is not in the training part; "
                    "add 'unk' to data.tokenizer.specials"
                )
        return encoded
