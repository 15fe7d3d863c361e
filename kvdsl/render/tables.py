"""Tables of a plan, made once and written as text, Markdown or CSV.

Comes in: a plan. Goes out: tables of texts and quantities, and their three written forms. A row
that belongs to no quantity (a sentence, a picture) is not a table's. Not its job: what stands
around the tables (terminal).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvdsl.plan import (
    Comparison,
    Finding,
    Flow,
    MemoryBar,
    Plan,
    RequirementResult,
    StepBar,
    SweepTable,
    TierView,
    TransferView,
    meaning,
)
from kvdsl.render.characters import padded, safe, width, wrapped
from kvdsl.units import Quantity, counted, decimals, shown, told, unit

Cell = str | Quantity | None

NOTHING = "-"
"""What stands where a plan has no value."""

_GROUPS = ("weights", "cache", "free", "reserve", "over")
"""Pieces of memory from the ones that must be there to those that may not be used."""

MOST_POINTS = 4
"""Points of a sweep that one reason names."""

MOST_REASONS = 20
"""Reasons that a table gives."""


@dataclass(frozen=True, slots=True)
class Table:
    """`units[i]` is the unit of column i (every quantity in it is written so, with `digits` behind
    the point), or empty where each cell says its own. `best` are cells that win their row."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    units: tuple[str, ...]
    digits: int = 2
    best: frozenset[tuple[int, int]] = frozenset()
    notes: tuple[str, ...] = ()
    """What stands below it: why rows are empty."""
    keys: int = 1
    """So many columns at the left name a row."""


def tables(plan: Plan) -> tuple[Table, ...]:
    """Every table of a plan, in the order of a report."""
    made = [requirements_table(plan.requirements)] if plan.requirements else []
    made += [findings_table(plan.findings)] if plan.findings else []
    made += [values_table(plan), *memory_tables(plan.memory)]
    made += [step_table(step) for step in plan.steps]
    made += flow_tables(plan.flow) if plan.flow else ()
    made += [comparison_table(plan.comparison)] if plan.comparison else []
    return (*made, *(sweep_table(sweep, whole=True) for sweep in plan.sweeps))


def requirements_table(results: Sequence[RequirementResult]) -> Table:
    rows = tuple(
        (f"{r.keyword} {r.text}", r.status, r.value, r.bound, r.margin or NOTHING) for r in results
    )
    header = ("requirement", "verdict", "value", "bound", "margin")
    return Table("requirements", "Requirements", header, rows, ("",) * len(header))


def findings_table(findings: Sequence[Finding]) -> Table:
    rows = tuple(
        (
            f.code,
            f"allowed: {f.waived}" if f.waived is not None else f.severity.value,
            f.diagnostic.headline,
            str(f.diagnostic.span),
        )
        for f in findings
    )
    return Table("findings", "Findings", ("code", "severity", "finding", "place"), rows, ("",) * 4)


def values_table(plan: Plan) -> Table:
    rows = tuple(
        (name, meaning(name, term), term.quantity) for name, term in sorted(plan.values.items())
    )
    return Table("values", "Values", ("value", "meaning", "figure"), rows, ("", "", ""))


def memory_tables(bars: Sequence[MemoryBar]) -> Iterator[Table]:
    """One table a pool: a row a piece of memory, a column a class of ranks."""
    for pool in dict.fromkeys(bar.pool for bar in bars):
        own = [bar for bar in bars if bar.pool == pool]
        met = dict.fromkeys((s.group, s.label) for bar in own for s in bar.segments)
        keys = sorted(met, key=lambda key: _GROUPS.index(key[0]) if key[0] in _GROUPS else 0)
        by_bar = [{(s.group, s.label): s.quantity for s in bar.segments} for bar in own]
        rows: list[tuple[Cell, ...]] = [
            (_piece(group, label), *(pieces.get((group, label)) for pieces in by_bar))
            for group, label in keys
        ]
        rows.append(("memory", *(bar.memory for bar in own)))
        rows.append(("usable", *(bar.usable for bar in own)))
        rows.append(("room for cache", *(bar.room.quantity for bar in own)))
        rows.append(("holds", *(bar.tokens for bar in own)))
        header = ("GB of a GPU", *(f"{bar.title} · {bar.devices} x {bar.device}" for bar in own))
        name, title = _of_pool("memory", "Memory", pool)
        yield Table(name, title, header, tuple(rows), ("", *["GB"] * len(own)))


