"""The memory of each rank class as a stacked bar, with the budget marked across it.

Comes in: memory bars of one pool. Goes out: a drawing; every byte of a device is in one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvdsl.plan import MemoryBar, Segment
from kvdsl.render.svg.bars import Axis, Bar, Key, Piece, bars
from kvdsl.render.svg.elements import Frame
from kvdsl.units import Quantity, shown

UNIT = "GB"

_LOOKS = {
    "cache": ("cache", ""),
    "free": ("free", ""),
    "reserve": ("reserve", "stripes"),
    "over": ("over", "crossed"),
}
_NAMES = (
    ("weights", "Weights, by module"),
    ("cache", "Cache that the workload fills"),
    ("free", "Free for more cache"),
    ("reserve", "Reserve"),
    ("over", "Outside the budget"),
)


def memory(name: str, title: str, rows: Sequence[MemoryBar]) -> str:
    """A drawing of all rank classes of a pool over one axis in GB."""
    frame = Frame(name, title, description(rows))
    groups = {segment.group for row in rows for segment in row.segments if segment.quantity.value}
    keys = [
        Key(label, *_LOOKS.get(group, ("weights-0", "")))
        for group, label in _NAMES
        if group in groups
    ]
    most = max((_number(row.memory) for row in rows), default=0.0)
    drawn = [_bar(row, _tones(rows)) for row in rows]
    most = max([most, *(sum(p.value for p in bar.pieces) for bar in drawn)])
    return bars(frame, drawn, Axis(f"Memory of one device ({UNIT})", most), keys)


def description(rows: Sequence[MemoryBar]) -> str:
    """The bars in words."""
    said = []
    for row in rows:
        parts = ", ".join(f"{s.label} {shown(s.quantity)}" for s in row.segments)
        said.append(f"{row.title}: {shown(row.memory)}, of it {parts}.")
    return " ".join(said)


def _number(quantity: Quantity) -> float:
    return float(quantity.in_unit(UNIT))


def _tones(rows: Sequence[MemoryBar]) -> Mapping[str, tuple[str, str]]:
    """A tone for each module of the weights, the same in every bar."""
    labels = dict.fromkeys(s.label for row in rows for s in row.segments if s.group not in _LOOKS)
    return {label: (f"weights-{number % 3}", "") for number, label in enumerate(labels)}


def _bar(row: MemoryBar, tones: Mapping[str, tuple[str, str]]) -> Bar:
    pieces = [_piece(s, _LOOKS.get(s.group) or tones[s.label]) for s in row.segments]
    many = f"{row.devices:,} × " if row.devices > 1 else ""
    note = f"{many}{row.device}, {shown(row.memory)} each"
    limit = f"budget {shown(row.usable)}"
    return Bar(row.title, note, tuple(pieces), _number(row.usable), limit)


def _piece(segment: Segment, look: tuple[str, str]) -> Piece:
    return Piece(segment.label, shown(segment.quantity), _number(segment.quantity), *look)
