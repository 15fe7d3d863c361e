"""Dimensions and exact quantities: the one place that knows a factor.

Comes in: numbers and unit names. Goes out: quantities in base units (B, s, tok, FLOP, req, USD, J)
that convert, add and print exactly. Not its job: which attribute wants which dimension (spec).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import inf, isfinite
from types import MappingProxyType

BASES = ("B", "s", "tok", "FLOP", "req", "USD", "J")
"""Base units, in the order of a dimension's exponents. One OP is one FLOP: both are work."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """Whole exponents over BASES; all zero is a count or a ratio."""

    exponents: tuple[int, ...] = (0,) * len(BASES)

    def __mul__(self, other: Dimension) -> Dimension:
        return Dimension(tuple(a + b for a, b in zip(self.exponents, other.exponents, strict=True)))

    def __truediv__(self, other: Dimension) -> Dimension:
        return Dimension(tuple(a - b for a, b in zip(self.exponents, other.exponents, strict=True)))

    @property
    def base_unit(self) -> str:
        """The unit of a quantity of this dimension in base units: `B/tok`, `1`."""
        above = [_power(b, e) for b, e in zip(BASES, self.exponents, strict=True) if e > 0]
        below = [_power(b, -e) for b, e in zip(BASES, self.exponents, strict=True) if e < 0]
        if not above and not below:
            return "1"
        return "*".join(above or ["1"]) + "".join("/" + unit for unit in below)

    @property
    def noun(self) -> str:
        """What a user calls it: `bytes`, `bytes a second`, `a plain number`."""
        known = _NOUNS.get(self)
        return known if known else f"a quantity in {self.base_unit}"


def _power(base: str, exponent: int) -> str:
    return base if exponent == 1 else f"{base}^{exponent}"


def _base(name: str) -> Dimension:
    return Dimension(tuple(int(base == name) for base in BASES))


NONE = Dimension()
BYTES, TIME, TOKENS, WORK, REQUESTS, MONEY, ENERGY = map(_base, BASES)
POWER = ENERGY / TIME
BYTE_RATE = BYTES / TIME
WORK_RATE = WORK / TIME
TOKEN_RATE = TOKENS / TIME
REQUEST_RATE = REQUESTS / TIME
BYTES_PER_TOKEN = BYTES / TOKENS
MONEY_RATE = MONEY / TIME
MONEY_PER_TOKEN = MONEY / TOKENS

_NOUNS: Mapping[Dimension, str] = MappingProxyType(
    {
        NONE: "a plain number",
        BYTES: "bytes",
        TIME: "a time",
        TOKENS: "tokens",
        WORK: "work (FLOP or OP)",
        REQUESTS: "requests",
        MONEY: "money",
        ENERGY: "energy",
        POWER: "power",
        BYTE_RATE: "bytes a second",
        WORK_RATE: "work a second",
        TOKEN_RATE: "tokens a second",
        REQUEST_RATE: "requests a second",
        BYTES_PER_TOKEN: "bytes a token",
        MONEY_RATE: "money an hour",
        MONEY_PER_TOKEN: "money a token",
    }
)

EXAMPLES: Mapping[Dimension, str] = MappingProxyType(
    {
        BYTES: "80 GB",
        TIME: "30 ms",
        TOKENS: "4096 tok",
        WORK: "1 TFLOP",
        REQUESTS: "128 req",
        MONEY: "10 USD",
        ENERGY: "1 kWh",
        POWER: "700 W",
        BYTE_RATE: "3.35 TB/s",
        WORK_RATE: "989 TFLOP/s",
        TOKEN_RATE: "100 tok/s",
        REQUEST_RATE: "6 req/s",
        BYTES_PER_TOKEN: "70_272 B/tok",
        MONEY_RATE: "2 USD/h",
        MONEY_PER_TOKEN: "1 USD/Mtok",
    }
)
"""For help texts: a quantity of each dimension as a user would write it."""


