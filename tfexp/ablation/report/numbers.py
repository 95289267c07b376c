"""Numbers as a reader needs them: as many digits as the uncertainty carries, units that keep them short."""

import math
from collections.abc import Iterable
from statistics import median

MISSING = "-"
MAX_DECIMALS = 6
PLAIN_DIGITS = 4  # significant digits of a value whose uncertainty is unknown


def decimals_for(uncertainties: Iterable[float | None], values: Iterable[float | None] = ()) -> int:
    """Decimals of one table column, so that its points align.

    The median uncertainty gets two significant digits, the smallest at least one. Without any
    uncertainty the largest value gets four significant digits.
    """
    known = [u for u in uncertainties if u is not None and math.isfinite(u) and u > 0]
    if known:
        wanted = max(_decimals(median(known), 2), _decimals(min(known), 1))
    else:
        largest = max((abs(v) for v in values if v is not None), default=0.0)
        wanted = _decimals(largest, PLAIN_DIGITS) if largest > 0 else PLAIN_DIGITS - 1
    return min(max(wanted, 0), MAX_DECIMALS)


def fixed(value: float | None, decimals: int, *, sign: bool = False) -> str:
    """A number with fixed decimals; a dash if it is unknown. Minus zero is zero."""
    if value is None:
        return MISSING
    rounded = round(value, decimals) + 0.0
    return f"{rounded:{'+' if sign and rounded else ''}.{decimals}f}"


def plus_minus(value: float | None, sd: float | None, decimals: int) -> str:
    """`3.012 ± 0.011`; without the second part if the spread is unknown."""
    spread = "" if value is None or sd is None else f" ± {fixed(sd, decimals)}"
    return fixed(value, decimals) + spread


def interval(low: float, high: float, decimals: int) -> str:
    return f"[{fixed(low, decimals, sign=True)}, {fixed(high, decimals, sign=True)}]"


def p_value(p: float | None) -> str:
    """Two significant digits, three decimals at most; below that only a bound."""
    if p is None:
        return MISSING
    if p < 0.001:
        return "<0.001"
    return f"{p:.2f}" if p >= 0.0995 else f"{p:.3f}"


def count(n: float | None) -> str:
    """Parameters: exact below ten thousand, then `84.2 k`, `0.54 M`, `1.24 G`."""
    if n is None:
        return MISSING
    if n < 10_000:
        return f"{n:,.0f}"
    if n < 99_950:
        return f"{n / 1e3:.1f} k"
    return f"{n / 1e6:,.2f} M" if n < 999_500_000 else f"{n / 1e9:,.2f} G"


def flops(n: float | None) -> str:
    """`3.2 MFLOP`: operations, not operations per second."""
    return MISSING if n is None else _scaled(n, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"), 1000)


def memory(n: float | None) -> str:
    """Bytes in powers of 1024."""
    return MISSING if n is None else _scaled(n, ("B", "KiB", "MiB", "GiB", "TiB"), 1024)


def rate(n: float | None) -> str:
    """`12,345`: a whole number with separators of thousands."""
    return MISSING if n is None else f"{n:,.0f}"


def percent(share: float | None) -> str:
    return MISSING if share is None else f"{100 * share:.0f} %"


def _decimals(value: float, digits: int) -> int:
    # Rounding may carry into the next power of ten (0.0996 is 0.10), so the exponent is read after it.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return digits - 1 - exponent


def _scaled(n: float, units: tuple[str, ...], base: int) -> str:
    power = 0
    while abs(n) >= base * 0.9995 and power < len(units) - 1:
        n, power = n / base, power + 1
    decimals = 1 if power and abs(n) < 99.95 else 0
    return f"{n:,.{decimals}f} {units[power]}"
