"""Plans that were kept as JSON, by this kvdsl or by an older one, as one side of a comparison.

Comes in: what `kvdsl plan --output json` wrote. Goes out: plans without derivations: the values,
requirements, findings and facts that a difference reads. Where neither spec nor catalog changed and
a number did, kvdsl itself computes it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from kvdsl.diagnostics import Diagnostic, Label, Severity
from kvdsl.formulas import Term
from kvdsl.plan import FORMAT, Fact, Finding, Plan, RequirementResult, Verdict
from kvdsl.plan.fleets import FleetPlan
from kvdsl.review.sides import Sketches
from kvdsl.source import SourceFile, Span
from kvdsl.units import Quantity, tidy, unit

MOST_PLACES = 100_000
"""Lines and columns beyond this are no place in a spec."""


class BadPlans(Exception):
    """The JSON holds no plans that can be compared; the words say why."""


def kept_plans(data: object) -> Sketches:
    """The plans of a JSON form. Raises BadPlans."""
    if not isinstance(data, Mapping) or "plans" not in data:
        raise BadPlans("it holds no plans; write them with `kvdsl plan FILE --output json`")
    if data.get("format") != FORMAT:
        raise BadPlans(f"this kvdsl reads format {FORMAT}, not {data.get('format')}")
    try:
        fleets = data.get("fleets", ())  # an older kvdsl kept none
        return Sketches(
            tuple(_plan(each) for each in data["plans"]), tuple(_fleet(each) for each in fleets)
        )
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        told = str(error).strip("'")[:80]
        raise BadPlans(f"a plan in it is not whole: {type(error).__name__} {told}") from None


def _plan(data: Mapping[str, Any]) -> Plan:
    place = SourceFile(str(data["file"]), "").span(0, 0)
    verdict = Verdict(data["verdict"]["mood"], str(data["verdict"]["sentence"]))
    made = _bare(str(data["name"]), str(data["file"]), verdict, place)
    return replace(
        made,
        model=str(data["model"]),
        layout=str(data["layout"]["text"]),
        layout_name=str(data["layout"]["name"]),
        hardware=str(data["hardware"]),
        workload=str(data["workload"]),
        formats=str(data["formats"]),
        engine=str(data.get("engine") or ""),  # an older kvdsl kept none
        values={name: _term(name, value) for name, value in data["values"].items()},
        requirements=tuple(_requirement(each) for each in data["requirements"]),
        findings=tuple(_finding(each) for each in data["findings"]),
        unplanned=data["unplanned"] or "",
        facts=tuple(_fact(each) for each in data["facts"]),
    )


def _fleet(data: Mapping[str, Any]) -> Plan:
    place = SourceFile(str(data["file"]), "").span(0, 0)
    verdict = Verdict(data["verdict"]["mood"], str(data["verdict"]["sentence"]))
    return replace(
        _bare(str(data["name"]), str(data["file"]), verdict, place),
        values={name: _term(name, value) for name, value in data["sums"].items()},
        requirements=tuple(_requirement(each) for each in data["requirements"]),
        findings=tuple(_finding(each) for each in data["findings"]),
        facts=tuple(_fact(each) for each in data["facts"]),
    )


def fleet_sketch(fleet: FleetPlan) -> Plan:
    """A fleet as a comparison needs it: its sums are its values."""
    return replace(
        _bare(fleet.name, fleet.file, fleet.verdict, fleet.span),
        values=fleet.sums,
        requirements=fleet.requirements,
        findings=fleet.findings,
        facts=fleet.facts,
    )


def _bare(name: str, file: str, verdict: Verdict, place: Span) -> Plan:
    return Plan(
        name=name,
        doc="",
        file=file,
        model="",
        layout="",
        layout_name="",
        hardware="",
        workload="",
        formats="",
        verdict=verdict,
        tiles=(),
        values={},
        requirements=(),
        findings=(),
        pictures=(),
        memory=(),
        cache=(),
        charts=(),
        collectives=(),
        steps=(),
        comparison=None,
        sweeps=(),
        assumptions=(),
        sources=(),
        texts=(),
        span=place,
    )


def _term(name: str, data: Mapping[str, Any]) -> Term:
    quantity = _quantity(data)
    return Term(name, quantity.value, quantity.dimension)


def _quantity(data: Mapping[str, Any]) -> Quantity:
    known = unit(data["unit"]) if data["unit"] != "1" else None
    value = data["value"]
    if "exact" in data:
        try:
            value = tidy(Fraction(data["exact"]))
        except ValueError:  # `inf` and `nan`
            value = float(data["exact"])
    if not isinstance(value, int | float | Fraction):
        raise TypeError(f"{value!r} is no number")
    if known is None:
        if data["unit"] != "1":
            raise ValueError(f"{data['unit']} is no unit")
        return Quantity(value)
    factor = known[1]
    scaled = value * float(factor) if isinstance(value, float) else tidy(value * factor)
    return Quantity(scaled, known[0])


def _maybe(data: Mapping[str, Any] | None) -> Quantity | None:
    return None if data is None else _quantity(data)


def _span(data: Mapping[str, Any] | None) -> Span:
    """A place of the line and the column, in a text that is blank up to there."""
    if data is None:
        return SourceFile("", "").span(0, 0)
    line = min(int(data["line"]), MOST_PLACES)
    column = min(int(data["column"]), MOST_PLACES)
    text = "\n" * (line - 1) + " " * column
    start = len(text) - 1
    return SourceFile(str(data["file"]), text).span(start, start + 1)


def _requirement(data: Mapping[str, Any]) -> RequirementResult:
    return RequirementResult(
        data["keyword"],
        str(data["text"]),
        str(data["label"]),
        str(data["because"]),
        data["status"],
        _maybe(data["value"]),
        _maybe(data["bound"]),
        str(data["margin"]),
        str(data["note"]),
        (),
        _span(data["place"]),
        waived=str(data.get("waived") or ""),  # an older kvdsl kept none
    )


def _finding(data: Mapping[str, Any]) -> Finding:
    severity = Severity(data["severity"])
    diagnostic = Diagnostic(
        str(data["code"]),
        severity,
        str(data["message"]),
        Label(_span(data["place"])),
        notes=_texts(data["notes"]),
        helps=_texts(data["helps"]),
    )
    return Finding(diagnostic.code, str(data["name"]), severity, diagnostic, waived=data["waived"])


def _texts(data: Sequence[object]) -> tuple[str, ...]:
    return tuple(str(each) for each in data)


def _fact(data: Mapping[str, Any]) -> Fact:
    return Fact(str(data["entry"] or ""), str(data["path"]), str(data["value"]),
                str(data["written"] or ""))  # fmt: skip
