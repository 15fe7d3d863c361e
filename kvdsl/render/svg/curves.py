"""Line charts: round ticks, units on both axes, direct labels at the ends of the lines.

Comes in: a chart of a plan. Goes out: a drawing. Lines differ by dash and mark as well as by hue.
Points that a logarithmic axis cannot show are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from kvdsl.plan import Chart, Series
from kvdsl.render.svg.colours import LINES, painted, stroke
from kvdsl.render.svg.elements import Frame, Lettering, drawing, lettered, line, tag, words
from kvdsl.render.svg.scales import (
    Scale,
    fitted,
    linear_ticks,
    log_ticks,
    next_round,
    spread,
    text_width,
    tick_text,
)
from kvdsl.render.visible import visible

WIDTH, _PLOT = 960, 240
_LEFT, _TOP, _BOTTOM = 62, 26, 50
_SMALL = 11
_MOST_VALUES = 9
"""So many values on the axis across are each a tick."""
_WIDEST_LABEL = 190
_DASHES = ("", "7 3", "2 3", "10 3 2 3", "5 5", "1 4")


@dataclass(frozen=True, slots=True)
class _Line:
    series: Series
    points: tuple[tuple[float, float], ...]
    ink: str
    dash: str
    number: int


@dataclass(frozen=True, slots=True)
class _Plot:
    across: Scale
    up: Scale
    x_ticks: tuple[float, ...]
    y_ticks: tuple[float, ...]

    def at(self, point: tuple[float, float]) -> tuple[float, float]:
        return self.across.at(point[0]), self.up.at(point[1])


def curves(name: str, chart: Chart) -> str:
    """One chart; nothing where no point can be shown."""
    lines = _lines(chart)
    if not lines:
        return ""
    labels = [fitted(item.series.label, _WIDEST_LABEL, _SMALL, bold=True) for item in lines]
    right = 26 + max(text_width(label, _SMALL, bold=True) for label in labels)
    rows = _mark_rows(chart.marks)
    top = _TOP + 14 * len(rows)
    plot = _plot(chart, lines, right, top)
    parts = [*_axes(chart, plot, top)]
    parts.extend(_marks(chart, rows, plot, top))
    for item in lines:
        parts.extend(_drawn(item, plot, chart))
    parts.extend(_labels(lines, labels, plot))
    frame = Frame(name, chart.title, chart.alternative_text or _told(chart))
    return drawing(frame, WIDTH, top + _PLOT + _BOTTOM, parts)


def _told(chart: Chart) -> str:
    return f"{chart.y_label} ({chart.y_unit}) over {chart.x_label} ({chart.x_unit})."


def _lines(chart: Chart) -> tuple[_Line, ...]:
    found: list[_Line] = []
    for series in chart.series:
        points = tuple(sorted(p for p in series.points if _showable(p, chart)))
        twin = next((i for i, line in enumerate(found) if line.points == points), None)
        if (
            points and twin is not None
        ):  # one line under both names, or the last would hide the first
            first = found[twin]
            label = f"{first.series.label}, {series.label}"
            both = replace(first.series, label=label, main=first.series.main or series.main)
            found[twin] = replace(first, series=both)
        elif points:
            number = len(found)
            ink, dash = f"line-{number % LINES}", _DASHES[number % len(_DASHES)]
            found.append(_Line(series, points, ink, dash, number))
    return tuple(found)


def _showable(point: tuple[float, float], chart: Chart) -> bool:
    x, y = point
    if not (isfinite(x) and isfinite(y)):
        return False
    return (x > 0 or not chart.log_x) and (y > 0 or not chart.log_y)


def _plot(chart: Chart, lines: Sequence[_Line], right: float, top: float) -> _Plot:
    xs = [x for item in lines for x, _ in item.points]
    ys = [y for item in lines for _, y in item.points]
    x_low, x_high = min(xs), max(xs)
    if x_low == x_high:
        x_low, x_high = (x_low / 2, x_high * 2) if chart.log_x else (x_low - 1, x_high + 1)
    y_ticks = _ticks(min(ys), max(ys), log=True) if chart.log_y else linear_ticks(0, max(ys))
    y_top = min(y_ticks[-1], next_round(max(ys))) if chart.log_y else y_ticks[-1]
    if not chart.log_y and min(ys) < 0:
        y_ticks = linear_ticks(min(ys), max(ys))
        y_top = y_ticks[-1]
    x_ticks = _ticks(x_low, x_high, log=chart.log_x)
    # A tick just outside is worth the room: 1,000 where the points begin at 1,024.
    x_low = next((t for t in x_ticks if chart.log_x and x_low / 1.1 <= t <= x_low), x_low)
    x_high = next((t for t in x_ticks if chart.log_x and x_high <= t <= x_high * 1.1), x_high)
    across = Scale(x_low, x_high, _LEFT, WIDTH - right, chart.log_x)
    up = Scale(y_ticks[0], y_top, top + _PLOT, top, chart.log_y)
    inside = tuple(t for t in x_ticks if x_low * 0.999 <= t <= x_high * 1.001)
    values = tuple(sorted(set(xs)))
    if 1 < len(values) <= _MOST_VALUES and all(len(tick_text(x)) <= 4 for x in values):
        inside = values  # few and short: the values themselves are the best ticks
    return _Plot(across, up, inside or (x_low, x_high), tuple(t for t in y_ticks if t <= y_top))


def _ticks(low: float, high: float, *, log: bool) -> tuple[float, ...]:
    if not log:
        return linear_ticks(low, high)
    return log_ticks(low, high) if high > low else log_ticks(low / 2, high * 2)


def _axes(chart: Chart, plot: _Plot, top: float) -> Iterator[str]:
    bottom, end = top + _PLOT, plot.across.end
    for value in plot.y_ticks:
        y = plot.up.at(value)
        yield line(_LEFT, y, end, y, "rule")
        style = Lettering(_SMALL, anchor="end", ink="ink-soft")
        yield lettered(_LEFT - 7, y + 4, _tick(value, chart.y_unit, plot), style)
    yield line(_LEFT, bottom, end, bottom, "ink-faint")
    for value in plot.x_ticks:
        x = plot.across.at(value)
        yield line(x, bottom, x, bottom + 5, "ink-faint")
        style = Lettering(_SMALL, anchor="middle", ink="ink-soft")
        yield lettered(x, bottom + 18, tick_text(value), style)
    x_words = _with_unit(chart.x_label, chart.x_unit)
    y_words = _with_unit(chart.y_label, "" if _timed(chart.y_unit, plot) else chart.y_unit)
    middle = Lettering(anchor="middle", ink="ink-soft")
    yield lettered((_LEFT + end) / 2, bottom + 38, x_words, middle)
    yield lettered(4, 13, y_words, Lettering(ink="ink-soft", most=WIDTH - 8))


def _timed(unit: str, plot: _Plot) -> bool:
    """Whether times span so much that each tick has a unit of its own: 10 ms, 100 s."""
    return unit == "ms" and plot.up.high >= 10_000


def _tick(value: float, unit: str, plot: _Plot) -> str:
    if not _timed(unit, plot):
        return tick_text(value)
    return f"{value / 1000:,.4g} s" if value >= 1000 else f"{value:.4g} ms"


def _with_unit(label: str, unit: str) -> str:
    """`time of a token (ms)`; what counts requests or tokens has said so."""
    counts = (unit == "req" and "requests" in label) or (unit == "tok" and "tokens" in label)
    return f"{label} ({unit})" if unit and not counts else label


def _mark_rows(marks: Sequence[tuple[float, str]]) -> tuple[tuple[tuple[float, str], ...], ...]:
    """Marks in rows of one, leftmost on top: no line then runs through the name of another."""
    return tuple((mark,) for mark in sorted(marks))


def _marks(
    chart: Chart, rows: Sequence[Sequence[tuple[float, str]]], plot: _Plot, top: float
) -> Iterator[str]:
    for number, row in enumerate(rows):
        for value, label in row:
            if not plot.across.low <= value <= plot.across.high or (chart.log_x and value <= 0):
                continue
            x, y = plot.across.at(value), _TOP + 14 * number + 4
            yield line(x, y + 3, x, top + _PLOT, "ink-faint", stroke_dasharray="2 3")
            told = fitted(visible(label), WIDTH - 8 - _LEFT, _SMALL)
            wide = text_width(told, _SMALL)
            start = min(x - 3, WIDTH - 4 - wide)
            plate = {"x": start - 3, "y": y - 10, "width": wide + 6, "height": 13.0}
            yield tag("rect", **plate, **painted("paper", "paper"))
            yield lettered(start, y, told, Lettering(_SMALL, ink="ink-soft"))


def _drawn(item: _Line, plot: _Plot, chart: Chart) -> Iterator[str]:
    places = [plot.at(p) for p in item.points]
    path = " ".join(f"{x:.2f},{y:.2f}" for x, y in places)
    yield tag(
        "polyline",
        points=path,
        fill="none",
        stroke_width=2.6 if item.series.main else 1.7,
        stroke_linejoin="round",
        stroke_dasharray=item.dash or None,
        **stroke(item.ink),
    )
    if len(places) > 40:  # a mark a point would be a smear
        return
    for (x, y), (across, up) in zip(places, item.points, strict=True):
        told = f"{item.series.label}: {tick_text(across)} {chart.x_unit}, "
        told += (
            _tick(up, "ms", plot)
            if _timed(chart.y_unit, plot)
            else f"{tick_text(up)} {chart.y_unit}"
        )
        yield _mark(item, x, y, told)


def _mark(item: _Line, x: float, y: float, told: str) -> str:
    r = 3.4 if item.series.main else 2.8
    look = {"stroke_width": 1.4}
    colours = painted(item.ink if item.series.main else "paper", item.ink)
    title = tag("title", words(told))
    if item.number % 3 == 0:
        return tag("circle", title, cx=x, cy=y, r=r, **look, **colours)
    if item.number % 3 == 1:
        return tag("rect", title, x=x - r, y=y - r, width=2 * r, height=2 * r, **look, **colours)
    points = f"{x:.2f},{y - r:.2f} {x + r:.2f},{y + r:.2f} {x - r:.2f},{y + r:.2f}"
    return tag("polygon", title, points=points, **look, **colours)


def _early(lines: Sequence[_Line], plot: _Plot) -> int | None:
    """The line that ends lowest and well before the others: its name stands under its end, since a
    leader to the right would cross the others. None where there is no such line."""
    ends = [plot.at(item.points[-1]) for item in lines]
    lowest = max(range(len(ends)), key=lambda i: (-ends[i][0], ends[i][1]))
    x, y = ends[lowest]
    alone = len(lines) > 1 and x < plot.across.end - 60 and x > plot.across.start + 120
    falls = all(plot.at(p)[1] <= y + 0.01 for p in lines[lowest].points)
    below = all(
        plot.at(p)[1] <= y + 0.01
        for number, item in enumerate(lines)
        if number != lowest
        for p in item.points
        if plot.at(p)[0] <= x + 0.01
    )
    room = plot.up.start - y > 18
    return lowest if alone and falls and below and room else None


def _labels(lines: Sequence[_Line], labels: Sequence[str], plot: _Plot) -> Iterator[str]:
    """Names at the right ends of the lines, moved apart, each with a short leader."""
    early = _early(lines, plot)
    if early is not None:
        x, y = plot.at(lines[early].points[-1])
        style = Lettering(_SMALL, anchor="end", ink=lines[early].ink)
        yield lettered(x - 9, min(y + 14, plot.up.start - 6), labels[early], style)
    order = sorted(
        (i for i in range(len(lines)) if i != early),
        key=lambda i: plot.at(lines[i].points[-1])[1],
    )
    wanted = [plot.at(lines[i].points[-1])[1] for i in order]
    places = spread(wanted, [15.0] * len(order), plot.up.end - 6, plot.up.start + 6)
    start = plot.across.end + 14
    for i, y in zip(order, places, strict=True):
        x, end = plot.at(lines[i].points[-1])
        yield line(x + 4, end, start - 2, y, lines[i].ink, stroke_width=0.8)
        style = Lettering(_SMALL, bold=lines[i].series.main, ink=lines[i].ink)
        yield lettered(start, y + 4, labels[i], style)