def _prefixed(base: str, factors: Mapping[str, int]) -> dict[str, Fraction]:
    return {prefix + base: Fraction(factor) for prefix, factor in factors.items()}


_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


def _some(prefixes: str) -> dict[str, int]:
    return {p: _DECIMAL[p] for p in ("", *prefixes)}


_TABLE: tuple[tuple[Dimension, Mapping[str, Fraction]], ...] = (
    (BYTES, _prefixed("B", _some("kMGTP")) | _prefixed("B", _BINARY)),
    (BYTES, {u: f / 8 for u, f in _prefixed("bit", _some("kMGT")).items()}),
    (
        TIME,
        {
            "ns": Fraction(1, 10**9),
            "us": Fraction(1, 10**6),
            "ms": Fraction(1, 10**3),
            "s": Fraction(1),
            "min": Fraction(60),
            "h": Fraction(3600),
            "d": Fraction(86400),
        },
    ),
    (TOKENS, _prefixed("tok", _some("kMG")) | _prefixed("tok", {"Ki": 2**10, "Mi": 2**20})),
    (WORK, _prefixed("FLOP", {p: f for p, f in _DECIMAL.items() if p != "k"})),
    (WORK, _prefixed("OP", {p: f for p, f in _DECIMAL.items() if p not in "kE" or not p})),
    (REQUESTS, {"req": Fraction(1)}),
    (MONEY, {"USD": Fraction(1)}),
    (POWER, _prefixed("W", _some("kM"))),
    (
        ENERGY,
        {
            "J": Fraction(1),
            "Wh": Fraction(3600),
            "kWh": Fraction(3_600_000),
            "MWh": Fraction(3_600_000_000),
        },
    ),
    (NONE, {"%": Fraction(1, 100)}),
)

UNITS: Mapping[str, tuple[Dimension, Fraction]] = MappingProxyType(
    {unit: (dimension, factor) for dimension, units in _TABLE for unit, factor in units.items()}
)
"""Every simple unit: its dimension and how many base units it is."""

UNIT_ROWS: tuple[tuple[Dimension, tuple[str, ...]], ...] = tuple(
    (dimension, tuple(units)) for dimension, units in _TABLE
)

MISTAKEN: Mapping[str, str] = MappingProxyType(
    {
        "KB": "kB (1,000 B) or KiB (1,024 B)",
        "Kb": "kB, KiB or kbit",
        "kb": "kB or kbit",
        "Mb": "MB or Mbit",
        "Gb": "GB (bytes) or Gbit (bits)",
        "Tb": "TB or Tbit",
        "gb": "GB",
        "mb": "MB",
        "GIB": "GiB",
        "Gib": "GiB",
        "gib": "GiB",
        "Gbps": "Gbit/s",
        "Mbps": "Mbit/s",
        "GBps": "GB/s",
        "K": "a unit behind the prefix: 1.4 ktok, 1.4 kB",
        "k": "a unit behind the prefix: 1.4 ktok, 1.4 kB",
        "M": "a unit behind the prefix: 1.4 Mtok, 1.4 MB",
        "G": "a unit behind the prefix: 1.4 Gtok, 1.4 GB",
        "T": "a unit behind the prefix: 1.4 TB, 1.4 TFLOP",
        "B/s/s": "B/s",
        "token": "tok",
        "tokens": "tok",
        "toks": "tok",
        "Ktok": "ktok (1,000 tok) or Kitok (1,024 tok)",
        "requests": "req",
        "request": "req",
        "users": "req",
        "ktokens": "ktok",
        "Mtokens": "Mtok",
        "rps": "req/s",
        "qps": "req/s",
        "RPS": "req/s",
        "QPS": "req/s",
        "tps": "tok/s",
        "percent": "%",
        "pct": "%",
        "reqs": "req",
        "sec": "s",
        "secs": "s",
        "seconds": "s",
        "hr": "h",
        "hour": "h",
        "hours": "h",
        "day": "d",
        "days": "d",
        "msec": "ms",
        "usec": "us",
        "\u00b5s": "us",
        "\u03bcs": "us",
        "FLOPS": "FLOP/s",
        "TFLOPS": "TFLOP/s",
        "GFLOPS": "GFLOP/s",
        "PFLOPS": "PFLOP/s",
        "TFLOPs": "TFLOP/s",
        "PFLOPs": "PFLOP/s",
        "TOPS": "TOP/s",
        "$": "USD",
        "dollar": "USD",
        "dollars": "USD",
        "bits": "bit",
        "bytes": "B",
    }
)
"""What people write, and what they mean."""

