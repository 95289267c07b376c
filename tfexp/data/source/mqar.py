"""Multi-query associative recall."""

from collections.abc import Iterator
from typing import Annotated

import numpy as np

from tfexp.data.corpus import UNSCORED, Corpus, Tagged
from tfexp.data.procedural import PartName, RuleSource, Sizes, fill_parts
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range
from tfexp.streams import numpy_stream

ROWS = 1000  # drawn at a time, from a stream of their own
FILLER = 0


@register("data", "mqar")
class MQAR(RuleSource):
    """Multi-query associative recall: pairs of key and value, then each key again, its value to be predicted.

        text    2 8 4 7 0 0 4 0 0 0 0 0 2 0 0 0      n = 2 pairs, vocabulary V = 12, L = 16
        labels  _ _ _ _ _ _ 7 _ _ _ _ _ 8 _ _ _      scored where a key is asked for

    Keys come from 1 .. V/2 - 1, values from V/2 .. V - 1, each at most once in a row. Behind the 2n tokens of
    the pairs lie (L - 2n) / 2 slots of two tokens; a key is asked for at the start of a slot of its own, drawn
    with weight a i^(a - 1) for the i-th slot, i = 1, 2, ..., so mostly near. All else is the filler 0.

    Attention solves it at every length and width; mixers of fixed state need a width that grows with the pairs.

    Args:
        vocabulary: V, the filler included.
        input_len: L, in tokens, even; the paper's (L, n) are (64, 4), (128, 8), (256, 16), (512, 64).
        n_pairs: n; 4 n <= L.
        power: a of the weight of slots; 1 = uniform.
        random_filler: Random tokens of the whole vocabulary instead of the filler.
        n_train: Training rows; on a CPU 20,000 do for the shortest setting.
        n_val: Validation rows.
        n_test: Test rows.
        data_seed: Of the rows; not the run's seed, so that all runs of a study see one data set.

    Source: Arora et al., 2023, arXiv:2312.04927, section 4 and Figure 2; layout as in the authors'
        zoology/data/multiquery_ar.py.
    Differs: three parts, where the authors have a training and a test set; no row of one is in another.
    """

    kind = "tagged"

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Range(ge=4)] = 8192,
        input_len: Annotated[int, Range(ge=4)] = 64,
        n_pairs: Annotated[int, Range(ge=1)] = 4,
        power: Annotated[float, Range(gt=0)] = 0.01,
        random_filler: bool = False,
        n_train: Annotated[int, Range(ge=1)] = 100_000,
        n_val: Annotated[int, Range(ge=1)] = 3_000,
        n_test: Annotated[int, Range(ge=0)] = 3_000,
        data_seed: int = 0,
    ) -> None:
        if input_len % 2:
            raise ConfigError(f"data.input_len: must be even (keys are asked for in slots of two), got {input_len}")
        if 4 * n_pairs > input_len:
            raise ConfigError(
                f"data.input_len: {n_pairs} pairs and a slot for each need >= {4 * n_pairs} tokens, got {input_len}"
            )
        if n_pairs > vocabulary // 2 - 1:
            raise ConfigError(f"data.vocabulary: {n_pairs} keys need >= {2 * n_pairs + 2} tokens, got {vocabulary}")
        self.vocabulary, self.input_len, self.n_pairs = vocabulary, input_len, n_pairs
        self.power, self.random_filler = power, random_filler
        self.sizes, self.data_seed = Sizes(n_train, n_val, n_test), data_seed

    def read(self) -> Corpus:
        return fill_parts("mqar", self.sizes, self._rows)

    def _rows(self, part: PartName) -> Iterator[Tagged]:
        """An endless stream; a thousand rows at a time, so that the first ones do not depend on how many follow."""
        token = [str(i) for i in range(self.vocabulary)]
        label = [*token, UNSCORED]
        chunk = 0
        while True:
            texts, labels = self._draw(numpy_stream(self.data_seed, f"data/mqar/{part}", chunk))
            for text, targets in zip(texts.tolist(), labels.tolist(), strict=True):
                yield Tagged(" ".join([token[i] for i in text]), " ".join([label[i] for i in targets]))
            chunk += 1

    def _draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Ids and labels, each (ROWS, L); V stands for `not scored`."""
        n, half = self.n_pairs, self.vocabulary // 2
        keys = 1 + _distinct(rng, half - 1, n)
        values = half + _distinct(rng, self.vocabulary - half, n)
        slots = _weighted(rng, self.input_len // 2 - n, n, self.power)
        texts = np.full((ROWS, self.input_len), FILLER)
        labels = np.full((ROWS, self.input_len), self.vocabulary)
        texts[:, 0 : 2 * n : 2], texts[:, 1 : 2 * n : 2] = keys, values
        asked = 2 * n + 2 * slots
        np.put_along_axis(texts, asked, keys, axis=1)
        np.put_along_axis(labels, asked, values, axis=1)
        if self.random_filler:
            noise = (rng.random(texts.shape) * self.vocabulary).astype(np.int64)
            texts = np.where(texts == FILLER, noise, texts)
        return texts, labels


def _distinct(rng: np.random.Generator, count: int, n: int) -> np.ndarray:
    """(ROWS, n): in each row `n` different numbers below `count`, every order as likely as another."""
    drawn = np.empty((ROWS, n), dtype=np.int64)
    for j in range(n):
        # The rank among the numbers not drawn yet; each smaller number that is taken moves it up by one.
        number = (rng.random(ROWS) * (count - j)).astype(np.int64)
        for taken in np.sort(drawn[:, :j], axis=1).T:
            number += number >= taken
        drawn[:, j] = number
    return drawn


def _weighted(rng: np.random.Generator, count: int, n: int, power: float) -> np.ndarray:
    """(ROWS, n): in each row `n` different slots below `count`, drawn one after the other by their weights.

    Of exponential clocks that run at the rates w_i, the next to ring is i with probability w_i / sum of those left.
    """
    weight = power * np.arange(1, count + 1) ** (power - 1)
    rings = -np.log1p(-rng.random((ROWS, count))) / weight
    return np.argsort(rings, axis=1, kind="stable")[:, :n]
