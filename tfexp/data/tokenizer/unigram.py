"""The unigram language model of pieces."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import numpy as np
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from tfexp.data.tokenization import Special, TokenizerRecipe, byte_names, special_texts
from tfexp.registry import register
from tfexp.schema import Range

LONGEST_PIECE = 16  # bytes
LONGEST_WORD = 32  # bytes; longer ones are cut for training, so that no probability underflows
LEAST = 1e-9  # probability of a byte that the training part lacks
MOST_SEEDS = 1_000_000  # pieces to begin with
EM_STEPS = 2  # per round of pruning, as in SentencePiece
KEPT = 0.8  # share of the pieces that survives a round, as in the paper


@register("tokenizer", "unigram")
class UnigramTokenizer(TokenizerRecipe):
    """Cut a text into its most probable sequence of pieces, where pieces are drawn independently.

    Starts from many frequent pieces; while there are too many, fits their probabilities by expectation
    maximisation and drops those whose loss lowers the likelihood of the training part the least. The
    256 bytes always stay, so no text is unknown; pieces stay inside words, as in GPT-2.

    Args:
        vocab_size: Tokens in all, special ones included; at least 256 and the specials.
        specials: Special tokens, first in the vocabulary; null = pad unk bos eos and what the task needs.
            `unk` is never used.

    Source: Kudo, ACL 2018, arXiv:1804.10959, section 3.2; bytes and words: Radford et al., 2019, section 2.2.
    Differs: pieces of bytes, at most 16, not of characters. The loss of a piece is that of the words it is
        in, without fitting anew. The library's own trainer is not used: it adds up in the order of a hash
        table, and gives another vocabulary in each process.
    """

    def __init__(
        self, *, vocab_size: Annotated[int, Range(ge=264)] = 1024, specials: list[Special] | None = None
    ) -> None:
        self.vocab_size = vocab_size
        self.specials = special_texts(specials)

    def train(self, documents: Sequence[str]) -> LibraryTokenizer:
        splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
        counts = Counter(word for document in documents for word, _ in splitter.pre_tokenize_str(document))
        pieces = _learn(counts, self.vocab_size - len(self.specials))
        vocabulary = [*((token, math.log(LEAST)) for token in self.specials), *pieces]
        library = LibraryTokenizer(models.Unigram(vocabulary, None, False))
        library.pre_tokenizer = splitter
        library.decoder = decoders.ByteLevel()
        library.add_special_tokens([AddedToken(token, special=True) for token in self.specials])
        return library


def _learn(counts: Counter[str], size: int) -> list[tuple[str, float]]:
    """Pieces and their log probabilities, the most probable first."""
    names = byte_names()
    lattice, probability = _seeds(_cut_words(counts, names))
    while True:
        used = lattice.posterior(probability)
        for _ in range(EM_STEPS):
            expected = lattice.per_piece(used)
            probability = np.maximum(expected / max(1.0, expected.sum()), LEAST)
            used = lattice.posterior(probability)
        if len(probability) <= size:
            break
        # Without the piece, the probability of a word falls by the share of the ways to cut it that use the piece.
        loss = lattice.per_piece(-np.log1p(-np.minimum(used, 1 - 2**-53)))
        keep = _survivors(loss, max(size, int(KEPT * len(loss))))
        lattice, probability = lattice.only(keep), probability[keep]
    # Rounded, so that the file is the same whatever the last bit of a machine's logarithm is.
    texts = ["".join(names[byte] for byte in piece) for piece in lattice.pieces]
    scored = [(text, round(math.log(p), 6)) for text, p in zip(texts, probability.tolist(), strict=True)]
    return sorted(scored, key=lambda piece: (-piece[1], piece[0]))


def _survivors(loss: np.ndarray, n_kept: int) -> np.ndarray:
    """Which pieces stay, in their order: all single bytes, and those that would cost the most."""
    # In single precision, so that pieces that cost the same on paper do so here, whatever the rounding.
    ranked = np.argsort(-loss[256:].astype(np.float32), kind="stable")[: n_kept - 256]
    return np.concatenate([np.arange(256), 256 + np.sort(ranked)])


def _cut_words(counts: Counter[str], names: Sequence[str]) -> list[tuple[bytes, int]]:
    """Words as bytes with their counts, in order; long ones cut."""
    to_byte = {ord(name): byte for byte, name in enumerate(names)}
    cut: Counter[bytes] = Counter()
    for word, count in counts.items():
        data = word.translate(to_byte).encode("latin-1")
        for start in range(0, len(data), LONGEST_WORD):
            cut[data[start : start + LONGEST_WORD]] += count
    return sorted(cut.items())


@dataclass(frozen=True)
class _Lattice:
    """Every way to cut every word into pieces: a node between any two bytes, an edge per piece that fits.

    Args:
        pieces: The 256 bytes, then the others, by length and then in order.
        counts: How often each word occurs.
        first, last: The nodes at which each word begins and ends.
        start, end, piece, word: The nodes, the piece and the word of each edge.
        place: How many bytes of its word lie before the end of each edge, which is their order.
    """

    pieces: list[bytes]
    counts: np.ndarray
    first: np.ndarray
    last: np.ndarray
    start: np.ndarray
    end: np.ndarray
    piece: np.ndarray
    word: np.ndarray
    place: np.ndarray

    def posterior(self, probability: np.ndarray) -> np.ndarray:
        """How probable it is for each edge that its word is cut there: forward-backward."""
        bounds = np.searchsorted(self.place, np.arange(LONGEST_WORD + 2))
        steps = [slice(a, b) for a, b in pairwise(bounds.tolist()) if a < b]
        edge = probability[self.piece]
        forward, backward = np.zeros(self.n_nodes), np.zeros(self.n_nodes)
        forward[self.first] = backward[self.last] = 1.0
        for step in steps:
            np.add.at(forward, self.end[step], forward[self.start[step]] * edge[step])
        for step in reversed(steps):
            np.add.at(backward, self.start[step], edge[step] * backward[self.end[step]])
        return forward[self.start] * edge * backward[self.end] / forward[self.last][self.word]

    def per_piece(self, values: np.ndarray) -> np.ndarray:
        """Sum over the edges of each piece, as often as their words occur."""
        return np.bincount(self.piece, values * self.counts[self.word], minlength=len(self.pieces))

    def only(self, keep: np.ndarray) -> "_Lattice":
        """The lattice of some of the pieces, numbered anew."""
        number = np.full(len(self.pieces), -1, dtype=np.int32)
        number[keep] = np.arange(len(keep))
        stays = number[self.piece] >= 0
        return replace(
            self,
            pieces=[self.pieces[i] for i in keep.tolist()],
            start=self.start[stays],
            end=self.end[stays],
            piece=number[self.piece[stays]],
            word=self.word[stays],
            place=self.place[stays],
        )

    @property
    def n_nodes(self) -> int:
        return int(self.last[-1]) + 1 if len(self.last) else 0


def _seeds(words: Sequence[tuple[bytes, int]]) -> tuple[_Lattice, np.ndarray]:
    """The lattice of every byte and of the frequent pieces, and the shares of the text that each could cover."""
    flat = np.frombuffer(b"".join(word for word, _ in words), dtype=np.uint8).astype(np.int64)
    lengths = np.array([len(word) for word, _ in words], dtype=np.int64)
    counts = np.array([count for _, count in words], dtype=np.float64)
    ends = np.cumsum(lengths)
    word = np.repeat(np.arange(len(words)), lengths)  # of each byte
    found = list(_frequent(flat, ends[word] - np.arange(len(flat)), counts[word]))
    pieces, edges, covered = [bytes([byte]) for byte in range(256)], [], []
    for length, (at, rank, occurs) in enumerate(found, start=1):
        if length > 1:
            example = np.zeros(len(occurs), dtype=np.int64)
            example[rank] = at
            pieces += [flat[i : i + length].astype(np.uint8).tobytes() for i in example.tolist()]
        start = at + word[at]  # a word has one node more than bytes
        place = at - (ends - lengths)[word[at]] + length
        edges.append(np.stack([start, start + length, rank + len(pieces) - len(occurs), word[at], place]))
        covered.append(occurs * length)
    table = np.concatenate(edges, axis=1).astype(np.int32)
    start, end, piece, of_word, place = table[:, np.argsort(table[4], kind="stable")]
    last = ends + np.arange(len(words))
    lattice = _Lattice(pieces, counts, last - lengths, last, start, end, piece, of_word, place)
    share = np.concatenate(covered)
    if len(share) > MOST_SEEDS:
        keep = _survivors(share, MOST_SEEDS)
        lattice, share = lattice.only(keep), share[keep]
    return lattice, np.maximum(share / max(1.0, share.sum()), LEAST)


def _frequent(
    flat: np.ndarray, left: np.ndarray, counts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each length: where its frequent pieces begin, their numbers there, and how often each occurs.

    Args:
        flat: The bytes of all words, end to end.
        left: How many bytes of its word begin at each byte.
        counts: How often the word of each byte occurs.
    """
    at, rank = np.arange(len(flat)), flat
    yield at, rank, np.bincount(flat, counts, minlength=256)
    for length in range(2, LONGEST_PIECE + 1):
        fits = left[at] >= length
        at = at[fits]
        # A piece is the one that is a byte shorter and a byte; so numbers are in the order of the pieces.
        keys, rank = np.unique(rank[fits] * 256 + flat[at + length - 1], return_inverse=True)
        occurs = np.bincount(rank, counts[at], minlength=len(keys))
        stays = occurs[rank] > 1
        number = np.cumsum(occurs > 1) - 1
        at, rank = at[stays], number[rank[stays]]
        yield at, rank, occurs[occurs > 1]
