"""The JSON forms that several commands share: quantities, places, findings, terms.

Comes in: frozen records. Goes out: plain objects in a fixed order of keys, and their text. Whole
numbers stay whole, a unit stands beside every quantity, and nothing is rounded. Not its job: the
form of a plan (machine_plan).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from kvdsl.diagnostics import Diagnostic, Fix, Label, Report, Severity
from kvdsl.formulas import Term
from kvdsl.plan import Input
from kvdsl.render.derivation import place
from kvdsl.source import Span
from kvdsl.units import Quantity, Value, told

FORMAT = 1
"""Version of every JSON form here. A key may be added within a version; none changes or goes."""

Json = dict[str, object]


def text(data: Json) -> str:
    """The text of a JSON form, ending in a newline."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def array(data: Sequence[Json]) -> str:
    """The text of a list, for forms that others prescribe."""
    return json.dumps(list(data), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def number(value: Value) -> Json:
    """`value`, and `exact` where that is not the whole truth: `{"value": 0.1, "exact": "1/10"}`."""
    if isinstance(value, float):
        if not isfinite(value):
            return {"value": None, "exact": str(value)}
        return {"value": value}
    if value.denominator == 1:
        return {"value": int(value)}
    return {"value": float(value), "exact": f"{value.numerator}/{value.denominator}"}


def quantity(given: Quantity) -> Json:
    """`{"value": 45234163200, "unit": "B"}`: base units, but watts, USD/h and USD/Mtok."""
    value, unit = told(given)
    return {**number(value), "unit": unit}


def maybe(given: Quantity | None) -> Json | None:
    return None if given is None else quantity(given)


def in_unit(given: Quantity, unit_name: str) -> Json:
    """Raises ValueError where that unit does not measure it."""
    return {**number(given.in_unit(unit_name)), "unit": unit_name}


def span(given: Span | None) -> Json | None:
    """Lines and columns from 1; `end` is behind the last character. Offsets count characters."""
    if given is None:
        return None
    end_line, end_column = given.file.position(given.end)
    return {
        "file": given.file.name,
        "line": given.line,
        "column": given.column,
        "end_line": end_line,
        "end_column": end_column,
        "start": given.start,
        "end": given.end,
    }


def diagnostic(given: Diagnostic) -> Json:
    return {
        "code": given.code,
        "severity": given.severity.value,
        "message": given.headline,
        "place": _label(given.primary),
        "labels": [_label(label) for label in given.labels],
        "notes": list(given.notes),
        "helps": list(given.helps),
        "fix": _fix(given.fix),
    }


def _label(label: Label) -> Json:
    return {**(span(label.span) or {}), "label": label.text}


def _fix(fix: Fix | None) -> Json | None:
    if fix is None:
        return None
    return {"title": fix.title, "place": span(fix.span), "replacement": fix.replacement}


def inputs(read: Iterable[Input]) -> list[Json]:
    """The texts that something was made of, to tell whether it would come out the same."""
    return [{"file": each.file, "sha256": each.sha256} for each in read]


def findings(report: Report, read: Iterable[Input] = ()) -> Json:
    """What `check --output json` writes."""
    return {
        "format": FORMAT,
        "inputs": inputs(read),
        "counts": {severity.value: report.count(severity) for severity in Severity},
        "findings": [diagnostic(each) for each in report.diagnostics],
    }


def values(deployment: str, terms: Mapping[str, Term]) -> Json:
    """Everything of the vocabulary that a deployment answers."""
    return {
        "format": FORMAT,
        "deployment": deployment,
        "values": {name: quantity(terms[name].quantity) for name in sorted(terms)},
    }


def derivation(name: str, term: Term) -> Json:
    """The chain as a list: a term names the terms that it takes by their place in it, so that one
    which many take is written once. The first is the value itself."""
    order: dict[int, int] = {}
    terms: list[Term] = []
    waiting = [term]
    while waiting:
        each = waiting.pop()
        if id(each) in order:
            continue
        order[id(each)] = len(terms)
        terms.append(each)
        waiting.extend(reversed(each.inputs))
    return {
        "format": FORMAT,
        "name": name,
        **quantity(term.quantity),
        "terms": [_term(each, [order[id(child)] for child in each.inputs]) for each in terms],
    }


def _term(term: Term, inputs: list[int]) -> Json:
    formula = term.formula
    return {
        "label": term.label,
        **quantity(term.quantity),
        "basis": term.basis,
        "formula": formula
        and {"name": formula.name, "text": formula.text, "source": formula.source},
        "inputs": inputs,
        "place": place(term),
        "source": term.source,
        "note": term.note,
    }
