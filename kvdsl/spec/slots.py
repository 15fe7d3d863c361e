"""What may stand in an attribute: the annotations that the resolver reads.

A field of a spec model is `Annotated[python type, slot]`. The slot says how an expression becomes
the value (which dimension, whole or not, which words, which kind of declaration); the python type
is what pydantic checks. The language's reference is generated from both.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from kvdsl import units
from kvdsl.units import Dimension

Exact = int | Fraction


@dataclass(frozen=True, slots=True)
class Measured:
    """A quantity of one dimension, kept in base units. `whole` refuses parts of a base unit;
    `least` is the smallest value allowed, itself included only where `inclusive`."""

    dimension: Dimension
    whole: bool = False
    least: int = 0
    inclusive: bool = True


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number without a unit."""

    least: int = 0


@dataclass(frozen=True, slots=True)
class Ratio:
    """A plain number or per cent between two bounds; `above` leaves the lower one out."""

    least: Fraction = Fraction(0)
    most: Fraction | None = Fraction(1)
    above: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """`true` or `false`."""


@dataclass(frozen=True, slots=True)
class Word:
    """A bare word out of `choices`; any word where there are none."""

    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quoted:
    """A string. `blank` where whoever reads it says what is wrong with an empty one: a path."""

    blank: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """`[a, b]` of one slot; `single` lets one value stand without brackets."""

    item: Measured | Count | Word | Referred
    single: bool = False


@dataclass(frozen=True, slots=True)
class Referred:
    """A declaration of one of these kinds: by name, or inline as a block. `wrap` names the
    attribute that a bare value of another kind in `accepts` fills (a format is a recipe's default,
    a link is a fabric's link)."""

    kinds: tuple[str, ...]
    wrap: str = ""
    accepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """`8 x devices.h100`, or a list of such, in order: hardware or tiers, so many of each."""

    kind: str


@dataclass(frozen=True, slots=True)
class Selected:
    """Hardware to stand on: a cluster, `N x` node, rack or device, or some of one."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A block of attributes of its own. `words` may stand in place of the block."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A block whose names are free: each value has the slot `item`. `bare` lets one value stand
    for all of them."""

    item: Measured | Count | Ratio
    bare: bool = False


@dataclass(frozen=True, slots=True)
class PerScope:
    """A quantity for each of something: `1 TB per node`. The scope must be written."""

    dimension: Dimension
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Special:
    """Read by a function of its own in the resolver: stacks, parts, requirements."""


Slot = (
    Measured
    | Count
    | Ratio
    | Flag
    | Word
    | Quoted
    | Listed
    | Referred
    | Counted
    | Selected
    | Nested
    | Table
    | PerScope
    | Special
)

# The shorthands that the models are written in.

Number = Annotated[int, Count()]
Positive = Annotated[int, Count(1)]
Share = Annotated[Exact, Ratio()]
Yes = Annotated[bool, Flag()]
Maybe = Annotated[bool | None, Flag()]
String = Annotated[str, Quoted()]
Numbers = Annotated[tuple[int, ...], Listed(Count(1))]

Bytes = Annotated[Exact, Measured(units.BYTES)]
PositiveBytes = Annotated[Exact, Measured(units.BYTES, inclusive=False)]
Seconds = Annotated[Exact, Measured(units.TIME)]
Tokens = Annotated[int, Measured(units.TOKENS, whole=True)]
PositiveTokens = Annotated[int, Measured(units.TOKENS, whole=True, least=1)]
Requests = Annotated[int, Measured(units.REQUESTS, whole=True, least=1)]
RequestRate = Annotated[Exact, Measured(units.REQUEST_RATE, inclusive=False)]
ByteRate = Annotated[Exact, Measured(units.BYTE_RATE, inclusive=False)]
Watts = Annotated[Exact, Measured(units.POWER)]
MoneyRate = Annotated[Exact, Measured(units.MONEY_RATE)]
WorkRate = Annotated[Exact, Measured(units.WORK_RATE, inclusive=False)]
Peaks = Annotated[dict[str, Exact], Table(Measured(units.WORK_RATE, inclusive=False))]
