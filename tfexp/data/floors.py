"""What can be known without a model: entropies of a text, and the share of the most frequent class."""

import numpy as np

from tfexp.data.encoded import Ragged


def ngram_entropies(ids: np.ndarray) -> dict[str, float]:
    """Entropies of a text's own unigrams and bigrams, in nats per token.

    unigram = H(X_t), bigram = H(X_t | X_{t-1}): the loss of the best table over tokens, and over pairs
    of tokens, that could be made *knowing this text*; a table made from other text is worse. A model
    with a lower loss uses more than one token of context.
    """
    ids = ids.astype(np.int64)
    return {"unigram_entropy": _entropy(ids), "bigram_entropy": _bigram(ids)}


def majority(labels: Ragged, train: Ragged) -> float:
    """Accuracy of always saying the most frequent class of the training part."""
    first = int(np.bincount(train.ids.astype(np.int64)).argmax())
    hits = [first in labels[row] for row in range(len(labels))]
    return float(np.mean(hits))


def _bigram(ids: np.ndarray) -> float:
    if len(ids) < 2:
        return 0.0
    pairs = ids[:-1] * (int(ids.max()) + 1) + ids[1:]
    return max(0.0, _entropy(pairs) - _entropy(ids[:-1]))


def _entropy(values: np.ndarray) -> float:
    if not len(values):
        return 0.0
    _, counts = np.unique(values, return_counts=True)
    share = counts / counts.sum()
    return float(-(share * np.log(share)).sum())
