"""The tables of a plan: what stands in their rows.

Comes in: a plan or a part of one. Goes out: tables of texts and quantities. Not its job: how they
are written (tables, spreadsheet).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from kvdsl.render.tables import NOTHING, Cell, Table
from kvdsl.units import counted, shown

_GROUPS = ("weights", "cache", "free", "reserve", "over")
"""Pieces of memory from the ones that must be there to those that may not be used."""

MOST_POINTS = 4
"""Points of a sweep that one reason names."""

JUDGED = "requirements"
"""The head of the column that says whether a point holds all of them."""

MOST_REASONS = 20
"""Reasons that a table gives."""


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
        (
            f"{r.keyword} {r.text}",
            f"{r.status}, waived" if r.waived else r.status,
            r.value,
            r.bound,
            r.margin or NOTHING,
        )
        for r in results
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


def comparison_table(comparison: Comparison) -> Table:
    return _compared(comparison, ("comparison", "Layouts compared", "layout"))


def deployments_table(comparison: Comparison) -> Table:
    """Deployments side by side."""
    return _compared(comparison, ("comparison", "Deployments compared", "deployment"))


def fleets_table(comparison: Comparison) -> Table:
    """Fleets side by side."""
    names = ("fleets", "Fleets compared", "fleet")
    return _compared(comparison, names)


def _compared(comparison: Comparison, names: tuple[str, str, str]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (label, *(text or NOTHING for text in texts)) for _, label, texts in comparison.unlike
    ]
    above = len(rows)
    rows += [
        (label, *(column.values.get(name) for column in comparison.columns))
        for name, label, _ in comparison.rows
    ]
    if len({c.times for c in comparison.columns if c.values}) > 1:
        rows.append(("times", *(c.times or NOTHING for c in comparison.columns)))
    rows.append(("fits", *("yes" if c.fits else "no" for c in comparison.columns)))
    rows.append(("findings", *(" ".join(c.findings) or NOTHING for c in comparison.columns)))
    best = frozenset(
        (row, column + 1)
        for row, (name, _, _) in enumerate(comparison.rows, above)
        for column in comparison.best.get(name, ())
    )
    name, title, first = names
    header = (first, *(column.name for column in comparison.columns))
    return Table(name, title, header, tuple(rows), ("",) * len(header), best=best)


def sweep_table(sweep: SweepTable, *, whole: bool = False) -> Table:
    """All points, or those that people are shown."""
    judged = (JUDGED,) if sweep.holds else ()
    header: tuple[str, ...] = (*sweep.axes, *sweep.shown, *judged)
    name, title = f"sweep.{sweep.name}" if sweep.name else "sweep", f"Sweep {sweep.name}".strip()
    reasons = (*_holding(sweep), *_reasons(sweep))
    rows: list[tuple[Cell, ...]] = [
        (*point, *values, *(sweep.verdict(number) or None for _ in judged))
        for number, (point, values) in enumerate(sweep.rows)
    ]
    if whole or not sweep.told:
        return Table(name, title, header, tuple(rows), ("",) * len(header), notes=reasons,
                     keys=len(sweep.axes))  # fmt: skip
    some = tuple(rows[number] for number, _ in sweep.told)
    best = (f"{why}: {_said(sweep, number)}" for number, why in sweep.told if why)
    notes = (few_told(sweep), *best, *reasons)
    return Table(name, title, header, some, ("",) * len(header), notes=notes, keys=len(sweep.axes))


def _holding(sweep: SweepTable) -> Iterator[str]:
    """At how many points all that is required holds."""
    if sweep.holds:
        held = sum(one is True for one in sweep.holds)
        verb = "holds" if held == 1 else "hold"
        yield f"{held:,} of {counted(len(sweep.rows), 'points')} {verb} all that is required"


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
