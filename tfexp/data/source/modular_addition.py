"""Modular arithmetic, the task on which networks grok."""

from typing import Annotated, Literal

from tfexp.data.corpus import Corpus, Pair
from tfexp.data.procedural import RuleSource, part_random, shuffled
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range

SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


@register("data", "modular_addition")
class ModularAddition(RuleSource):
    """All equations a o b = c modulo p, a random share of them for training: `5 + 95 =` -> `3` for p = 97.

    Every number is one token. Networks fit the training equations long before they solve the others.

    Args:
        modulus: p; the paper uses 97.
        operation: What o is; `divide` asks for the c with b c = a, b from 1, and needs a prime p.
        train_fraction: Share of the equations that trains; the rest validates. There is no test part.
        data_seed: Of the choice; not the run's seed, so that all runs of a study see one data set.

    Source: Power et al., 2022, arXiv:2201.02177, section 3 and appendix A.1.
    """

    kind = "pairs"

    def __init__(
        self,
        *,
        modulus: Annotated[int, Range(ge=2, le=1000)] = 97,
        operation: Literal["add", "subtract", "multiply", "divide"] = "add",
        train_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.5,
        data_seed: int = 0,
    ) -> None:
        if operation == "divide" and any(modulus % d == 0 for d in range(2, modulus)):
            raise ConfigError(f"data.modulus: data.operation=divide needs a prime, got {modulus}")
        self.modulus, self.operation = modulus, operation
        self.train_fraction, self.data_seed = train_fraction, data_seed
        equations = modulus * (modulus - 1 if operation == "divide" else modulus)
        self.n_train = round(equations * train_fraction)
        if not 0 < self.n_train < equations:
            raise ConfigError(
                f"data.train_fraction: {train_fraction} of {equations} equations leaves none to "
                f"{'validate' if self.n_train else 'train'} on"
            )

    def read(self) -> Corpus:
        rng = part_random(self.data_seed, f"modular_addition/{self.operation}", "all")
        equations = shuffled(rng, self._equations())
        report = {"equations": len(equations)}
        return Corpus(tuple(equations[: self.n_train]), tuple(equations[self.n_train :]), report=report)

    def _equations(self) -> list[Pair]:
        numbers, sign = range(self.modulus), SIGNS[self.operation]
        if self.operation == "divide":  # from the answer to the question
            triples = [(b * c % self.modulus, b, c) for c in numbers for b in numbers[1:]]
        else:
            triples = [(a, b, self._result(a, b)) for a in numbers for b in numbers]
        return [Pair(f"{a} {sign} {b} =", str(c)) for a, b, c in triples]

    def _result(self, a: int, b: int) -> int:
        results = {"add": a + b, "subtract": a - b, "multiply": a * b}
        return results[self.operation] % self.modulus
