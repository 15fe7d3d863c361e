"""The JSON form of a plan: every figure that a report shows, for other programs.

Comes in: plans. Goes out: plain objects in a fixed order of keys. Keys are written out one by one,
so that the records inside may change without the form. Not its job: quantities, places and findings
(machine), or the chain of a number (machine.derivation).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvdsl.plan import (
    FORMAT,
    Alternative,
    Chart,
    CollectiveRow,
    Comparison,
    Entry,
    Fact,
    Finding,
    MemoryBar,
    Plan,
    RequirementResult,
    StepBar,
    SweepTable,
)
from kvdsl.plan.fleets import FleetPlan
from kvdsl.render.machine import Json, diagnostic, inputs, maybe, quantity, span
from kvdsl.render.machine_placement import flow_form, picture_form, segment_form


def plans_form(plans: Sequence[Plan], fleets: Sequence[FleetPlan] = ()) -> Json:
    """What `plan --output json` writes: always a list, however many there are."""
    told = (*(plan.inputs for plan in plans), *(fleet.inputs for fleet in fleets))
    read = dict.fromkeys(each for inputs_of in told for each in inputs_of)
    return {
        "format": FORMAT,
        "inputs": inputs(read),
        "plans": [plan_form(plan) for plan in plans],
        "fleets": [_fleet(fleet) for fleet in fleets],
    }


def _fleet(fleet: FleetPlan) -> Json:
    return {
        "name": fleet.name,
        "doc": fleet.doc,
        "file": fleet.file,
        "verdict": {"mood": fleet.verdict.mood, "sentence": fleet.verdict.sentence},
        "deployments": [
            {
                "name": member.name,
                "hardware": member.hardware,
                "values": {n: quantity(member.values[n].quantity) for n in sorted(member.values)},
            }
            for member in fleet.members
        ],
        "sums": {name: quantity(fleet.sums[name].quantity) for name in sorted(fleet.sums)},
        "notes": list(fleet.notes),
        "requirements": [_requirement(result) for result in fleet.requirements],
        "findings": [_finding(finding) for finding in fleet.findings],
        "facts": [_fact(fact) for fact in fleet.facts],
    }


def plan_form(plan: Plan) -> Json:
    return {
        "name": plan.name,
        "doc": plan.doc,
        "file": plan.file,
        "model": plan.model,
        "layout": {"name": plan.layout_name, "text": plan.layout},
        "hardware": plan.hardware,
        "workload": plan.workload,
        "formats": plan.formats,
        "engine": plan.engine or None,
        "verdict": {"mood": plan.verdict.mood, "sentence": plan.verdict.sentence},
        "answers": [
            {"question": a.question, "lines": list(a.lines), "mood": a.mood or None}
            for a in plan.answers
        ],
        "unplanned": plan.unplanned or None,
        "values": {name: quantity(plan.value(name)) for name in sorted(plan.values)},
        "requirements": [_requirement(result) for result in plan.requirements],
        "findings": [_finding(finding) for finding in plan.findings],
        "memory": [_memory(bar) for bar in plan.memory],
        "cache": [
            {
                "pool": row.pool,
                "name": row.name,
                "form": row.form,
                "layers": row.layers,
                "record": row.record,
                "growth": row.growth,
                "per_token": quantity(row.per_token),
                "per_token_on_rank": quantity(row.per_token_on_rank),
                "copies": quantity(row.copies),
            }
            for row in plan.cache
        ],
        "steps": [_step(step) for step in plan.steps],
        "collectives": [_collective(row) for row in plan.collectives],
        "placement": [picture_form(picture) for picture in plan.pictures],
        "flow": plan.flow and flow_form(plan.flow),
        "comparison": plan.comparison and comparison_form(plan.comparison),
        "sweeps": [_sweep(sweep) for sweep in plan.sweeps],
        "charts": [_chart(chart) for chart in plan.charts],
        "assumptions": [_entry(entry) for entry in plan.assumptions],
        "sources": [_entry(entry) for entry in plan.sources],
        "facts": [_fact(fact) for fact in plan.facts],
    }


def _fact(fact: Fact) -> Json:
    return {
        "entry": fact.entry or None,
        "path": fact.path,
        "value": fact.value,
        "written": fact.written or None,
    }


def _requirement(result: RequirementResult) -> Json:
    return {
        "keyword": result.keyword,
        "text": result.text,
        "label": result.label,
        "because": result.because,
        "status": result.status,
        "waived": result.waived or None,
        "value": maybe(result.value),
        "bound": maybe(result.bound),
        "margin": result.margin,
        "note": result.note,
        "largest": [{"label": t.label, **quantity(t.quantity)} for t in result.largest],
        "place": span(result.span),
    }


def _finding(finding: Finding) -> Json:
    return {
        **diagnostic(finding.diagnostic),
        "name": finding.name,
        "severity": finding.severity.value,
        "quantities": [{"label": label, **quantity(q)} for label, q in finding.quantities],
        "alternative": finding.alternative and _alternative(finding.alternative),
        "flips": finding.flips or None,
        "waived": finding.waived,
    }


def _alternative(alternative: Alternative) -> Json:
    return {
        "title": alternative.title,
        "text": alternative.text,
        "changes": [
            {
                "name": change.name,
                "label": change.label,
                "before": quantity(change.before),
                "after": quantity(change.after),
            }
            for change in alternative.changes
        ],
    }


def _memory(bar: MemoryBar) -> Json:
    return {
        "ranks": bar.title,
        "pool": bar.pool,
        "device": bar.device,
        "devices": bar.devices,
        "memory": quantity(bar.memory),
        "usable": quantity(bar.usable),
        "room": quantity(bar.room.quantity),
        "tokens": quantity(bar.tokens),
        "segments": [segment_form(segment) for segment in bar.segments],
    }


def _step(step: StepBar) -> Json:
    return {
        "pool": step.pool,
        "phase": step.phase,
        "title": step.title,
        "whole": quantity(step.whole),
        "roofline": step.roofline,
        "segments": [segment_form(segment) for segment in step.segments],
    }


def _collective(row: CollectiveRow) -> Json:
    return {
        "pool": row.pool,
        "phase": row.phase,
        "kind": row.kind,
        "module": row.module,
        "axis": row.axis,
        "ranks": row.ranks,
        "span": row.span,
        "link": row.link,
        "stage": row.stage,
        "count": row.count,
        "size": quantity(row.size),
        "algorithm": row.algorithm,
        "constants": row.basis,
        **({"borrowed_row": row.lent} if row.lent else {}),
        "once": quantity(row.once),
        "low": maybe(row.low),
        "high": maybe(row.high),
        "all": quantity(row.all),
        "why": row.why,
    }


def comparison_form(comparison: Comparison) -> Json:
    return {
        "layouts": [
            {
                "name": column.name,
                "text": column.text,
                "fits": column.fits,
                "main": column.main,
                "note": column.note,
                "findings": list(column.findings),
                "values": {n: quantity(column.values[n]) for n in sorted(column.values)},
            }
            for column in comparison.columns
        ],
        **({"unlike": _unlike(comparison)} if comparison.unlike else {}),
        "rows": _rows(comparison),
        "flips": comparison.flips or None,
    }


def _unlike(comparison: Comparison) -> list[Json]:
    """What columns are asked and served by, in their order, where it is not one for all."""
    return [
        {"name": name, "label": label, "of": [text or None for text in texts]}
        for name, label, texts in comparison.unlike
    ]


def fleets_form(comparison: Comparison) -> Json:
    return {
        "fleets": [
            {
                "name": column.name,
                "fits": column.fits,
                "times": column.times or None,
                "findings": list(column.findings),
                "values": {n: quantity(column.values[n]) for n in sorted(column.values)},
            }
            for column in comparison.columns
        ],
        "rows": _rows(comparison),
    }


def _rows(comparison: Comparison) -> list[Json]:
    return [
        {
            "name": name,
            "label": label,
            "more_is_better": more,
            "best": [comparison.columns[i].name for i in comparison.best.get(name, ())],
        }
        for name, label, more in comparison.rows
    ]


def _sweep(sweep: SweepTable) -> Json:
    return {
        "name": sweep.name,
        "axes": list(sweep.axes),
        "shown": list(sweep.shown),
        "rows": [
            {
                "point": list(point),
                "values": [maybe(value) for value in values],
                "holds": sweep.holds[number] if sweep.holds else None,
                "why": sweep.reason(number) or None,
            }
            for number, (point, values) in enumerate(sweep.rows)
        ],
    }


def _chart(chart: Chart) -> Json:
    return {
        "name": chart.name,
        "title": chart.title,
        "x": {"label": chart.x_label, "unit": chart.x_unit},
        "y": {"label": chart.y_label, "unit": chart.y_unit},
        "series": [
            {"label": series.label, "main": series.main, "points": [list(p) for p in series.points]}
            for series in chart.series
        ],
        "marks": [{"x": x, "label": label} for x, label in chart.marks],
    }


def _entry(entry: Entry) -> Json:
    return {
        "label": entry.label,
        "figure": entry.figure,
        "note": entry.note,
        "source": entry.source,
        "place": span(entry.span),
    }
