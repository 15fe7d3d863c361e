"""Charts of sweeps: values over an axis of numbers, a line for each combination of the others.

Comes in: the tables of a deployment's sweeps. Goes out: charts, at most two a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

from kvdsl.comparison import LABELS
from kvdsl.plan import Chart, Series, SweepTable
from kvdsl.spec.vocabulary import input_words
from kvdsl.units import NONE, Quantity, shown, unit

CHARTED = ("kv.tokens", "cost.per_mtok", "decode.tpot")
"""Values that a sweep's charts show, as far as it has them: at most two."""

MOST_LINES = 6
MOST_PLACES = 200
"""Lines of a chart and points of a line: of more, some that lie evenly."""

T = TypeVar("T")


def sweep_charts(tables: Sequence[SweepTable]) -> tuple[Chart, ...]:
    """Charts of the sweeps with an axis of numbers: lines are the combinations of the others."""
    return tuple(chart for table in tables for chart in _charts(table))


def _charts(table: SweepTable) -> Iterator[Chart]:
    across = next((i for i in range(len(table.axes)) if _numbers(table, i)), None)
    if across is None:
        return
    lines: dict[str, list[int]] = {}
    for number, (point, _) in enumerate(table.rows):
        rest = [_named(table.axes[i], text) for i, text in enumerate(point) if i != across]
        lines.setdefault(", ".join(rest) or "this plan", []).append(number)
    drawn = {n: _spread(lines[n], MOST_PLACES) for n in _spread(list(lines), MOST_LINES)}
    for name in [n for n in CHARTED if n in table.shown][:2]:
        column = table.shown.index(name)
        found = [row[1][column] for row in table.rows]
        most = max((q for q in found if q is not None), key=lambda q: q.value, default=None)
        if most is not None:
            yield _chart(table, across, column, drawn, shown(most).rsplit(" ", 1)[-1])


def _spread(every: Sequence[T], most: int) -> Sequence[T]:
    """So many of them at the most, evenly, the first and the last among them."""
    if len(every) <= most:
        return every
    return [every[round(n * (len(every) - 1) / (most - 1))] for n in range(most)]


def _named(axis: str, text: str) -> str:
    """`TP 8`, but `16 req` and `fp8`, which say what they are."""
    return f"{input_words(axis)} {text}" if text.isdecimal() else text


def _numbers(table: SweepTable, axis: int) -> bool:
    """Whether an axis goes through more than two figures of one dimension."""
    found = {point[axis]: _figure(point[axis]) for point, _ in table.rows}
    figures = [figure for figure in found.values() if figure is not None and figure.value > 0]
    alike = len({figure.dimension for figure in figures}) == 1
    return len(figures) > 2 and len(figures) == len(found) and alike


def _figure(text: str) -> Quantity | None:
    """`16`, `1_024` or `8 ktok` as a quantity."""
    number, _, word = text.partition(" ")
    try:
        value = Fraction(number.replace("_", ""))
    except (ValueError, ZeroDivisionError):
        return None
    known = unit(word) if word else (NONE, Fraction(1))
    return None if known is None else Quantity(value * known[1], known[0])


def _chart(
    table: SweepTable, across: int, column: int, lines: Mapping[str, Sequence[int]], scale: str
) -> Chart:
    axis, name = input_words(table.axes[across]), table.shown[column]
    along = [figure for point, _ in table.rows if (figure := _figure(point[across])) is not None]

    def points(rows: Sequence[int]) -> Iterator[tuple[float, float]]:
        for number in rows:
            point, figures = table.rows[number]
            place, figure = _figure(point[across]), figures[column]
            if place is not None and figure is not None:
                yield float(place.value), float(figure.in_unit(scale))

    series = tuple(Series(label, tuple(points(rows))) for label, rows in lines.items())
    words = LABELS[name]
    return Chart(
        f"sweep.{name}",
        f"{words[0].upper()}{words[1:]} over {axis}",
        f"{words} in {scale} over {axis}, a line for each of: {', '.join(lines)}.",
        axis,
        along[0].dimension.base_unit if along[0].dimension != NONE else "",
        words,
        scale,
        tuple(s for s in series if s.points),
        log_x=True,
    )
