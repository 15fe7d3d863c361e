"""Stacked bars on one axis: pieces with their labels inside, or beside on a leader.

Comes in: bars of pieces in the axis's unit. Goes out: a drawing. A piece too narrow for its words
gets them below the bar; where even those would collide, the smallest stay in the table alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvdsl.render.svg.colours import painted, stroke
from kvdsl.render.svg.elements import (
    Frame,
    Lettering,
    drawing,
    hatched,
    lettered,
    line,
    tag,
    words,
)
from kvdsl.render.svg.scales import Scale, linear_ticks, spread, text_width, tick_text

WIDTH = 960
_LEFT, _RIGHT = 8, 24
_BAR, _THIN, _TITLE, _LEADERS, _GAP = 38, 10, 20, 30, 14
_SMALL = 11
_WIDEST_NOTE = 480
_LEGEND = 30
_LIMIT_ROOM = 18
_LEAST_NAMED = 0.004
"""A piece that is a smaller part of the axis has no words: they would push others far away."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a bar: `value` in the axis's unit, `figure` as people read it."""

    label: str
    figure: str
    value: float
    fill: str
    hatch: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A row: what it is, a note at its right end, its pieces, a limit to mark across."""

    title: str
    note: str
    pieces: tuple[Piece, ...]
    limit: float | None = None
    limit_label: str = ""
    thin: bool = False
    """Without words in it: its title says all."""


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend."""

    label: str
    fill: str
    hatch: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    label: str
    most: float


def bars(frame: Frame, rows: Sequence[Bar], axis: Axis, keys: Sequence[Key]) -> str:
    """One drawing of all rows over a common axis; nothing where there is nothing to draw."""
    if not rows or not axis.most > 0:
        return ""
    ticks = linear_ticks(0, axis.most, 9)
    scale = Scale(0, max(axis.most, ticks[-2]), _LEFT, WIDTH - _RIGHT)
    parts: list[str] = []
    top = _legend(parts, keys, frame.name)
    tops = []
    for row in rows:
        tops.append(top)
        parts.extend(_row(row, scale, top, frame.name))
        top += _height(row, scale)
    parts.extend(_axis([t for t in ticks if t <= scale.high * 1.0001], scale, top, axis.label))
    return drawing(frame, WIDTH, top + 44, parts)


def _height(row: Bar, scale: Scale) -> float:
    if row.thin:
        return _TITLE + _THIN + _GAP
    limit = _LIMIT_ROOM if row.limit is not None else 0
    named = [p for p in row.pieces if p.value >= _LEAST_NAMED * scale.high]
    leaders = _LEADERS if any(not _inside(p, scale) for p in named) else 0
    return _TITLE + limit + _BAR + leaders + _GAP


def _legend(parts: list[str], keys: Sequence[Key], name: str) -> float:
    """The legend, wrapped where it is wider than the drawing. Gives the height it took."""
    x, y = float(_LEFT), 4.0
    for key in keys:
        wide = 22 + text_width(key.label, 12) + 22
        if x > _LEFT and x + wide > WIDTH - _RIGHT:
            x, y = float(_LEFT), y + 22
        parts.extend(_box(x, y, 14, 14, (key.fill, key.hatch), name))
        parts.append(lettered(x + 21, y + 11.5, key.label, Lettering(ink="ink-soft")))
        x += wide
    return y + _LEGEND if keys else 4


def _box(
    x: float, y: float, width: float, height: float, look: tuple[str, str], name: str
) -> Iterator[str]:
    colour, hatch = look
    yield tag("rect", x=x, y=y, width=width, height=height, **painted(colour, "frame"))
    if hatch:
        yield tag("rect", x=x, y=y, width=width, height=height, **hatched(name, hatch))


def _wide(piece: Piece) -> float:
    return max(text_width(piece.label, _SMALL), text_width(piece.figure, _SMALL, bold=True))


def _inside(piece: Piece, scale: Scale) -> bool:
    room = scale.at(piece.value) - scale.at(0)
    return room >= _wide(piece) + 12


