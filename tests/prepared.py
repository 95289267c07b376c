"""Tiny encoded data for tests, made in memory by the code that makes the real ones."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tfexp.data.corpus import Corpus, Labelled, Pair, Row, Tagged
from tfexp.data.encoded import encode_part, labels_of, training_texts
from tfexp.data.prepare import PreparedData
from tfexp.data.spec import DataSpec
from tfexp.data.tokenization import Tokenizer
from tfexp.registry import check_choice, create

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]


def prepared(
    train: Sequence[Row], val: Sequence[Row] = (), test: Sequence[Row] = (), tokenizer: Any = "word"
) -> PreparedData:
    """Rows as a run would see them; without `val` the training rows validate."""
    corpus = Corpus(tuple(train), tuple(val or train), tuple(test))
    recipe = create("tokenizer", check_choice("tokenizer", tokenizer, "data.tokenizer"), {})
    made, labels = Tokenizer(recipe.train(training_texts(corpus.train))), labels_of(corpus)
    parts = {name: encode_part(name, rows, recipe, made, labels) for name, rows in corpus.parts().items() if rows}
    return PreparedData(made, parts, labels, corpus.fingerprint(), {})


def spec(**changes: Any) -> DataSpec:
    return DataSpec(**{"seq_len": 12, "batch_size": 4, **changes})


def texts(n: int, longest: int = 9, seed: int = 0) -> list[str]:
    """Texts of 1 to `longest` words."""
    draw = Random(seed)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, longest))) for _ in range(n)]


def labelled(n: int, seed: int = 0) -> list[Labelled]:
    """A text and its first word's class of three."""
    return [Labelled(text, (f"c{WORDS.index(text.split()[0]) % 3}",)) for text in texts(n, seed=seed)]


def several(n: int, seed: int = 0) -> list[Labelled]:
    """A text and any of three classes, none included."""
    return [
        Labelled(text, tuple(f"c{k}" for k, word in enumerate(WORDS[:3]) if word in text.split()))
        for text in texts(n, seed=seed)
    ]


def pairs(n: int, longest: int = 5, seed: int = 0) -> list[Pair]:
    """A text and the same in capitals, backwards and less its first word."""
    return [Pair(text, " ".join(text.upper().split()[:0:-1])) for text in texts(n, longest, seed)]


def tagged(n: int, seed: int = 0) -> list[Tagged]:
    """Words, and at some of them the one that comes next."""
    rows = []
    for text in texts(n, seed=seed):
        words = [*text.split(), "ant"]
        rows.append(Tagged(text, " ".join(w if i % 2 == 0 else "_" for i, w in enumerate(words[1:]))))
    return rows
