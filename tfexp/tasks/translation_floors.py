"""What translation reaches without a model: copying, looking up, and a table of words."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from tfexp.data.corpus import Pair
from tfexp.data.prepare import PreparedData
from tfexp.tasks.overlap import BLEUTokenizer, bleu_scorer, chrf_scorer


def translation_floors(data: PreparedData, tokenizer: BLEUTokenizer) -> dict[str, float]:
    """BLEU and chrF on the validation part of three methods that learn nothing.

    copy = the source itself; nearest = the target of the most similar training source (most shared
    words, weighted by how rare they are); words = each source word replaced by the training word that
    goes with it most closely (Dice's coefficient), in the order of the source.
    """
    train, val = _texts(data, "train"), data.parts["val"].texts
    sources, references = [p.source for p in val], [p.target for p in val]
    floors = {}
    methods: dict[str, Callable[[str], str]] = {
        "copy": lambda source: source, "nearest": nearest_target(train), "words": word_table(train),
    }  # fmt: skip
    for name, method in methods.items():
        guesses = [method(source) for source in sources]
        floors[f"{name}_bleu"] = bleu_scorer(tokenizer).corpus_score(guesses, [references]).score
        floors[f"{name}_chrf"] = chrf_scorer().corpus_score(guesses, [references]).score
    return floors


def nearest_target(train: Sequence[Pair]) -> Callable[[str], str]:
    """A function from a source to the target of the most similar training source; of equals, the shortest."""
    holders: dict[str, list[int]] = defaultdict(list)
    for row, pair in enumerate(train):
        for word in sorted(set(pair.source.split())):
            holders[word].append(row)
    rows_with = {word: np.array(rows) for word, rows in holders.items()}
    sizes = np.array([len(set(pair.source.split())) for pair in train])

    def find(source: str) -> str:
        scores = np.zeros(len(train))
        for word in sorted(set(source.split()) & rows_with.keys()):
            scores[rows_with[word]] += 1 / len(rows_with[word])
        if not scores.any():
            return train[0].target
        best = np.flatnonzero(scores == scores.max())
        return train[int(best[sizes[best].argmin()])].target

    return find


def word_table(train: Sequence[Pair]) -> Callable[[str], str]:
    """A function that replaces each word by its closest companion in the training pairs."""
    together: dict[str, Counter[str]] = defaultdict(Counter)
    source_counts: Counter[str] = Counter()
    target_counts: Counter[str] = Counter()
    for pair in train:
        sources, targets = sorted(set(pair.source.split())), sorted(set(pair.target.split()))
        source_counts.update(sources)
        target_counts.update(targets)
        for word in sources:
            together[word].update(targets)
    table = {
        word: max(found, key=lambda t: (2 * found[t] / (source_counts[word] + target_counts[t]), t))
        for word, found in together.items()
        if found
    }
    return lambda source: " ".join(table.get(word, word) for word in source.split())


def _texts(data: PreparedData, part: str) -> Sequence[Pair]:
    """Pairs as text; of the training part, as its tokens read."""
    columns = data.parts[part].columns
    decode = data.tokenizer.decode
    n = len(data.parts[part])
    return [Pair(decode(columns["source"][i].tolist()), decode(columns["target"][i].tolist())) for i in range(n)]
