"""Arithmetic that is exact on plain numbers and elementwise on numpy arrays.

Comes in: ints, Fractions, floats or arrays. Goes out: the same kind. Python's own `/` would make a
float of two ints, and Fraction refuses arrays; formulas are written in these words instead, so that
one text serves a plan and a bulk search. numpy is imported only once an array has come in.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kvdsl.units import tidy

_PLAIN = (float, int, Fraction)
"""Floats first: whether something is a Fraction is asked of an abstract class, which is slow."""


def _exact(value: Any) -> bool:
    return type(value) is not float and isinstance(value, (int, Fraction))


def real(value: Any) -> Any:
    """A float of a plain number: times and rates are floats."""
    if type(value) is float:
        return value
    return float(value) if isinstance(value, _PLAIN) else value


def over(a: Any, b: Any) -> Any:
    """a / b: exact if both are."""
    if _exact(a) and _exact(b):
        return tidy(Fraction(a) / Fraction(b))
    return _rounded(a) / _rounded(b)


def times(*factors: Any) -> Any:
    """The product, exact if all factors are, whole if it is."""
    if all(map(_exact, factors)):
        found: Any = 1
        for factor in factors:
            found = found * factor
        return tidy(found)
    product: Any = 1
    for factor in factors:
        product = product * _rounded(factor)
    return product


def _rounded(value: Any) -> Any:
    """A float of a Fraction: an array refuses one, and would become one of objects."""
    return float(value) if type(value) is not float and isinstance(value, Fraction) else value


def floored(a: Any, b: Any) -> Any:
    """How many whole b are in a."""
    if isinstance(a, _PLAIN) and isinstance(b, _PLAIN):
        return int(a // b)
    return a // b


def raised(a: Any, b: Any) -> Any:
    """How many whole b it takes to hold a."""
    if isinstance(a, _PLAIN) and isinstance(b, _PLAIN):
        return int(-(-a // b))
    return -(-a // b)


def at_least(value: Any, low: int) -> Any:
    """The value, or `low` if that is more."""
    if isinstance(value, _PLAIN):
        return max(value, low)
    from numpy import maximum

    return maximum(value, low)


def smaller(a: Any, b: Any) -> Any:
    """The lesser of two."""
    if isinstance(a, _PLAIN) and isinstance(b, _PLAIN):
        return min(a, b)
    from numpy import minimum

    return minimum(a, b)


def greater(a: Any, b: Any) -> Any:
    """The greater of two."""
    if isinstance(a, _PLAIN) and isinstance(b, _PLAIN):
        return max(a, b)
    from numpy import maximum

    return maximum(a, b)


def root(value: Any) -> Any:
    """The square root, a float or floats."""
    if isinstance(value, _PLAIN):
        return float(value) ** 0.5
    from numpy import sqrt

    return sqrt(value)


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, `no` elsewhere."""
    if isinstance(condition, bool):
        return yes if condition else no
    from numpy import where as elementwise

    return elementwise(condition, yes, no)


def rate(amount: Any, time: Any, otherwise: float = 0.0) -> Any:
    """amount / time as a float; `otherwise` where no time passes."""
    amount, time = real(amount), real(time)
    if isinstance(time, float):
        return amount / time if time else otherwise
    from numpy import divide as elementwise
    from numpy import full_like, not_equal

    empty = full_like(time, otherwise, dtype=float)
    return elementwise(amount, time, out=empty, where=not_equal(time, 0))


def arrayed(value: Any) -> bool:
    """Whether a value is an array: of many loads or sizes at once."""
    return hasattr(value, "shape")


def some(value: Any) -> bool:
    """Whether a number, or any of an array, is not zero."""
    return bool(value.any()) if hasattr(value, "any") else bool(value)


def finite_or(value: Any, otherwise: Any) -> Any:
    """The value where it is finite, `otherwise` elsewhere."""
    return where(value < float("inf"), value, otherwise)


def each(function: Any, *values: Any) -> Any:
    """A function of whole numbers, element by element where arrays came in; then a float each."""
    if all(isinstance(value, _PLAIN) for value in values):
        return function(*values)
    from numpy import vectorize

    known: dict[tuple[Any, ...], float] = {}  # a grid has each value many times

    def once(*row: Any) -> float:
        if row not in known:
            known[row] = float(function(*map(int, row)))
        return known[row]

    return vectorize(once, otypes=[float])(*values)