def _piece(group: str, label: str) -> str:
    return label if group in ("reserve", "free", "over") or group in label else f"{group}: {label}"


def _of_pool(name: str, title: str, pool: str) -> tuple[str, str]:
    return (f"{name}.{pool}", f"{title} of {pool}") if pool else (name, title)


def step_table(step: StepBar) -> Table:
    """A pass as a list of times, in the unit that suits the whole."""
    scale = shown(step.whole).rpartition(" ")[2]  # the unit that people would write the whole in
    rows: list[tuple[Cell, ...]] = [(s.label, s.group, s.quantity) for s in step.segments]
    rows.append(("in all", "", step.whole))
    name, _ = _of_pool(step.phase, "", step.pool)
    header = (scale, "", "time")
    return Table(name, step.title, header, tuple(rows), ("", "", scale), digits=3)


def flow_tables(flow: Flow) -> Iterator[Table]:
    """The transfer between the pools, and the tiers below them."""
    if flow.transfer is not None:
        yield transfer_table(flow.transfer)
    if flow.tiers:
        yield tiers_table(flow.tiers)


def transfer_table(moved: TransferView) -> Table:
    rows: list[tuple[Cell, ...]] = [(f"sent of {row.part}", row.size) for row in moved.rows]
    rows += [(step.label, step.quantity) for step in moved.steps]
    rows += [("in all", moved.whole), ("seen", moved.visible)]
    rows += [("asked of the link", moved.needed)] if moved.needed is not None else []
    rows += [("carried by it", moved.present)]
    over = f"over {shown(moved.lanes)} x {moved.link}"
    title = f"Transfer from {moved.sender} to {moved.receiver}, {over}"
    return Table("transfer", title, ("a request", "figure"), tuple(rows), ("", ""))


def tiers_table(tiers: Sequence[TierView]) -> Table:
    header = ("tier", "holds", "found there", "fetched", "computed", "pays from", "read", "written")
    rows = tuple(
        (
            f"{tier.name}: {tier.tier}",
            tier.tokens,
            tier.share,
            tier.fetch if tier.fetch is not None else tier.load,
            tier.recompute,
            tier.break_even,
            tier.reads,
            tier.writes,
        )
        for tier in tiers
    )
    return Table("tiers", "Tiers, nearest first", header, rows, ("",) * len(header))


def measures(name: str, quantity: Quantity) -> bool:
    """Whether a quantity can be written in that unit."""
    known = unit(name)
    return known is not None and known[0] == quantity.dimension


def comparison_table(comparison: Comparison) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (label, *(column.values.get(name) for column in comparison.columns))
        for name, label, _ in comparison.rows
    ]
    if len({c.times for c in comparison.columns if c.values}) > 1:
        rows.append(("times", *(c.times or NOTHING for c in comparison.columns)))
    rows.append(("fits", *("yes" if c.fits else "no" for c in comparison.columns)))
    rows.append(("findings", *(" ".join(c.findings) or NOTHING for c in comparison.columns)))
    best = frozenset(
        (row, column + 1)
        for row, (name, _, _) in enumerate(comparison.rows)
        for column in comparison.best.get(name, ())
    )
    header = ("layout", *(column.name for column in comparison.columns))
    blank = ("",) * len(header)
    return Table("comparison", "Layouts compared", header, tuple(rows), blank, best=best)


def sweep_table(sweep: SweepTable, *, whole: bool = False) -> Table:
    """All points, or those that people are shown."""
    header: tuple[str, ...] = (*sweep.axes, *sweep.shown)
    name, title = f"sweep.{sweep.name}" if sweep.name else "sweep", f"Sweep {sweep.name}".strip()
    reasons = tuple(_reasons(sweep))
    rows: list[tuple[Cell, ...]] = [(*point, *values) for point, values in sweep.rows]
    if whole or not sweep.told:
        return Table(name, title, header, tuple(rows), ("",) * len(header), notes=reasons,
                     keys=len(sweep.axes))  # fmt: skip
    some = tuple(rows[number] for number, _ in sweep.told)
    best = (f"{why}: {_said(sweep, number)}" for number, why in sweep.told if why)
    notes = (few_told(sweep), *best, *reasons)
    return Table(name, title, header, some, ("",) * len(header), notes=notes, keys=len(sweep.axes))


