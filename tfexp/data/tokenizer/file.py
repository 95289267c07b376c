"""A tokenizer that is there already."""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, get_args

from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from tfexp.data.tokenization import Special, Tokenizer, TokenizerRecipe, byte_names, read_backend, special_template
from tfexp.errors import DataError, nearest
from tfexp.registry import register
from tfexp.schema import NO_EFFECT

SPELLINGS: dict[Special, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>"),
    "unk": ("<unk>", "[UNK]", "<|unk|>"),
    "bos": ("<bos>", "<s>", "[BOS]", "[CLS]", "<cls>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("<eos>", "</s>", "[EOS]", "[SEP]", "<sep>", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]", "<|mask|>"),
    "sep": ("<sep>", "[SEP]", "</s>"),
}
"""How published tokenizers write them, the most telling first: of BERT, RoBERTa, T5, GPT-2, Llama, CLIP, ..."""


@register("tokenizer", "file")
class FileTokenizer(TokenizerRecipe):
    """A `tokenizer.json` of the tokenizers library, as it is: nothing is trained.

    What the file would add around a text, pad or cut off is left to the task. Its special tokens are
    found by their usual spellings, such as `[PAD]` or `</s>`; one token may serve as several. Where
    text could produce a special token, because it is an ordinary entry of the vocabulary as well, its
    spelling is cut after the first character.

    Args:
        path: The file.
        pad: How the file writes it; null = find the usual spellings, or do without.
        unk: The same for unknown text; null = also what the file's model has for it.
        bos: The same for the begin of a text; BERT's `[CLS]`.
        eos: The same for the end of a text; BERT's `[SEP]`.
        mask: The same for what is to be predicted.
        sep: The same for what stands between two texts.
    """

    remedy = "choose a file with an unknown token, or name it with data.tokenizer.unk"

    def __init__(
        self,
        *,
        path: Annotated[str, NO_EFFECT],
        pad: str | None = None,
        unk: str | None = None,
        bos: str | None = None,
        eos: str | None = None,
        mask: str | None = None,
        sep: str | None = None,
    ) -> None:
        self.path = Path(path).expanduser()
        named = zip(get_args(Special), (pad, unk, bos, eos, mask, sep), strict=True)
        self.named = {name: text for name, text in named if text is not None}

    def fingerprint(self) -> str:
        return sha256(self._bytes()).hexdigest()

    def train(self, documents: Sequence[str]) -> LibraryTokenizer:
        where = f"data.tokenizer.path: {self.path}"
        library = read_backend(self._bytes(), where)
        texts = self._special_texts(library)
        library.add_special_tokens(sorted(set(texts.values())))  # those that are there keep their ids
        _settle_unknown(library, texts.get("unk"), where)
        _keep_apart(library, texts.get("unk"), where)
        ids = library.get_vocab()
        library.post_processor = special_template({name: (ids[text], text) for name, text in texts.items()})
        return library

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise DataError(f"data.tokenizer.path: cannot read {self.path}: {error.strerror or error}") from error

    def _special_texts(self, library: LibraryTokenizer) -> dict[str, str]:
        """How the file writes each special token that it has."""
        vocabulary = library.get_vocab()
        added = [token.content for token in library.get_added_tokens_decoder().values()]
        for name, text in self.named.items():
            if text not in vocabulary:
                raise DataError(
                    f"data.tokenizer.{name}: {self.path} has no token '{text}'; {nearest(text, added, label='it adds')}"
                )
        usual = {name: next((t for t in texts if t in added), None) for name, texts in SPELLINGS.items()}
        tokenizer = Tokenizer(library)  # knows the names that a run of this tokenizer has noted
        noted = {name: library.id_to_token(i) for name in SPELLINGS if (i := tokenizer.special_id(name)) is not None}
        found = {name: text for name, text in {**usual, **noted, **self.named}.items() if text is not None}
        own = _own_unknown(library)
        if own is not None and self.named.get("unk", own) != own:
            raise DataError(
                f"data.tokenizer.unk: the model in {self.path} writes it '{own}'; set data.tokenizer.unk=null"
            )
        return found if own is None else {**found, "unk": own}


def _own_unknown(library: LibraryTokenizer) -> str | None:
    """What the model gives for text that it does not know, if there is such text."""
    model, vocabulary = json.loads(library.to_str())["model"], library.get_vocab()
    if _has_every_byte(vocabulary):
        return None
    if model["type"] == "Unigram":
        return None if model["unk_id"] is None else model["vocab"][model["unk_id"]][0]
    return model["unk_token"] if model["unk_token"] in vocabulary else None


def _has_every_byte(vocabulary: Mapping[str, int]) -> bool:
    return all(name in vocabulary for name in byte_names())


def _settle_unknown(library: LibraryTokenizer, unknown: str | None, where: str) -> None:
    """See to it that the model neither drops text nor chooses at random."""
    model = library.model
    if isinstance(model, models.BPE):
        model.dropout = None
    if not isinstance(model, models.Unigram) and not _has_every_byte(library.get_vocab()):
        if unknown in library.get_vocab(with_added_tokens=False):
            model.unk_token = unknown
        elif isinstance(model, models.BPE) and not model.byte_fallback:
            raise DataError(f"{where} would leave out what it does not know; {FileTokenizer.remedy}")


def _keep_apart(library: LibraryTokenizer, unknown: str | None, where: str) -> None:
    """Cut the spellings of special tokens after their first character, where text would produce the token."""
    library.encode_special_tokens = True
    special = [token.content for token in library.get_added_tokens_decoder().values() if token.special]
    produced = [text for text in special if text != unknown and _produces(library, text)]
    if not produced:
        return
    # After all else that takes a text apart, so that nothing else changes.
    cut = "|".join(f"{re.escape(text[0])}(?={re.escape(text[1:])})" for text in produced)
    splitters = [library.pre_tokenizer] if library.pre_tokenizer else []
    library.pre_tokenizer = pre_tokenizers.Sequence([*splitters, pre_tokenizers.Split(Regex(cut), behavior="isolated")])
    for text in produced:
        if _produces(library, text):
            raise DataError(f"{where}: text that holds '{text}' would produce this special token; choose another file")


def _produces(library: LibraryTokenizer, special: str) -> bool:
    """Whether a text that holds the spelling of a special token becomes that token."""
    index = library.token_to_id(special)
    for text in (special, f" {special} ", f"a{special}a"):
        try:
            if index in library.encode(text, add_special_tokens=False).ids:
                return True
        except Exception:  # the library raises nothing narrower where a character is unknown
            continue
    return False
