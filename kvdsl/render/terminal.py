"""A plan as a terminal shows it: the verdict, the strip, memory, the step, requirements.

Comes in: a plan and the columns there are. Goes out: text. Not its job: diagnostics
(diagnostics), the chain of one number (derivation), or choosing streams and colour (cli).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from kvdsl.plan import Finding, Plan, RequirementResult, Tile
from kvdsl.render.characters import clipped, padded, safe, width, wrapped
from kvdsl.render.diagnostics import COLUMNS
from kvdsl.render.paint import PLAIN, SEVERITIES, Paint, Style
from kvdsl.render.plan_tables import (
    comparison_table,
    flow_tables,
    memory_tables,
    step_table,
    sweep_table,
)
from kvdsl.render.tables import Table, as_text
from kvdsl.units import shown

MOODS = {"good": Style.GOOD, "warning": Style.WARNING, "bad": Style.ERROR}
STATUSES = {
    "holds": Style.GOOD,
    "fails": Style.ERROR,
    "unanswered": Style.WARNING,
    "skipped": Style.FAINT,
}
IDEAL = (
    "Times are ideal: every efficiency is 1, no overheads, all weights read but experts that no "
    "token hits."
)
GAP = 3
"""Columns between two figures of the strip."""

WIDEST_TILE = 32
"""What is longer goes on in the line below: no figure is cut."""

LARGEST = 3
"""So many terms of a value that misses its bound are named."""


def plan_text(plan: Plan, columns: int = COLUMNS, paint: Paint = PLAIN) -> str:
    """All of a plan that fits a terminal, ending in a newline."""
    return "\n".join(_lines(plan, columns, paint)) + "\n"


def _lines(plan: Plan, columns: int, paint: Paint) -> Iterator[str]:
    yield from _head(plan, columns, paint)
    if plan.unplanned:
        if plan.unplanned not in plan.verdict.sentence:
            yield from ["", *wrapped(plan.unplanned, columns)]
        return
    yield from ["", *_strip(plan.tiles, columns, paint)]
    if plan.times == "ideal" and plan.steps:
        yield from ["", *wrapped(IDEAL, columns, "  ", "  ")]
    for table in memory_tables(plan.memory):
        yield from section(table, columns, paint)
    for step in plan.steps:
        yield from section(step_table(step), columns, paint)
        if step.roofline:
            yield from wrapped(step.roofline, columns, "  ", "  ")
    for table in flow_tables(plan.flow) if plan.flow else ():
        yield from section(table, columns, paint)
    if plan.comparison:
        yield from section(comparison_table(plan.comparison), columns, paint)
        yield "  * best of its row"
        if plan.comparison.flips:
            yield from wrapped(plan.comparison.flips, columns, "  ", "  ")
    for sweep in plan.sweeps:
        yield from section(sweep_table(sweep), columns, paint)
    yield from requirement_lines(plan.requirements, columns, paint)
    yield from finding_lines(plan.findings, columns, paint)


def _head(plan: Plan, columns: int, paint: Paint) -> Iterator[str]:
    name = safe(plan.name)
    rest = wrapped(f"{plan.model} on {plan.hardware}", columns, " " * (len(name) + 2), "  ")
    yield paint(Style.STRONG, name) + rest[0][len(name) :]
    yield from rest[1:]
    layout = ": ".join(part for part in (plan.layout_name, plan.layout) if part)
    made = (part for part in (layout, plan.engine, plan.formats, plan.workload) if part)
    yield from wrapped("; ".join(made), columns, "  ", "  ")
    yield ""
    mood = MOODS[plan.verdict.mood]
    yield from (paint(mood, line) for line in wrapped(plan.verdict.sentence, columns))


def _strip(tiles: Sequence[Tile], columns: int, paint: Paint) -> Iterator[str]:
    """Figures side by side: what it is, the figure, a line below; a new row where one is full."""
    rows: list[list[tuple[str, str, list[str], int]]] = [[]]
    used = 0
    for tile in tiles:
        label, below = clipped(safe(tile.label), WIDEST_TILE), wrapped(tile.below, WIDEST_TILE)
        figure = clipped(safe(f"{tile.figure} {tile.unit}".strip()), WIDEST_TILE)
        wide = max(width(label), width(figure), *map(width, below))
        if rows[-1] and used + GAP + wide > columns - 2:
            rows.append([])
            used = 0
        rows[-1].append((label, figure, below, wide))
        used += wide + GAP
    space = " " * GAP
    for index, row in enumerate(rows):
        yield from [""] if index else []
        yield ("  " + space.join(padded(label, wide) for label, _, _, wide in row)).rstrip()
        figures = space.join(padded(figure, wide) for _, figure, _, wide in row).rstrip()
        yield "  " + paint(Style.STRONG, figures)
        for line in zip_longest(*(below for _, _, below, _ in row), fillvalue=""):
            told = zip(line, (wide for *_, wide in row), strict=True)
            under = space.join(padded(text, wide) for text, wide in told).rstrip()
            yield from [f"  {under}"] if under else []


def section(table: Table, columns: int, paint: Paint) -> Iterator[str]:
    yield ""
    yield paint(Style.STRONG, safe(table.title))
    yield from as_text(table, columns)


def requirement_lines(
    results: Sequence[RequirementResult], columns: int, paint: Paint
) -> Iterator[str]:
    if not results:
        return
    yield from ["", paint(Style.STRONG, "Requirements")]
    longest = max(len(result.status) for result in results)
    indent = " " * (longest + 4)
    for result in results:
        margin = f", {result.margin}" if result.margin else ""
        value = f": {shown(result.value)}{margin}" if result.value else ""
        label = f" as {result.label}" if result.label else ""
        text = f"{result.keyword} {result.text}{label}{value}"
        first, *rest = wrapped(text, columns, indent, indent)
        status = paint(STATUSES[result.status], padded(result.status, longest))
        yield f"  {status}  {first[len(indent) :]}"
        yield from rest
        for aside in _asides(result):
            yield from wrapped(aside, columns, indent, indent)


def _asides(result: RequirementResult) -> Iterator[str]:
    if result.because:
        yield f"because {result.because}"
    if result.waived:
        yield f"waived: {result.waived}"
    if result.note:
        yield result.note
    if result.status == "fails" and result.largest:
        terms = (f"{term.label} {shown(term.quantity)}" for term in result.largest[:LARGEST])
        yield "largest: " + ", ".join(terms)


def finding_lines(findings: Sequence[Finding], columns: int, paint: Paint) -> Iterator[str]:
    if not findings:
        return
    yield from ["", paint(Style.STRONG, "Findings")]
    for finding in findings:
        head = "waived" if finding.waived is not None else finding.severity.value
        code = f"{head}[{finding.code}]"
        indent = " " * (len(code) + 3)
        text = finding.diagnostic.headline
        if finding.waived is not None:
            text += f" (allowed because {finding.waived})"
        first, *rest = wrapped(text, columns, indent, "    ")
        style = Style.FAINT if finding.waived is not None else SEVERITIES[finding.severity]
        yield f"  {paint(style, code)} {first[len(indent) :]}"
        yield from rest