def few_told(sweep: SweepTable) -> str:
    """What a table leaves out, and where it is."""
    return (
        f"{len(sweep.told):,} of {len(sweep.rows):,} points: the best of each value, and the ends"
        " of the axes; `kvdsl sweep --output csv` has all"
    )


def _said(sweep: SweepTable, number: int) -> str:
    """A point by its settings."""
    point, _ = sweep.rows[number]
    return ", ".join(f"{axis} = {text}" for axis, text in zip(sweep.axes, point, strict=True))


def _reasons(sweep: SweepTable) -> Iterator[str]:
    """Why points have no figures, a reason a line."""
    points: dict[str, list[str]] = {}
    for number in range(len(sweep.rows)):
        if reason := sweep.reason(number):
            points.setdefault(reason, []).append(_said(sweep, number))
    for reason, found in list(points.items())[:MOST_REASONS]:
        named, left = found[:MOST_POINTS], len(found) - MOST_POINTS
        more = [f"and {counted(left, 'more points')}"] if left > 0 else []
        yield f"{'; '.join((*named, *more))}: {reason}"
    if len(points) > MOST_REASONS:
        yield f"and {counted(len(points) - MOST_REASONS, 'more reasons')} of other points"


# --- written forms -----------------------------------------------------------------------------


def cell_text(table: Table, row: int, column: int) -> str:
    """A cell for people: rounded, in its column's unit, the best of a row with a star."""
    cell = table.rows[row][column]
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        text = safe(cell)
    elif measures(table.units[column], cell):
        text = _rounded(float(cell.in_unit(table.units[column])), table.digits)
    else:
        text = shown(cell)
    return f"{text} *" if (row, column) in table.best else text


def _rounded(number: float, digits: int) -> str:
    """With so many digits; what is there, but less than the last of them, is not zero."""
    least = 10.0**-digits
    return f"< {least:.{digits}f}" if 0 < number < least / 2 else decimals(number, digits)


def as_text(table: Table, columns: int) -> list[str]:
    """Aligned lines; figures stand to the right. A table that is too wide comes in pieces, and
    words among figures are as wide as those at most: the rest goes on a line below."""
    texts = [[cell_text(table, r, c) for c in range(len(row))] for r, row in enumerate(table.rows)]
    figures = _figures(table)
    heads = [safe(head) for head in table.header]
    starred = {c for _, c in table.best if c < len(figures) and figures[c]}
    texts = [  # room for the star, so that figures without one end in the same column
        [t if t.endswith(" *") or c not in starred else t + "  " for c, t in enumerate(row)]
        for row in texts
    ]
    widths = [
        max(
            [
                width(heads[c]),
                *(width(row[c]) for r, row in enumerate(texts) if _counts(table, r, c, figures)),
            ]
        )
        for c in range(len(heads))
    ]
    lines: list[str] = []
    for piece in _pieces(widths, columns, table.keys):
        lines += [""] if lines else []
        for row in (heads, *texts):
            cells = [_folded(row[c], widths[c]) for c in piece]
            for deep in range(max(map(len, cells))):
                level = (cell[deep] if deep < len(cell) else "" for cell in cells)
                told = (
                    padded(t, widths[c], right=figures[c])
                    for t, c in zip(level, piece, strict=True)
                )
                lines.append(("  " + "  ".join(told)).rstrip())
    for note in table.notes:
        lines += wrapped(note, columns, "  ", "    ")
    return lines


def _figures(table: Table) -> list[bool]:
    """For each column whether it has figures."""
    return [
        any(isinstance(row[c], Quantity) for row in table.rows) for c in range(len(table.header))
    ]


