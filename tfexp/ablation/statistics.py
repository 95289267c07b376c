"""Statistics of a study, by scipy; only the gathering is tfexp's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

ROUNDING = 1e-12  # relative; a few units in the last place of float64


@dataclass(frozen=True)
class Difference:
    """Variant minus baseline over shared seeds.

    Args:
        mean: Of the paired differences.
        low, high: 95 % confidence interval of the mean, from Student's t with n - 1 degrees of freedom.
        p: Two-sided paired t test against no difference; None if all differences are equal.
        n: Shared seeds.
    """

    mean: float
    low: float
    high: float
    p: float | None
    n: int


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def standard_deviation(values: Sequence[float]) -> float | None:
    """With n - 1 in the denominator; None below two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def paired_difference(values: Mapping[int, float], baseline: Mapping[int, float]) -> Difference | None:
    """The mean difference over the seeds that both have; None below two of them."""
    seeds = sorted(values.keys() & baseline.keys())
    if len(seeds) < 2:
        return None
    differences = np.array([values[seed] - baseline[seed] for seed in seeds])
    centre, error = float(differences.mean()), float(stats.sem(differences))
    # Equal differences leave only what rounding makes of them, which is not evidence.
    if error <= ROUNDING * max(abs(v) for seed in seeds for v in (values[seed], baseline[seed])):
        return Difference(centre, centre, centre, None, len(seeds))
    low, high = stats.t.interval(0.95, len(seeds) - 1, loc=centre, scale=error)
    p = 2 * stats.t.sf(abs(centre / error), len(seeds) - 1)
    return Difference(centre, float(low), float(high), float(p), len(seeds))


def pairing_gain(baseline: Mapping[int, float], variants: Sequence[Mapping[int, float]]) -> float | None:
    """Share of a difference's variance that shared seeds took out, pooled over the variants.

    1 - sum var(x - b) / sum (var x + var b): 0 if seeds do nothing, 1 if they explain everything,
    negative if pairing hurt. None below three shared seeds.
    """
    paired, unpaired = 0.0, 0.0
    for values in variants:
        seeds = sorted(values.keys() & baseline.keys())
        if len(seeds) < 3:
            continue
        x, b = np.array([values[s] for s in seeds]), np.array([baseline[s] for s in seeds])
        paired += float(np.var(x - b, ddof=1))
        unpaired += float(np.var(x, ddof=1) + np.var(b, ddof=1))
    return None if unpaired == 0 else 1.0 - paired / unpaired


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of several comparisons with one baseline; Holm 1979, sharper than Bonferroni.

    The i-th smallest of m is multiplied by m - i + 1, never below the ones before it, at most 1.
    """
    adjusted, floor = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = floor
    return adjusted
