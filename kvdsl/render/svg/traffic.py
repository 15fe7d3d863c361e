"""The collectives of a pool: one row each, a bar for a decode step and one for a prefill.

Comes in: collectives of a plan. Goes out: rows that pair both phases, and a drawing of them. Bars
of a phase share an axis that ends at its longest; each says its share of the whole pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kvdsl.plan import CollectiveRow
from kvdsl.render.svg.colours import painted
from kvdsl.render.svg.elements import Frame, Lettering, drawing, hatched, lettered, tag, words
from kvdsl.render.svg.scales import text_width
from kvdsl.units import Quantity, counted, shown

WIDTH = 960
_NAMES, _ROW, _HEAD, _BAR, _GAP, _FIGURE = 250, 24, 30, 14, 36, 130
_SMALL = 11
_PHASES = (("decode", "A decode step"), ("prefill", "A prefill"))
_LOOKS = {True: ("collective", ""), False: ("hue-3", "stripes")}


@dataclass(frozen=True, slots=True)
class Traffic:
    """A collective of a stage in both phases; `again` says that its reason stands above."""

    decode: CollectiveRow | None
    prefill: CollectiveRow | None
    again: bool

    @property
    def either(self) -> CollectiveRow:
        row = self.decode or self.prefill
        assert row is not None
        return row

    def phase(self, name: str) -> CollectiveRow | None:
        return self.decode if name == "decode" else self.prefill


def traffic(rows: Iterable[CollectiveRow]) -> tuple[Traffic, ...]:
    """Both phases paired: what is the same but for its size and its time."""
    found: dict[tuple[str, ...], dict[str, CollectiveRow]] = {}
    for row in rows:
        key: tuple[str, ...] = (
            f"{row.stage:06}",
            row.module,
            row.kind,
            row.axis,
            f"{row.ranks}",
            row.span,
        )
        phases = found.setdefault(key, {})
        while row.phase in phases:  # the same twice in one phase: two rows
            key = (*key, "again")
            phases = found.setdefault(key, {})
        phases[row.phase] = row
    made, reasons = [], set[tuple[str, str, str]]()
    for phases in found.values():
        either = next(iter(phases.values()))
        reason = (either.module, either.kind, either.why)
        made.append(Traffic(phases.get("decode"), phases.get("prefill"), reason in reasons))
        reasons.add(reason)
    return tuple(made)


def traffic_bars(
    name: str, title: str, rows: Sequence[Traffic], wholes: Mapping[str, Quantity]
) -> str:
    """The drawing; nothing where there are no rows. `wholes` are the times of the passes."""
    phases = [(key, told) for key, told in _PHASES if any(row.phase(key) for row in rows)]
    if not phases:
        return ""
    wide = (WIDTH - _NAMES - _GAP * (len(phases) - 1)) / len(phases)
    parts = list(_row_names(rows))
    for number, (key, told) in enumerate(phases):
        panel = _Panel(name, key, _NAMES + number * (wide + _GAP), wide, wholes.get(key))
        parts.extend(panel.drawn(told, rows))
    bottom = float(_HEAD + len(rows) * _ROW + 6)
    if any(not row.either.fast for row in rows):
        parts.extend(_legend(name, bottom))
        bottom += 24
    return drawing(Frame(name, title, description(rows, wholes)), WIDTH, bottom, parts)


def description(rows: Sequence[Traffic], wholes: Mapping[str, Quantity]) -> str:
    """The bars in words."""
    said = []
    for key, told in _PHASES:
        times = [f"{_title(r.either)} {shown(found.all)}" for r in rows if (found := r.phase(key))]
        if times:
            whole = f" of {shown(wholes[key])}" if key in wholes else ""
            said.append(f"{told}{whole}: {', '.join(times)}.")
    return " ".join(said)


def _title(row: CollectiveRow) -> str:
    return f"{row.module} {row.kind}"


def _row_names(rows: Sequence[Traffic]) -> Iterator[str]:
    staged = len({row.either.stage for row in rows}) > 1
    for number, row in enumerate(rows):
        y = _HEAD + number * _ROW + _BAR - 2.5
        stage = f"stage {row.either.stage}" if staged else ""
        room = _NAMES - 24 - (text_width(stage, _SMALL) + 10 if stage else 0)
        yield lettered(0, y, _title(row.either), Lettering(12, most=room))
        if stage:
            end = Lettering(_SMALL, anchor="end", ink="ink-soft")
            yield lettered(_NAMES - 14, y, stage, end)


def _legend(name: str, top: float) -> Iterator[str]:
    x = float(_NAMES)
    for fast, told in ((True, "inside the fast domain"), (False, "leaves the fast domain")):
        colour, hatch = _LOOKS[fast]
        area = {"x": x, "y": top + 4, "width": 14.0, "height": 12.0}
        yield tag("rect", **area, **painted(colour, "frame"))
        if hatch:
            yield tag("rect", **area, **hatched(name, hatch))
        yield lettered(x + 20, top + 14, told, Lettering(_SMALL, ink="ink-soft"))
        x += 20 + text_width(told, _SMALL) + 24


@dataclass(frozen=True, slots=True)
class _Panel:
    """The bars of one phase, from `left`, as wide as `wide` with their figures."""

    name: str
    phase: str
    left: float
    wide: float
    whole: Quantity | None

    def drawn(self, told: str, rows: Sequence[Traffic]) -> Iterator[str]:
        yield lettered(self.left, 14, told, Lettering(12, bold=True))
        if self.whole is not None:
            start = self.left + text_width(told, 12, bold=True) + 8
            whole = f"takes {shown(self.whole)} in all"
            yield lettered(start, 14, whole, Lettering(_SMALL, ink="ink-soft"))
        times = [float(row.all.value) for r in rows if (row := r.phase(self.phase))]
        most = max(times)
        for number, both in enumerate(rows):
            row = both.phase(self.phase)
            if row is not None:
                share = float(row.all.value) / most if most > 0 else 0.0
                yield from self._bar(row, _HEAD + number * _ROW, share)

    def _bar(self, row: CollectiveRow, y: float, share: float) -> Iterator[str]:
        colour, hatch = _LOOKS[row.fast]
        long = max((self.wide - _FIGURE) * share, 1.5)
        area = {"x": self.left, "y": y, "width": long, "height": float(_BAR)}
        shapes = [tag("rect", **area, **painted(colour, "frame"))]
        if hatch:
            shapes.append(tag("rect", **area, **hatched(self.name, hatch)))
        hover = f"{_title(row)}: {counted(row.count, 'times')} {shown(row.once)}"
        yield tag("g", *shapes, tag("title", words(hover)))
        figure = shown(row.all)
        x = self.left + long + 7
        yield lettered(x, y + 11, figure, Lettering(_SMALL, bold=True))
        part = self._part(row)
        if part:
            x += text_width(figure, _SMALL, bold=True) + 6
            yield lettered(x, y + 11, part, Lettering(_SMALL, ink="ink-soft"))

    def _part(self, row: CollectiveRow) -> str:
        """Its share of the pass: `3.6 %`; nothing where it would round to nothing."""
        if self.whole is None or not self.whole.value:
            return ""
        percent = float(row.all.value) / float(self.whole.value) * 100
        return f"{percent:.1f} %" if percent >= 0.05 else ""
