"""Written numbers, read exactly.

Comes in: the text of a number. Goes out: an int or Fraction, or None where it is too large to be
meant. Not its job: units (kvdsl.units).
"""

from __future__ import annotations

import re
from fractions import Fraction

from kvdsl.units import Exact, tidy

MOST_DIGITS = 100
"""10^100 is more than anything in a data centre, and 1e999999 would fill memory with zeros."""

NUMBER = re.compile(r"[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?(?:[eE][+-]?[0-9]+)?")
"""A written number; agrees with the grammar's."""

_PARTS = re.compile(r"([0-9_]+)(?:\.([0-9_]+))?(?:[eE]([+-]?)0*([0-9]+))?")


def read_number(text: str) -> Exact | None:
    """The value of `1_402_348`, `0.5`, `4.8e12`; None beyond 100 digits."""
    match = _PARTS.fullmatch(text)
    assert match is not None, text
    whole, part, sign, exponent = match.groups()
    digits = whole.replace("_", "") + (part or "").replace("_", "")
    if len(digits) > MOST_DIGITS or len(exponent or "") > 3:
        return None
    power = int(sign + (exponent or "0") if exponent else "0") - len((part or "").replace("_", ""))
    if abs(power) > MOST_DIGITS or len(digits.lstrip("0")) + power > MOST_DIGITS:
        return None
    return tidy(Fraction(int(digits)) * Fraction(10) ** power)
