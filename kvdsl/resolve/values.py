"""What an expression can be: quantities, lists, references to declarations, so many of one.

Comes in: nothing but names and specs. Goes out: frozen values that the evaluator makes and the
attribute readers take apart. Not its job: computing them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvdsl.resolve.names import Declared
from kvdsl.source import Span
from kvdsl.spec.declaration import Declaration
from kvdsl.units import Quantity


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A declaration by name (`declared`), or one that an attribute of another holds (`spec`)."""

    kind: str
    title: str
    declared: Declared | None = None
    spec: Declaration | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A list; each item with its place."""

    items: tuple[tuple[Value, Span], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Many:
    """`8 x devices.h200_sxm`."""

    count: int
    of: Reference


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """`pod.nodes[0..1]`."""

    of: Reference
    level: str
    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Each:
    """`1 TB per node`."""

    quantity: Quantity
    scope: str


@dataclass(frozen=True, slots=True)
class Quotation:
    """A string."""

    text: str


Value = Quantity | bool | Quotation | Series | Reference | Many | Picked | Each


def described(value: Value) -> str:
    """A value as a noun, for messages."""
    match value:
        case Quantity():
            return value.dimension.noun
        case bool():
            return f"`{str(value).lower()}`"
        case Quotation():
            return "a text"
        case Series():
            return "a list"
        case Reference():
            return f"the {value.kind} `{value.title}`"
        case Many():
            return f"{value.count:,} of the {value.of.kind} `{value.of.title}`"
        case Picked():
            return f"some {value.level} of `{value.of.title}`"
        case Each():
            return f"a quantity per {value.scope}"
