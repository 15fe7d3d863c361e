"""Sweeps: every combination of a sweep's values, each the deployment with those changes.

Comes in: the resolver, a deployment, the changes already made. Goes out: tables. A point that does
not resolve or cannot be planned keeps its row, empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from kvdsl.plan import Chart, Series, SweepTable
from kvdsl.planning.deploy import outcome
from kvdsl.resolve.changes import Change
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.deployment import Deployment, Sweep
from kvdsl.syntax.nodes import Expr
from kvdsl.units import Quantity, shown

SHOWN = ("kv.tokens", "kv.sequences", "memory.weights", "decode.tpot", "decode.throughput",
         "cost.per_mtok")  # fmt: skip
"""Values of a sweep that says nothing of `show`."""

MOST_ROWS = 400
"""Points that a plan runs one by one; the rest of a larger sweep is left out, and says so."""


def sweeps(
    resolver: Resolver, deployment: Deployment, changes: Sequence[Change] = ()
) -> tuple[SweepTable, ...]:
    return tuple(_table(resolver, deployment.name, sweep, changes) for sweep in deployment.sweeps)


def _table(resolver: Resolver, name: str, sweep: Sweep, changes: Sequence[Change]) -> SweepTable:
    rows = []
    every = product(*(axis.values for axis in sweep.axes))
    names = sweep.show or SHOWN
    for point in islice(every, MOST_ROWS):
        made = [Change(axis.path, value) for axis, value in zip(sweep.axes, point, strict=True)]
        rows.append((tuple(map(_text, point)), _values(resolver, name, (*changes, *made), names)))
    found = [n for i, n in enumerate(names) if sweep.show or any(r[1][i] for r in rows)]
    kept = [names.index(n) for n in found]
    title = sweep.name
    size = 1
    for axis in sweep.axes:
        size *= len(axis.values)
    if size > MOST_ROWS:
        title = f"{title} (the first {MOST_ROWS} of {size:,} points)".strip()
    return SweepTable(
        title,
        tuple(axis.path for axis in sweep.axes),
        tuple(found),
        tuple((point, tuple(values[i] for i in kept)) for point, values in rows),
    )


def _text(expr: Expr) -> str:
    text = " ".join(expr.span.text.split())
    return text.rpartition(".")[2] if text.startswith(("formats.", "models.", "recipes.")) else text


def _values(
    resolver: Resolver, name: str, changes: Sequence[Change], names: Sequence[str]
) -> tuple[Quantity | None, ...]:
    deployment, _ = resolver.deployment(name, changes)
    if deployment is None:
        return (None,) * len(names)
    # A run measured one point; the others are reckoned.
    found = outcome(deployment.model_copy(update={"measured": None}))
    if any(not e.fits for e in found.estimates.values()):
        return (None,) * len(names)
    return tuple(found.values[n].quantity if n in found.values else None for n in names)


# --- charts ------------------------------------------------------------------------------------

CHARTED = ("kv.tokens", "cost.per_mtok", "decode.tpot")
"""Values that a sweep's charts show, as far as it has them: at most two."""

MOST_LINES = 6


def sweep_charts(tables: Sequence[SweepTable]) -> tuple[Chart, ...]:
    """Charts of the sweeps with an axis of numbers: lines are the combinations of the others."""
    return tuple(chart for table in tables for chart in _charts(table))


def _charts(table: SweepTable) -> Iterator[Chart]:
    across = next((i for i in range(len(table.axes)) if _numbers(table, i)), None)
    if across is None:
        return
    lines: dict[str, list[int]] = {}
    for number, (point, _) in enumerate(table.rows):
        rest = [text for i, text in enumerate(point) if i != across]
        lines.setdefault(", ".join(rest) or table.axes[across], []).append(number)
    if len(lines) > MOST_LINES:
        return
    for name in [n for n in CHARTED if n in table.shown][:2]:
        column = table.shown.index(name)
        found = [row[1][column] for row in table.rows]
        most = max((q for q in found if q is not None), key=lambda q: q.value, default=None)
        if most is not None:
            yield _chart(table, across, column, lines, shown(most).rsplit(" ", 1)[-1])


def _numbers(table: SweepTable, axis: int) -> bool:
    texts = {point[axis] for point, _ in table.rows}
    return len(texts) > 2 and all(text.isdecimal() and int(text) > 0 for text in texts)


def _chart(
    table: SweepTable, across: int, column: int, lines: Mapping[str, Sequence[int]], unit: str
) -> Chart:
    axis, name = table.axes[across], table.shown[column]

    def points(rows: Sequence[int]) -> Iterator[tuple[float, float]]:
        for number in rows:
            point, figures = table.rows[number]
            figure = figures[column]
            if figure is not None:
                yield float(point[across]), float(figure.in_unit(unit))

    series = tuple(Series(label, tuple(points(rows))) for label, rows in lines.items())
    return Chart(
        f"sweep.{name}",
        f"{name} over {axis}",
        f"{name} in {unit} over {axis}, a line for each of: {', '.join(lines)}.",
        axis,
        "",
        name,
        unit,
        tuple(s for s in series if s.points),
        log_x=True,
    )
