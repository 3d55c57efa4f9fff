"""Kubernetes quantities as exact numbers: ``100m``, ``1.5Gi``, ``2e3``, 4.

A quantity is a whole number of billionths, the smallest that Kubernetes keeps; finer ones are
rounded up, as Kubernetes does. Format: ``k8s.io/apimachinery/pkg/api/resource``. A set of amounts
maps resource names to such numbers.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from liqod.errors import ConfigError

NANO: Final = 10**9
"""Number of billionths in 1."""

Amounts = dict[str, int]
"""Billionths by resource name."""

_PATTERN = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?",
    re.ASCII,
)
_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    **{letter: Fraction(1000**power) for power, letter in enumerate("MGTPE", 2)},
}
_SUFFIXES: Final = {**_DECIMAL, **{suffix: Fraction(n) for suffix, n in _BINARY.items()}}
_EXPONENT_LIMIT: Final = 30
_LENGTH_LIMIT: Final = 64
_BINARY_NAMES: Final = ("memory", "storage", "hugepages-")


def parse(value: float | str) -> int:
    """The quantity in billionths.

    Raises:
        ConfigError: it is not a quantity.
    """
    if isinstance(value, bool):
        raise ConfigError(f"{value!r} is not a quantity")
    if isinstance(value, int):
        return value * NANO
    text = str(value)
    if len(text) > _LENGTH_LIMIT:
        raise ConfigError(f"{text[:_LENGTH_LIMIT]!r} is not a quantity")
    return _billionths(text)


@lru_cache(maxsize=1024)
def _billionths(text: str) -> int:
    """The same for text; replicas request the same again and again."""
    match = _PATTERN.fullmatch(text)
    exponent = int(match["exponent"] or 0) if match else 0
    if match is None or abs(exponent) > _EXPONENT_LIMIT:
        raise ConfigError(f"{text!r} is not a quantity")
    number = Fraction(match["number"]) * Fraction(10) ** exponent
    billionths = number * _SUFFIXES.get(match["suffix"] or "", Fraction(1)) * NANO
    rounded = -(-billionths.numerator // billionths.denominator)
    return -rounded if match["sign"] == "-" else rounded


def is_quantity(value: object) -> bool:
    """True if a value is a quantity, as :func:`parse` reads it."""
    if not isinstance(value, (int, str)):
        return False
    try:
        parse(value)
    except ConfigError:
        return False
    return True


def equal(left: object, right: object) -> bool:
    """True if both are quantities of the same amount."""
    if not isinstance(left, (int, str)) or not isinstance(right, (int, str)):
        return False
    try:
        return parse(left) == parse(right)
    except ConfigError:
        return False


def render(amount: int, *, binary: bool = False) -> str:
    """The canonical text of an amount: no fraction, the largest suffix that leaves none.

    Args:
        amount: billionths.
        binary: whether ``Ki``, ``Mi`` … are used where the amount is a whole number.
    """
    whole, rest = divmod(abs(amount), NANO)
    sign = "-" if amount < 0 else ""
    if rest:
        for suffix, size in (("m", 10**6), ("u", 10**3), ("n", 1)):
            if abs(amount) % size == 0:
                return f"{sign}{abs(amount) // size}{suffix}"
    suffixes = _BINARY.items() if binary else ((s, int(n)) for s, n in _DECIMAL.items() if n > 1)
    best = ("", 1)
    for suffix, size in suffixes:
        if whole and whole % size == 0 and size > best[1]:
            best = (suffix, size)
    return f"{sign}{whole // best[1]}{best[0]}"


def parse_all(resources: Mapping[str, int | str] | None) -> Amounts:
    """Amounts of a map such as a container's requests; None counts as empty.

    Raises:
        ConfigError: a value is not a quantity.
    """
    return {name: parse(value) for name, value in (resources or {}).items()}


def render_all(amounts: Mapping[str, int]) -> dict[str, str]:
    """The map that :func:`parse_all` reads; memory and storage with binary suffixes."""
    return {
        name: render(amount, binary=any(part in name for part in _BINARY_NAMES))
        for name, amount in amounts.items()
    }


def total(amounts: Iterable[Mapping[str, int]]) -> Amounts:
    """The sum, resource by resource."""
    result: Amounts = {}
    for each in amounts:
        for name, amount in each.items():
            result[name] = result.get(name, 0) + amount
    return result


def largest(amounts: Iterable[Mapping[str, int]]) -> Amounts:
    """The maximum, resource by resource."""
    result: Amounts = {}
    for each in amounts:
        for name, amount in each.items():
            result[name] = max(result.get(name, amount), amount)
    return result


def over(amounts: Mapping[str, int], bound: Mapping[str, int]) -> list[str]:
    """Names of the resources of which there is more than the bound, sorted.

    A resource that the bound lacks is bounded by 0.
    """
    return sorted(name for name, amount in amounts.items() if amount > bound.get(name, 0))
