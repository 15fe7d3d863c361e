"""What an attribute takes, and its default, in words: read off its slots.

Comes in: slots of a spec model's field. Goes out: short texts for a table.
"""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from pydantic.fields import FieldInfo

from kvdsl.reference.markdown import code
from kvdsl.spec.slots import (
    Count,
    Counted,
    Flag,
    Listed,
    Measured,
    Nested,
    PerScope,
    Quoted,
    Ratio,
    Referred,
    Selected,
    Slot,
    Special,
    Table,
    Word,
)
from kvdsl.units import EXAMPLES, Dimension, Quantity, grouped, shown

Plain = Measured | Count | Ratio | Flag | Word | Quoted | PerScope
"""Slots of a single value that refers to nothing."""

REQUIRED = "**required**"


def takes(slots: tuple[Slot, ...]) -> str:
    """`bytes`, `a whole number from 1`, `a link or a block`."""
    return " or ".join(dict.fromkeys(_one(slot) for slot in slots))


def _one(slot: Slot) -> str:
    match slot:
        case Listed(item=item, single=single):
            return f"list of {_one(item)}" + (", or one" if single else "")
        case Referred(kinds=kinds, accepts=accepts):
            return " or ".join(dict.fromkeys((*kinds, *accepts)))
        case Counted(kind=kind):
            return f"{code(f'N x {kind}')}, or a list of them"
        case Selected():
            return f"cluster; {code('N x')} node, rack or device; or some of one"
        case Nested(words=words):
            return " or ".join(("block", *map(code, words)))
        case Table(item=item):
            return f"block: {_plain(item)} by name"
        case Special():
            return "block"
        case _:
            return _plain(slot)


def _plain(slot: Plain) -> str:
    match slot:
        case Measured(dimension=dimension):
            return dimension.noun
        case Count(least=least):
            return f"whole number from {least}"
        case Ratio():
            return _ratio(slot)
        case Flag():
            return f"{code('true')}, {code('false')}"
        case Word(choices=choices):
            return ", ".join(map(code, choices)) or "a word"
        case Quoted():
            return "text in quotes"
        case PerScope(dimension=dimension, scopes=scopes):
            return f"{dimension.noun} {code('per')} {', '.join(scopes)}"
        case _:
            assert_never(slot)


def _ratio(slot: Ratio) -> str:
    least = f"above {grouped(slot.least)}" if slot.above else f"from {grouped(slot.least)}"
    return f"ratio {least}" + ("" if slot.most is None else f" to {grouped(slot.most)}")


def default(field: FieldInfo, slots: tuple[Slot, ...]) -> str:
    """What holds where nobody writes the attribute; `-` for nothing."""
    if field.is_required():
        return REQUIRED
    value = field.default
    match value:
        case bool():
            return code(str(value).lower())
        case int() | Fraction():
            return _number(value, _dimension(slots))
        case str():
            return code(value)
        case tuple() if value:
            return code(f"[{', '.join(map(str, value))}]")
        case _:
            return "-"


def _dimension(slots: tuple[Slot, ...]) -> Dimension | None:
    for slot in slots:
        if isinstance(slot, Measured):
            return slot.dimension
    return None


def _number(value: int | Fraction, dimension: Dimension | None) -> str:
    return grouped(value) if dimension is None else shown(Quantity(value, dimension))


def example(dimension: Dimension) -> str:
    """A quantity as one would write it; a bare number where it has no unit."""
    return code(EXAMPLES[dimension]) if dimension in EXAMPLES else "-"
