"""WordPiece."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as LibraryTokenizer

from tfexp.data.tokenization import SPACE, Special, TokenizerRecipe, special_text, special_texts
from tfexp.errors import DataError
from tfexp.registry import register
from tfexp.schema import Range

INSIDE = "##"  # before a piece that continues a word
UNKNOWN = special_text("unk")
PUNCTUATION = r"\p{P}$+<=>^`|~"  # as BERT's: Unicode's, and every sign of ASCII
WORD = rf"[^{SPACE}{PUNCTUATION}]{{1,100}}"  # longer words are cut; the library would make them unknown


@register("tokenizer", "wordpiece")
class WordPieceTokenizer(TokenizerRecipe):
    """Cut each word into the longest pieces of the vocabulary, from the left; `##` marks those inside a word.

    Words end at spaces, and each punctuation sign is a word of its own, as in BERT. The vocabulary
    starts from the characters of the training part, the most frequent first as far as there is room,
    each with and without `##`; any other character is unknown. Decoding joins words with single spaces.

    Args:
        vocab_size: Tokens in all, special ones included.
        specials: Special tokens, first in the vocabulary; null = pad unk bos eos and what the task needs.
            Without `unk`, a character that is not in the vocabulary is an error.

    Source: Schuster and Nakajima, ICASSP 2012, section 3; Wu et al., 2016, arXiv:1609.08144, section 4.1;
        `##` and punctuation: Devlin et al., NAACL 2019, arXiv:1810.04805.
    Differs: pieces are added by the frequency of the pair, as in byte-pair encoding, not by the gain in
        likelihood; an unknown character is one `unk` in its word, where BERT drops the whole word; case
        and accents are kept.
    """

    def __init__(
        self, *, vocab_size: Annotated[int, Range(ge=8)] = 1024, specials: list[Special] | None = None
    ) -> None:
        self.vocab_size = vocab_size
        self.specials = special_texts(specials)

    def train(self, documents: Sequence[str]) -> LibraryTokenizer:
        alphabet = self._alphabet(documents)
        # Unseen punctuation is a word of its own, and so unknown without further ado.
        unseen = Regex(f"[^{SPACE}{PUNCTUATION}{''.join(map(_escape, alphabet))}]")
        knows_unknown = UNKNOWN in self.specials
        library = LibraryTokenizer(models.WordPiece(self._learn(documents, alphabet, unseen), unk_token=UNKNOWN))
        if knows_unknown:
            # First of all a literal `<unk>` loses its meaning: `<` ends a word, so that a space changes nothing.
            library.normalizer = normalizers.Sequence(
                [normalizers.Replace(UNKNOWN, f"{UNKNOWN[0]} {UNKNOWN[1:]}"), normalizers.Replace(unseen, UNKNOWN)]
            )
        library.pre_tokenizer = _words(knows_unknown)
        # Where the first token is a piece from inside a word, its mark goes too.
        library.decoder = decoders.Sequence(
            [decoders.WordPiece(INSIDE, cleanup=False), decoders.Fuse(), decoders.Replace(Regex(f"^{INSIDE}"), "")]
        )
        library.add_special_tokens([AddedToken(token, special=True) for token in self.specials])
        return library

    def _alphabet(self, documents: Iterable[str]) -> list[str]:
        counts: Counter[str] = Counter()
        for document in documents:
            counts.update(document)
        room = (self.vocab_size - len(self.specials)) // 2
        seen = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
        if room < 1 or not seen:
            raise DataError(
                f"data.tokenizer.vocab_size: no character of the training part is left; {self.vocab_size} tokens "
                f"must hold {len(self.specials)} special ones and each character twice"
            )
        return sorted(seen[:room])

    def _learn(self, documents: Sequence[str], alphabet: Sequence[str], unseen: Regex) -> dict[str, int]:
        """The vocabulary, by pairs as in byte-pair encoding."""
        library = LibraryTokenizer(models.BPE(continuing_subword_prefix=INSIDE))
        library.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(unseen, behavior="removed"), _words(with_unknown=False)]
        )
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            # The library numbers the pieces inside words as it meets them in a hash table, and so breaks ties
            # differently in each process; what is listed here has its number before.
            special_tokens=[*self.specials, *alphabet, *(INSIDE + c for c in alphabet)],
            limit_alphabet=0,
            continuing_subword_prefix=INSIDE,
            show_progress=False,
        )
        library.train_from_iterator(documents, trainer)
        return library.get_vocab()


def _words(with_unknown: bool) -> pre_tokenizers.PreTokenizer:
    """Words and punctuation signs; an unknown character begins a word, so that what follows continues it."""
    word = f"(?:{UNKNOWN})?{WORD}|{UNKNOWN}" if with_unknown else WORD
    return pre_tokenizers.Split(Regex(f"{word}|[{PUNCTUATION}]"), behavior="removed", invert=True)


def _escape(character: str) -> str:
    return f"\\x{{{ord(character):x}}}"
