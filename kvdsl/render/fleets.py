"""A fleet as tables, and as a terminal shows it.

Comes in: a fleet's plan. Goes out: its tables, and a text. Not its job: how a table is written
(tables), its part of a report (html), or its JSON (machine_plan).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvdsl.formulas import Term
from kvdsl.plan.fleets import FleetPlan
from kvdsl.render.characters import safe, wrapped
from kvdsl.render.diagnostics import COLUMNS
from kvdsl.render.paint import PLAIN, Paint, Style
from kvdsl.render.plan_tables import findings_table, requirements_table
from kvdsl.render.tables import Cell, Table, as_text
from kvdsl.render.terminal import MOODS, finding_lines, requirement_lines


def fleet_tables(fleet: FleetPlan) -> tuple[Table, ...]:
    """Every table of a fleet, in the order of a report."""
    made = [members_table(fleet)]
    made += [requirements_table(fleet.requirements)] if fleet.requirements else []
    made += [findings_table(fleet.findings)] if fleet.findings else []
    return tuple(made)


def members_table(fleet: FleetPlan) -> Table:
    """A row a deployment, and their sums below."""
    names = [column.name for column in fleet.columns]
    rows: list[tuple[Cell, ...]] = [
        (m.name, *(_cell(m.values, name) for name in names)) for m in fleet.members
    ]
    rows.append(("in all", *(_cell(fleet.sums, c.name) if c.added else "" for c in fleet.columns)))
    header = ("deployment", *(column.label for column in fleet.columns))
    blank = ("",) * len(header)
    return Table("fleet", f"Fleet {fleet.name}", header, tuple(rows), blank, notes=fleet.notes)


def _cell(values: Mapping[str, Term], name: str) -> Cell:
    return values[name].quantity if name in values else None


def fleet_text(fleet: FleetPlan, columns: int = COLUMNS, paint: Paint = PLAIN) -> str:
    """All of a fleet that fits a terminal, ending in a newline."""
    return "\n".join(_lines(fleet, columns, paint)) + "\n"


def _lines(fleet: FleetPlan, columns: int, paint: Paint) -> Iterator[str]:
    yield paint(Style.STRONG, safe(f"Fleet {fleet.name}"))
    yield ""
    mood = MOODS[fleet.verdict.mood]
    yield from (paint(mood, line) for line in wrapped(fleet.verdict.sentence, columns))
    yield ""
    yield from as_text(members_table(fleet), columns)
    yield from requirement_lines(fleet.requirements, columns, paint)
    yield from finding_lines(fleet.findings, columns, paint)
