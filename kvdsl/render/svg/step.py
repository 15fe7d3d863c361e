"""A pass as a stack of times over its roofs.

Comes in: a step bar of a plan. Goes out: a drawing in the unit that suits the whole.
"""

from __future__ import annotations

from kvdsl.plan import StepBar
from kvdsl.render.svg.bars import Axis, Bar, Key, Piece, bars
from kvdsl.render.svg.elements import Frame
from kvdsl.units import Quantity, shown

_LOOKS = {
    "compute": ("compute", ""),
    "attention": ("attention", ""),
    "collective": ("collective", "rising"),
    "other": ("other", "stripes"),
}
_NAMES = (
    ("read", "Weights read"),
    ("attention", "Cache read, attention"),
    ("compute", "Compute"),
    ("collective", "Collectives and sends"),
    ("other", "Overhead"),
)


def step(name: str, bar: StepBar) -> str:
    """The stack of one pass."""
    unit = _unit(bar.whole)
    pieces, reads = [], 0
    for segment in bar.segments:
        look = _LOOKS.get(segment.group, (f"weights-{reads % 3}", ""))
        reads += segment.group not in _LOOKS
        number = _number(segment.quantity, unit)
        pieces.append(Piece(segment.label, shown(segment.quantity), number, *look))
    groups = {segment.group for segment in bar.segments if segment.quantity.value}
    keys = [Key(n, *_LOOKS.get(g, ("weights-0", ""))) for g, n in _NAMES if g in groups]
    told = ", ".join(f"{s.label} {shown(s.quantity)}" for s in bar.segments)
    frame = Frame(name, bar.title, f"{shown(bar.whole)} in all: {told}. {bar.roofline}")
    roofs = [_roof(label, limit, unit) for label, limit in bar.limits]
    rows = [Bar(bar.title, shown(bar.whole), tuple(pieces)), *roofs]
    most = max(_number(bar.whole, unit), *(sum(p.value for p in r.pieces) for r in rows))
    return bars(frame, rows, Axis(f"Time of the pass ({unit})", most), keys)


def _roof(label: str, limit: Quantity, unit: str) -> Bar:
    """A roof of the roofline as a thin bar below the stack."""
    piece = Piece(label, shown(limit), _number(limit, unit), "panel-deep")
    return Bar(f"Roof: {label}", shown(limit), (piece,), thin=True)


def _unit(quantity: Quantity) -> str:
    """The unit in which people read this quantity."""
    return shown(quantity).rsplit(" ", 1)[-1]


def _number(quantity: Quantity, unit: str) -> float:
    return float(quantity.in_unit(unit))
