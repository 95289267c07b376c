"""Byte-level byte-pair encoding."""

from collections.abc import Sequence
from typing import Annotated

from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers

from tfexp.data.tokenization import Special, TokenizerRecipe, special_texts
from tfexp.registry import register
from tfexp.schema import Range


@register("tokenizer", "bpe")
class BPETokenizer(TokenizerRecipe):
    """Merge the most frequent pair of neighbouring tokens until the vocabulary is full.

    Starts from the 256 bytes, so no text is unknown; merges stay inside words, as in GPT-2.

    Args:
        vocab_size: Tokens in all, special ones included; at least 256 and the specials.
        specials: Special tokens, first in the vocabulary; null = pad unk bos eos and what the task needs.

    Source: Sennrich et al., 2016, arXiv:1508.07909; byte level: Radford et al., 2019, section 2.2.
    """

    def __init__(
        self, *, vocab_size: Annotated[int, Range(ge=264)] = 1024, specials: list[Special] | None = None
    ) -> None:
        self.vocab_size = vocab_size
        self.specials = special_texts(specials)

    def train(self, documents: Sequence[str]) -> LibraryTokenizer:
        library = LibraryTokenizer(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            special_tokens=self.specials,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        library.train_from_iterator(documents, trainer)
        return library