def _row(row: Bar, scale: Scale, top: float, name: str) -> Iterator[str]:
    note_wide = min(text_width(row.note, 12), _WIDEST_NOTE)
    room = WIDTH - _LEFT - _RIGHT - note_wide - 24
    yield lettered(_LEFT, top + 12, row.title, Lettering(12.5, bold=True, most=room))
    yield lettered(
        WIDTH - _RIGHT,
        top + 12,
        row.note,
        Lettering(anchor="end", ink="ink-soft", most=_WIDEST_NOTE),
    )
    bar = top + _TITLE + (_LIMIT_ROOM if row.limit is not None else 0)
    start, outside = 0.0, []
    for piece in row.pieces:
        if piece.value <= 0:
            continue
        x, end = scale.at(start), scale.at(start + piece.value)
        start += piece.value
        wide = max(end - x, 1)
        yield tag(
            "g",
            *_box(x, bar, wide, _THIN if row.thin else _BAR, (piece.fill, piece.hatch), name),
            tag("title", words(f"{piece.label}: {piece.figure}")),
        )
        if row.thin:
            continue
        if _inside(piece, scale):
            yield from _words_inside(piece, x + wide / 2, bar)
        elif piece.value >= _LEAST_NAMED * scale.high:
            outside.append((piece, x + wide / 2))
    yield from _leaders(outside, bar + _BAR)
    if row.limit is not None:
        yield from _limit(row, scale.at(row.limit), bar)


def _words_inside(piece: Piece, middle: float, bar: float) -> Iterator[str]:
    if piece.hatch:  # words on a pattern are hard to read
        wide = _wide(piece) + 8
        plate = {"x": middle - wide / 2, "y": bar + 5, "width": wide, "height": _BAR - 10.0}
        fill = painted(piece.fill, piece.fill)
        yield tag("rect", **plate, rx=2, **fill)
    yield lettered(middle, bar + 16, piece.label, Lettering(_SMALL, anchor="middle"))
    yield lettered(middle, bar + 30, piece.figure, Lettering(_SMALL, bold=True, anchor="middle"))


def _leaders(outside: Sequence[tuple[Piece, float]], bottom: float) -> Iterator[str]:
    """Labels below the bar. The smallest pieces go without one where not all have room."""
    kept = list(outside)
    room = WIDTH - _LEFT - _RIGHT

    def sizes() -> list[float]:
        return [text_width(f"{p.label} {p.figure}", _SMALL) + 16 for p, _ in kept]

    while kept and sum(sizes()) > room:
        kept.remove(min(kept, key=lambda item: item[0].value))
    places = spread([x for _, x in kept], sizes(), _LEFT, WIDTH - _RIGHT)
    for (piece, x), place in zip(kept, places, strict=True):
        points = f"{x:.2f},{bottom} {x:.2f},{bottom + 4} {place:.2f},{bottom + 12}"
        yield tag("polyline", points=points, fill="none", **stroke("ink-faint"))
        inside = f"{piece.label} {piece.figure}"
        style = Lettering(_SMALL, anchor="middle", ink="ink-soft")
        yield lettered(place, bottom + 23, inside, style)


def _limit(row: Bar, x: float, bar: float) -> Iterator[str]:
    yield line(x, bar - 7, x, bar + _BAR + 5, "alarm", stroke_width=2, stroke_dasharray="5 3")
    end = x - 5 if x > WIDTH / 2 else x + 5
    anchor = "end" if x > WIDTH / 2 else "start"
    style = Lettering(_SMALL, bold=True, anchor=anchor, ink="alarm")
    yield lettered(end, bar - 5, row.limit_label, style)


def _axis(ticks: Sequence[float], scale: Scale, top: float, label: str) -> Iterator[str]:
    yield line(_LEFT, top, WIDTH - _RIGHT, top, "frame")
    for value in ticks:
        x = scale.at(value)
        yield line(x, top, x, top + 5, "frame")
        anchor = "start" if value == 0 else "middle"
        style = Lettering(_SMALL, anchor=anchor, ink="ink-soft")
        yield lettered(x, top + 18, tick_text(value), style)
    end = Lettering(anchor="middle", ink="ink-soft")
    yield lettered((_LEFT + WIDTH - _RIGHT) / 2, top + 36, label, end)