Exact = int | Fraction
Value = int | Fraction | float


def tidy(value: Exact) -> Exact:
    """A Fraction that is whole, as an int."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    return value


@cache
def unit(name: str) -> tuple[Dimension, Fraction] | None:
    """Dimension and factor of a unit or of one unit over another; None if it is none."""
    above, slash, below = name.partition("/")
    if above == "1" and slash:
        upper: tuple[Dimension, Fraction] | None = (NONE, Fraction(1))
    else:
        upper = UNITS.get(above)
    if upper is None or not slash:
        return upper
    lower = UNITS.get(below)
    if lower is None or above == "%" or below == "%":
        return None
    return upper[0] / lower[0], upper[1] / lower[1]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in base units and its dimension. Exact unless the value is a float (times, rates)."""

    value: Value
    dimension: Dimension = NONE

    @staticmethod
    def of(number: Exact, unit_name: str) -> Quantity:
        """`Quantity.of(80, "GB")`. Raises KeyError on an unknown unit."""
        known = unit(unit_name)
        if known is None:
            raise KeyError(unit_name)
        dimension, factor = known
        return Quantity(tidy(number * factor), dimension)

    def in_unit(self, unit_name: str) -> Value:
        """The number in front of that unit. Raises ValueError where the dimension is another."""
        known = unit(unit_name)
        if known is None or known[0] != self.dimension:
            raise ValueError(f"{unit_name} does not measure {self.dimension.noun}")
        factor = known[1]
        if isinstance(self.value, float):
            return self.value / float(factor)
        return tidy(self.value / factor)

    @property
    def unit(self) -> str:
        return self.dimension.base_unit

    def __str__(self) -> str:
        return shown(self)


# --- printing ----------------------------------------------------------------------------------

_LADDERS: Mapping[Dimension, tuple[str, ...]] = MappingProxyType(
    {
        BYTES: ("PB", "TB", "GB", "MB", "kB", "B"),
        TIME: ("s", "ms", "us", "ns"),
        WORK: ("EFLOP", "PFLOP", "TFLOP", "GFLOP", "MFLOP", "FLOP"),
        POWER: ("MW", "kW", "W"),
        BYTE_RATE: ("PB/s", "TB/s", "GB/s", "MB/s", "kB/s", "B/s"),
        WORK_RATE: ("EFLOP/s", "PFLOP/s", "TFLOP/s", "GFLOP/s", "FLOP/s"),
        MONEY_RATE: ("USD/h",),
        MONEY_PER_TOKEN: ("USD/Mtok",),
        ENERGY: ("MWh", "kWh", "Wh", "J"),
    }
)


MOST_DIGITS = 18
"""Nobody reads longer numbers: from here on they are printed as the language writes `4.8e12`."""


def grouped(value: Value) -> str:
    """A number with thousands apart: `1,402,348`, `0.92`, `25.37`; at most 4 digits of a part.
    What is absurdly large is rounded, to `5.161e23`."""
    if abs(value) >= 10**MOST_DIGITS and (isinstance(value, int | Fraction) or isfinite(value)):
        return _scientific(value)
    if isinstance(value, float) or (isinstance(value, Fraction) and value.denominator != 1):
        number = float(value)
        if not isfinite(number):
            return str(number)
        size = abs(number)
        digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
        if 0 < size < 0.001:
            return f"{number:.3g}"
        text = f"{number:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{int(value):,}"