def _counts(table: Table, row: int, column: int, figures: Sequence[bool]) -> bool:
    """Whether a cell may widen its column."""
    return not figures[column] or isinstance(table.rows[row][column], Quantity)


def _folded(text: str, most: int) -> list[str]:
    if width(text) <= most:
        return [text]
    return wrapped(text.rstrip(), most, "", "")


def _pieces(widths: Sequence[int], columns: int, keys: int) -> Iterator[list[int]]:
    """Indices of columns that fit on a line together, those that name a row in each, but the first
    alone where they leave no room for figures."""
    leading = keys if sum(widths[:keys]) + 2 * keys <= columns // 2 else 1
    lead = list(range(leading))
    taken = sum(widths[c] + 2 for c in lead)
    piece, used = [*lead], taken
    for index in range(leading, len(widths)):
        if used + 2 + widths[index] > columns and len(piece) > leading:
            yield piece
            piece, used = [*lead], taken
        piece.append(index)
        used += 2 + widths[index]
    yield piece


def as_markdown(table: Table) -> str:
    figures = _figures(table)
    lines = [_row(table.header), "|" + "|".join(" --: " if f else " --- " for f in figures) + "|"]
    for index, row in enumerate(table.rows):
        lines.append(_row(cell_text(table, index, column) for column in range(len(row))))
    lines += ["", *(f"- {_escaped(note)}" for note in table.notes)] if table.notes else []
    return f"### {_escaped(table.title)}\n\n" + "\n".join(lines) + "\n"


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(_escaped(text) or " " for text in texts) + " |"


def _escaped(text: str) -> str:
    """Text that Markdown does not take for markup: a name may hold anything."""
    return "".join("\\" + sign if sign in "\\|<>[]`*_&#!" else sign for sign in safe(text))


CSV_HEADER = ("deployment", "table", "row", "column", "value", "unit")


def as_csv(plans: Sequence[Plan], more: Sequence[tuple[str, Table]] = ()) -> str:
    """A line a cell, so that all tables of all plans are one: exact values in base units. `more`
    are tables of what is no deployment, each with the name that stands in its place."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    every = [(plan.name, table) for plan in plans for table in tables(plan)]
    for name, table in (*every, *more):
        for row in table.rows:
            _csv_row(writer.writerow, name, table, row)
    return out.getvalue()


def sweep_csv(deployment: str, sweep: SweepTable) -> str:
    """A row a point: the deployment, the axes as they are written, the values exact; the head of a
    value's column names its unit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = []
    for index, name in enumerate(sweep.shown):
        known = next((row[1][index] for row in sweep.rows if row[1][index] is not None), None)
        unit_name = told(known)[1] if known is not None else ""
        heads.append(f"{name} ({unit_name})" if unit_name not in ("", "1") else name)
    writer.writerow([*map(_inert, ("deployment", "sweep", *sweep.axes)), *heads])
    for point, values in sweep.rows:
        written = ["" if value is None else plain_number(value) for value in values]
        writer.writerow([*map(_inert, (deployment, sweep.name, *point)), *written])
    return out.getvalue()


def _csv_row(write: object, deployment: str, table: Table, row: Sequence[Cell]) -> None:
    assert callable(write)
    keys = [cell for cell in row if isinstance(cell, str)] if table.name.startswith("sweep") else []
    key = " ".join(keys) or str(row[0])
    for head, cell in zip(table.header[1:], row[1:], strict=True):
        if isinstance(cell, Quantity):
            written = (plain_number(cell), told(cell)[1])
        elif cell and cell not in keys:
            written = (_inert(cell), "")
        else:
            continue
        write((*map(_inert, (deployment, table.name, key, head)), *written))


def _inert(text: str) -> str:
    """Text that no spreadsheet takes for a formula: they run what starts like one."""
    return f"'{text}" if text[:1] in _FORMULA and text != NOTHING else safe(text)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain_number(quantity: Quantity) -> str:
    """The value as a machine reads it: an int where it is whole, else a decimal."""
    value, _ = told(quantity)
    if isinstance(value, float):
        return repr(value)
    return str(int(value)) if value == int(value) else repr(float(value))
