"""A pass as a stack of times, and its collectives alone against the whole of it.

Comes in: a step bar of a plan, or collectives with the time of their pass. Goes out: a drawing in
the unit that suits the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvdsl.plan import CollectiveRow, StepBar
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


def exchanges(name: str, title: str, rows: Sequence[CollectiveRow], whole: Quantity) -> str:
    """Collectives of a pass on an axis as long as the pass: what is left empty is other work."""
    unit = _unit(whole)
    staged = len({row.stage for row in rows}) > 1
    pieces = tuple(
        Piece(
            f"{row.module} {row.kind}" + (f" s{row.stage}" if staged else ""),
            shown(row.all),
            _number(row.all, unit),
            "collective" if row.fast else "hue-3",
            "" if row.fast else "stripes",
        )
        for row in rows
    )
    told = ", ".join(f"{p.label} {p.figure}" for p in pieces)
    frame = Frame(name, title, f"Of {shown(whole)}: {told}.")
    keys = [Key("Inside the fast domain", "collective")] if any(r.fast for r in rows) else []
    if not all(row.fast for row in rows):
        keys.append(Key("Leaves the fast domain", "hue-3", "stripes"))
    most = max(_number(whole, unit), sum(p.value for p in pieces))
    bar = Bar(title, f"of {shown(whole)}", pieces, whole=_number(whole, unit))
    return bars(frame, [bar], Axis(f"Time of the pass ({unit})", most), keys)


def _unit(quantity: Quantity) -> str:
    """The unit in which people read this quantity."""
    return shown(quantity).rsplit(" ", 1)[-1]


def _number(quantity: Quantity, unit: str) -> float:
    return float(quantity.in_unit(unit))