def decimals(value: float, digits: int) -> str:
    """With so many decimals, that figures stand below each other; what is absurd is rounded."""
    return grouped(value) if abs(value) >= 10**MOST_DIGITS else f"{value:,.{digits}f}"


def _scientific(value: Value) -> str:
    figure, _, power = f"{Decimal(int(value)):.3e}".partition("e+")
    return f"{figure.rstrip('0').rstrip('.')}e{power}"


def counted(number: Value | str, nouns: str) -> str:
    """A number with its noun, which is given in the plural: `8 query heads`, `1 query head`,
    `1 copy`; `3 times` and `once`. A number that is text already stays as it is printed."""
    text = number if isinstance(number, str) else grouped(number)
    if text != "1":
        return f"{text} {nouns}"
    if nouns == "times":
        return "once"
    for plural, singular in (("ies", "y"), ("ches", "ch"), ("xes", "x"), ("sses", "ss")):
        if nouns.endswith(plural):
            return f"1 {nouns.removesuffix(plural)}{singular}"
    return f"1 {nouns.removesuffix('s')}"


class Numeral(str):
    """A printed fact of a template, where `{heads:query heads}` puts its noun behind it."""

    __slots__ = ()

    def __format__(self, nouns: str) -> str:
        return counted(str(self), nouns) if nouns else str(self)


def shown(quantity: Quantity) -> str:
    """For people, rounded: `45.23 GB`, `1,402,348 tok`, `9.53 ms`, `64,512 B/tok`."""
    ladder = _LADDERS.get(quantity.dimension)
    if ladder is None:
        suffix = "" if quantity.dimension == NONE else " " + quantity.unit
        return grouped(quantity.value) + suffix
    size: Value = abs(quantity.value)  # type: ignore[assignment]
    name = next((n for n in ladder if size >= _factor(n)), ladder[-1])
    if not size and quantity.unit in ladder:
        name = quantity.unit
    number = quantity.in_unit(name)
    if isinstance(number, Fraction):
        number = float(number)
    if name == ladder[0] and _MOST_OF_LARGEST <= abs(number) < inf:
        return f"{_scientific(number)} {name}"
    return f"{grouped(number)} {name}"


_MOST_OF_LARGEST = 10**9
"""There is no larger unit to go to: what has more of the largest is absurd, and rounded."""


def _factor(name: str) -> Fraction:
    known = unit(name)
    if known is None:
        raise KeyError(name)
    return known[1]


_NATURAL: Mapping[Dimension, str] = MappingProxyType(
    {POWER: "W", MONEY_RATE: "USD/h", MONEY_PER_TOKEN: "USD/Mtok"}
)
"""Units that are told where the base unit is nobody's: watts, not joules a second."""


def told(quantity: Quantity) -> tuple[Value, str]:
    """Value and unit as a machine is told them: base units, but watts, USD/h and USD/Mtok."""
    name = _NATURAL.get(quantity.dimension)
    return (quantity.value, quantity.unit) if name is None else (quantity.in_unit(name), name)


def number_text(value: Value) -> str:
    """A value alone, for scripts: an int where it is whole, else a decimal."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value.numerator)
    return str(value) if isinstance(value, int) else repr(float(value))


def percent(share: Value) -> str:
    """`85.3 %` of 0.853, and `90 %`: a share as sentences have it."""
    return f"{round(float(share) * 100, 1):g} %"


def exact(quantity: Quantity) -> str:
    """Unrounded where the value is exact: `45234163200 B`."""
    value, name = told(quantity)
    if isinstance(value, Fraction) and value.denominator != 1:
        number = f"{value.numerator}/{value.denominator}"
    elif isinstance(value, float):
        number = repr(value)
    else:
        number = str(int(value))
    return number if quantity.dimension == NONE else f"{number} {name}"
