"""One token per word between spaces."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from tfexp.data.tokenization import SPACE, Special, Tokenizer, TokenizerRecipe, no_token, special_text, special_texts
from tfexp.errors import DataError
from tfexp.registry import register
from tfexp.schema import Range

UNKNOWN = special_text("unk")


@register("tokenizer", "word")
class WordTokenizer(TokenizerRecipe):
    """The words of the training part, as they stand between spaces, the most frequent first.

    Decoding joins words with single spaces. A word that is written like a special token, such as
    `<eos>`, is read as the three words `<`, `eos` and `>`; only `<unk>` is what it says.

    Args:
        max_vocab: Tokens in all, special ones included; null = every word.
        min_count: Words that the training part has less often are unknown.
        specials: Special tokens, first in the vocabulary; null = pad unk bos eos and what the task needs.
            Without `unk`, a word that is not in the vocabulary is an error.
    """

    def __init__(
        self,
        *,
        max_vocab: Annotated[int | None, Range(ge=1)] = None,
        min_count: Annotated[int, Range(ge=1)] = 1,
        specials: list[Special] | None = None,
    ) -> None:
        self.max_vocab, self.min_count = max_vocab, min_count
        self.specials = special_texts(specials)

    def train(self, documents: Sequence[str]) -> LibraryTokenizer:
        normalizer = _normalizer(self.specials)
        counts = Counter(word for document in documents for word in _words(document, normalizer))
        words = sorted(counts.keys() - {*self.specials}, key=lambda w: (-counts[w], w))
        kept = [word for word in words if counts[word] >= self.min_count]
        if self.max_vocab is not None:
            kept = kept[: max(0, self.max_vocab - len(self.specials))]
        if not kept:
            raise DataError(
                f"data.tokenizer: none of the {len(words)} words of the training part is left; "
                f"lower min_count={self.min_count} or raise max_vocab={self.max_vocab}"
            )
        vocabulary = {token: i for i, token in enumerate([*self.specials, *kept])}
        library = LibraryTokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN if UNKNOWN in self.specials else ""))
        library.normalizer = normalizer
        library.pre_tokenizer = pre_tokenizers.Split(Regex(f"[{SPACE}]+"), behavior="removed")
        library.add_special_tokens([AddedToken(token, special=True) for token in self.specials])
        return library

    def encode(self, tokenizer: Tokenizer, documents: Sequence[str]) -> list[np.ndarray]:
        # Words looked up in a dict: the library takes several times as long.
        ids = _Ids(tokenizer.backend.get_vocab())
        ids.unknown = tokenizer.special_id("unk")
        read = tokenizer.backend.normalizer
        words = (_words(document, read) for document in documents)
        return [np.fromiter(map(ids.__getitem__, row), dtype=np.int64, count=len(row)) for row in words]


class _Ids(dict[str, int]):
    """Ids of words; any other word is unknown, or an error."""

    unknown: int | None = None

    def __missing__(self, word: str) -> int:
        if self.unknown is None:
            raise DataError(no_token(word[:20], TokenizerRecipe.remedy))
        return self.unknown


def _normalizer(specials: Sequence[str]) -> normalizers.Normalizer | None:
    """Takes words apart that are written like special tokens, so that text never produces one."""
    reserved = [text for text in specials if text != UNKNOWN]
    if not reserved:
        return None
    replaced = [
        normalizers.Replace(Regex(f"(?<![^{SPACE}]){re.escape(text)}(?![^{SPACE}])"), f"< {text[1:-1]} >")
        for text in reserved
    ]
    return normalizers.Sequence(replaced)


def _words(document: str, normalizer: normalizers.Normalizer | None) -> list[str]:
    # Few documents hold a `<` at all, and the library is slow at looking for one.
    if normalizer is not None and "<" in document:
        document = normalizer.normalize_str(document)
    return document.split()
