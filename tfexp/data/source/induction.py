"""The induction head task."""

from collections.abc import Iterator
from typing import Annotated

from tfexp.data.corpus import Corpus, Pair
from tfexp.data.procedural import PartName, RuleSource, Sizes, below, fill_parts, part_random
from tfexp.registry import register
from tfexp.schema import Range

TRIGGER = "=>"


@register("data", "induction")
class Induction(RuleSource):
    """Induction head: a random sequence with a trigger somewhere, the trigger again; which token came after it?

        source  7 3 => 11 0 5 =>      target  11

    With probability 1/2 the trigger stands at one place, else at up to `n_triggers`, always before the same
    token. One layer of attention fails where two succeed. A sequence trains, validates or tests by a hash of
    it, so no sequence of one part is in another.

    Args:
        vocabulary: Ordinary tokens 0, 1, ..., uniform; the trigger comes on top.
        input_len: Tokens before the last trigger.
        n_triggers: Places drawn for the trigger where there are several; those that touch another are left out.
        n_train: Training sequences.
        n_val: Validation sequences.
        n_test: Test sequences.
        data_seed: Of the sequences; not the run's seed, so that all runs of a study see one data set.

    Source: Fu et al., ICLR 2023, arXiv:2212.14052, section 3.1; layout as in the authors'
        safari/src/dataloaders/synthetics.py.
    Differs: the authors' 20 tokens include the trigger and one that never occurs; they score every position in
        training, here only the answer is a target; a third part.
    """

    kind = "pairs"

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Range(ge=2)] = 20,
        input_len: Annotated[int, Range(ge=3)] = 30,
        n_triggers: Annotated[int, Range(ge=1)] = 1,
        n_train: Annotated[int, Range(ge=1)] = 5_000,
        n_val: Annotated[int, Range(ge=1)] = 500,
        n_test: Annotated[int, Range(ge=0)] = 500,
        data_seed: int = 0,
    ) -> None:
        self.vocabulary, self.input_len, self.n_triggers = vocabulary, input_len, n_triggers
        self.sizes, self.data_seed = Sizes(n_train, n_val, n_test), data_seed

    def read(self) -> Corpus:
        return fill_parts("induction", self.sizes, self._pairs)

    def _pairs(self, part: PartName) -> Iterator[Pair]:
        rng = part_random(self.data_seed, "induction", part)
        while True:
            tokens = [str(below(rng, self.vocabulary)) for _ in range(self.input_len)]
            several = rng.random() >= 0.5
            drawn = sorted(below(rng, self.input_len - 2) for _ in range(self.n_triggers if several else 1))
            places = drawn[:1]
            for place in drawn[1:]:
                if place > places[-1] + 1:
                    places.append(place)
            answer = tokens[places[0] + 1]
            for place in places:
                tokens[place : place + 2] = TRIGGER, answer
            yield Pair(" ".join([*tokens, TRIGGER]), answer)
