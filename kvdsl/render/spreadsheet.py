"""Tables for spreadsheets and scripts: comma-separated, values exact.

Comes in: plans and sweeps. Goes out: CSV. Not its job: figures for people (tables).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from kvdsl.plan import Plan, SweepTable
from kvdsl.render.characters import safe
from kvdsl.render.plan_tables import JUDGED, tables
from kvdsl.render.tables import NOTHING, Cell, Table
from kvdsl.units import Quantity, told

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
    heads += [JUDGED] if sweep.holds else []
    writer.writerow([*map(_inert, ("deployment", "sweep", *sweep.axes)), *heads])
    for number, (point, values) in enumerate(sweep.rows):
        written = ["" if value is None else plain_number(value) for value in values]
        written += [sweep.verdict(number)] if sweep.holds else []
        writer.writerow([*map(_inert, (deployment, sweep.name, *point)), *written])
    return out.getvalue()


def _csv_row(write: object, deployment: str, table: Table, row: Sequence[Cell]) -> None:
    assert callable(write)
    swept = table.name.startswith("sweep")
    keys = [cell for cell in row[: table.keys] if isinstance(cell, str)] if swept else []
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
