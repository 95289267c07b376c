"""A study as `conf/ablation/*.yaml` states it: what is varied, over which seeds, judged by what."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tfexp.errors import ConfigError, nearest
from tfexp.registry import check_node
from tfexp.tasks.base import higher_is_better


@dataclass(frozen=True, kw_only=True)
class Study:
    """The keys of a study.

    Args:
        name: Of its folder.
        question: What it is to answer; the report's headline.
        base: Overrides of `conf/train.yaml` that all cells share.
        factors: Group or key -> levels. One is varied at a time; the first level of each is the baseline.
        variants: Name -> overrides; further variants of your own making.
        seeds: How many (0, 1, ...), or which.
        metric: A metric of `metrics.jsonl`, compared at the end of training.
        direction: Whether a lower or a higher metric is better; null = as the metric's name says.
        baseline: Name of the variant that the others are compared with; null = the first.
    """

    name: str
    question: str = ""
    base: list[str] = field(default_factory=list)
    factors: dict[str, Any] = field(default_factory=dict)
    variants: dict[str, Any] = field(default_factory=dict)
    seeds: int | list[int] = 3
    metric: str = "val/loss"
    direction: Literal["lower", "higher"] | None = None
    baseline: str | None = None

    @classmethod
    def from_config(cls, node: Mapping[str, Any] | None, seeds: int | Sequence[int] | None = None) -> "Study":
        """Check a study node; `seeds` from the command line overrides its own."""
        if node is None:
            raise ConfigError("ablation: no study is chosen; try ablation=quickstart")
        given = {**node, **({} if seeds is None else {"seeds": seeds})}
        study = cls(**check_node(cls, given, "ablation"))
        study._check()
        usual: Literal["lower", "higher"] = "higher" if higher_is_better(study.metric) else "lower"
        return study if study.direction else replace(study, direction=usual)

    def seed_list(self) -> list[int]:
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    def all_variants(self) -> "list[Variant]":
        """The baseline first, then every other variant."""
        listed = _one_at_a_time(self.factors)
        listed += [Variant(name, tuple(overrides)) for name, overrides in self.variants.items()]
        if self.baseline is None:
            return listed
        return sorted(listed, key=lambda variant: variant.name != self.baseline)

    def _check(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", self.name):
            raise ConfigError(f"ablation.name: expected letters, digits, _ . and -, for a folder; got {self.name!r}")
        for key, levels in self.factors.items():
            if not isinstance(levels, list) or len(levels) < 2:
                raise ConfigError(f"ablation.factors.{key}: a factor needs a list of at least two levels")
        for name, overrides in self.variants.items():
            if not isinstance(overrides, list) or not all(isinstance(o, str) for o in overrides):
                raise ConfigError(f"ablation.variants.{name}: expected a list of overrides such as model.n_layers=2")
        seeds = self.seed_list()
        if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ConfigError(
                f"ablation.seeds: expected a number of seeds or a list of different ones, got {self.seeds}"
            )
        names = [variant.name for variant in self.all_variants()]
        if len(names) < 2:
            raise ConfigError("ablation: a study compares at least two variants; give it factors or variants")
        if len(set(names)) < len(names):
            raise ConfigError(f"ablation: two variants have one name: {', '.join(names)}")
        if self.baseline is not None and self.baseline not in names:
            raise ConfigError(f"ablation.baseline: unknown variant '{self.baseline}'; {nearest(self.baseline, names)}")


@dataclass(frozen=True)
class Variant:
    """One row of a study's table.

    Args:
        name: As the report prints it.
        overrides: What distinguishes it from the base.
    """

    name: str
    overrides: tuple[str, ...]


def _one_at_a_time(factors: Mapping[str, Sequence[Any]]) -> list[Variant]:
    if not factors:
        return []
    first = {key: levels[0] for key, levels in factors.items()}
    changes = [(key, level) for key, levels in factors.items() for level in levels[1:]]
    if len(factors) == 1:
        (key,) = factors
        return [Variant(str(level), (_override(key, level),)) for level in factors[key]]
    shared = tuple(_override(key, level) for key, level in first.items())
    rows = [Variant("baseline", shared)]
    for key, level in changes:
        overrides = tuple(_override(k, level if k == key else v) for k, v in first.items())
        rows.append(Variant(f"{key.rsplit('/', 1)[-1].rsplit('.', 1)[-1]}={level}", overrides))
    return rows


def _override(key: str, level: Any) -> str:
    if level is None:
        return f"{key}=null"
    return f"{key}={str(level).lower() if isinstance(level, bool) else level}"
