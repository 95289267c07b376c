"""SCAN: commands and the actions that they ask for."""

from typing import Annotated, Literal

from tfexp.data.corpus import Corpus, Pair
from tfexp.data.procedural import RuleSource, part_random, shuffled
from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.schema import Range

ACTIONS = {"walk": ["I_WALK"], "look": ["I_LOOK"], "run": ["I_RUN"], "jump": ["I_JUMP"]}
TURNS = {"left": ["I_TURN_LEFT"], "right": ["I_TURN_RIGHT"]}
TIMES = {"": 1, " twice": 2, " thrice": 3}
LONGEST_TRAIN = 22  # actions, in the split by length
JUMP, JUMPS = Pair("jump", "I_JUMP"), 1_467  # how often it stands in the training part of its split: a tenth of it
N_TRAIN = {"simple": 16_728, "length": 16_990, "addprim_jump": 13_203}  # published training commands, without JUMP
Meanings = dict[str, list[str]]


@register("data", "scan")
class Scan(RuleSource):
    """SCAN: simple commands in English to sequences of actions, `jump twice` -> `I_JUMP I_JUMP`.

    All 20,910 commands of the grammar, split to ask for compositional generalisation: `simple` at random,
    `length` (train on outputs of up to 22 actions, test on 24 to 48), `addprim_jump` (of the commands with
    `jump`, only `jump` itself is trained on, repeated to a tenth of the part). Test once, at the end of a fixed
    budget: validation commands are like the training ones and hide the differences.

    Args:
        split: Which commands train and which test.
        val_fraction: Share of the distinct training commands that validates instead, drawn at random; `jump` of
            its own split always trains.
        data_seed: Of that draw, of the split `simple` and of the order; not the run's seed.

    Source: Lake and Baroni, ICML 2018, arXiv:1711.00350, grammar in the supplement, experiments 1 to 3.
    Differs: `length` and `addprim_jump` are the published sets; `simple` has the published sizes (16,728 and
        4,182), but is another random draw, since no rule tells which commands the authors drew. A validation
        part, which the published sets do not have.
    """

    kind = "pairs"

    def __init__(
        self,
        *,
        split: Literal["simple", "length", "addprim_jump"] = "simple",
        val_fraction: Annotated[float, Range(gt=0, lt=1)] = 0.05,
        data_seed: int = 0,
    ) -> None:
        self.n_val = round(val_fraction * N_TRAIN[split])
        if not 0 < self.n_val < N_TRAIN[split]:
            raise ConfigError(
                f"data.val_fraction: {val_fraction} of {N_TRAIN[split]} commands leaves none to "
                f"{'train' if self.n_val else 'validate'} on"
            )
        self.split, self.data_seed = split, data_seed

    def read(self) -> Corpus:
        known, test = self._split(commands())
        repeated = [JUMP] * JUMPS if self.split == "addprim_jump" else []
        known = self._shuffled("val", known)
        train = self._shuffled("train", [*known[self.n_val :], *repeated])
        test = self._shuffled("test", [pair for pair in test if not repeated or pair != JUMP])
        return Corpus(tuple(train), tuple(known[: self.n_val]), tuple(test), {"repeated": len(repeated)})

    def _split(self, pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        """Commands to learn from and all others."""
        if self.split == "length":
            known = [pair for pair in pairs if len(pair.target.split()) <= LONGEST_TRAIN]
        elif self.split == "addprim_jump":
            known = [pair for pair in pairs if JUMP.source not in pair.source.split()]
        else:
            known = self._shuffled("split", pairs)[: N_TRAIN["simple"]]
        chosen = set(known)
        return known, [pair for pair in pairs if pair not in chosen]

    def _shuffled(self, draw: str, pairs: list[Pair]) -> list[Pair]:
        return shuffled(part_random(self.data_seed, f"scan/{self.split}", draw), pairs)


def commands() -> list[Pair]:
    """Every command of the grammar with its actions: 34 phrases, with their repeats 102, alone or two of them."""
    single = {f"{phrase}{word}": actions * n for phrase, actions in _phrases().items() for word, n in TIMES.items()}
    meanings = dict(single)
    for first, first_actions in single.items():
        for second, second_actions in single.items():
            meanings[f"{first} and {second}"] = first_actions + second_actions
            meanings[f"{first} after {second}"] = second_actions + first_actions
    return [Pair(command, " ".join(actions)) for command, actions in meanings.items()]


def _phrases() -> Meanings:
    """Commands without a repeat: an action, or an action or a mere turn with a direction."""
    phrases: Meanings = dict(ACTIONS)
    for verb, action in {**ACTIONS, "turn": []}.items():
        for direction, turn in TURNS.items():
            phrases[f"{verb} {direction}"] = turn + action
            phrases[f"{verb} opposite {direction}"] = turn + turn + action
            phrases[f"{verb} around {direction}"] = (turn + action) * 4
    return phrases
