"""The published numbers, and the plans that are asked for them.

`data/seed_cases.json` holds every number of the documents that kvdsl was written for, with its
tolerance. Tables of answers (`*_answers.py`) say what kvdsl gives for each; specs lie in `specs/`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kvdsl.formulas import Formula, Term
from kvdsl.pipeline import compile_text
from kvdsl.plan import CollectiveRow, Finding, Plan
from kvdsl.resolve.changes import Change
from kvdsl.units import (
    BYTES,
    BYTES_PER_TOKEN,
    NONE,
    REQUESTS,
    TIME,
    TOKENS,
    Dimension,
    Quantity,
    Value,
)

HERE = Path(__file__).resolve().parent
SEEDS: Mapping[str, Any] = json.loads((HERE / "data" / "seed_cases.json").read_text("utf-8"))

PAPER_FIGURES: tuple[Mapping[str, Any], ...] = tuple(
    json.loads((HERE / "data" / "paper_figures.json").read_text("utf-8"))
)

Key = tuple[str, str]
"""A case and the name of one of its values."""

Kind = Literal["spec", "terms", "formula"]
"""How kvdsl is asked: a value of a plan; the terms, findings, ledgers or collectives behind it; or
a formula of the library, where the document's inputs are rounded."""

UNITS: Mapping[str, tuple[frozenset[Dimension], Fraction]] = {
    "B": (frozenset({BYTES, BYTES_PER_TOKEN}), Fraction(1)),
    "tokens": (frozenset({TOKENS}), Fraction(1)),
    "sequences": (frozenset({REQUESTS}), Fraction(1)),
    "ms": (frozenset({TIME}), Fraction(1, 1000)),
    "us": (frozenset({TIME}), Fraction(1, 1_000_000)),
}
"""What a published unit may be in a plan. Every other one counts something: a plain number."""


@dataclass(frozen=True)
class Published:
    """One number of a document. `absolute` and `relative` say how near an answer must come."""

    value: Value
    unit: str
    absolute: Fraction | None
    relative: float | None
    printed: str

    def agrees(self, answer: Value | Quantity) -> bool:
        got = self._measured(answer)
        if self.absolute is not None:
            return abs(Fraction(got) - Fraction(self.value)) <= self.absolute
        assert self.relative is not None, "a number to record, not to test"
        return abs(float(got) - float(self.value)) <= self.relative * abs(float(self.value))

    def _measured(self, answer: Value | Quantity) -> Value:
        """The answer in the published unit."""
        if not isinstance(answer, Quantity):
            return answer
        dimensions, factor = UNITS.get(self.unit, (frozenset({NONE}), Fraction(1)))
        assert answer.dimension in dimensions, f"{answer.dimension.noun} for {self.unit}"
        return answer.value if factor == 1 else float(answer.value) / float(factor)


def _published() -> Iterator[tuple[Key, Published]]:
    for case in SEEDS["cases"]:
        for one in case["expected"]:
            near = one["tolerance"]
            yield (
                (case["id"], one["name"]),
                Published(
                    one["value"],
                    one["unit"],
                    Fraction(near["abs"]) if "abs" in near else None,
                    near.get("rel"),
                    one.get("printed", ""),
                ),
            )


PUBLISHED: Mapping[Key, Published] = dict(_published())


def given(case: str) -> Mapping[str, Any]:
    """The inputs of a case."""
    inputs: Mapping[str, Any] = next(c["inputs"] for c in SEEDS["cases"] if c["id"] == case)
    return inputs


# --- tables of answers -------------------------------------------------------------------------


Ask = Callable[[], Value | Quantity]


@dataclass(frozen=True)
class Answer:
    kind: Kind
    ask: Ask


def answers(
    case: str,
    *,
    spec: Mapping[str, Ask] | None = None,
    terms: Mapping[str, Ask] | None = None,
    formula: Mapping[str, Ask] | None = None,
) -> dict[Key, Answer]:
    """The answers to one case, by the way kvdsl is asked."""
    found: dict[Key, Answer] = {}
    tables: tuple[tuple[Kind, Mapping[str, Ask]], ...] = (
        ("spec", spec or {}),
        ("terms", terms or {}),
        ("formula", formula or {}),
    )
    for kind, table in tables:
        for name, ask in table.items():
            assert (case, name) not in found, f"{case}: {name} is answered twice"
            found[case, name] = Answer(kind, ask)
    return found


# --- plans -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """A file of `specs/`; each of its deployments is compiled when first asked."""

    name: str

    @property
    def text(self) -> str:
        return (HERE / "specs" / f"{self.name}.kvspec").read_text("utf-8")

    def plan(self, deployment: str, **changes: str) -> Plan:
        return _plan(self, "", deployment, tuple(changes.items()))

    def with_lines(self, deployment: str, *lines: str) -> Plan:
        """The plan of a child of the deployment with more lines."""
        body = "\n".join(f"  {line}" for line in lines)
        return _plan(self, f"deployment child extends {deployment} {{\n{body}\n}}\n", "child", ())

    def value(self, deployment: str, name: str) -> Quantity:
        return self.plan(deployment).value(name)

    def number(self, deployment: str, name: str) -> Fraction:
        """The value, which must be exact."""
        value = self.value(deployment, name).value
        assert isinstance(value, int | Fraction), f"{name} is not exact"
        return Fraction(value)


@cache
def _plan(spec: Spec, more: str, deployment: str, changes: tuple[tuple[str, str], ...]) -> Plan:
    text = f"{spec.text}\n{more}"
    overrides = [Change(path.replace("__", "."), value) for path, value in changes]
    made = compile_text(text, f"{spec.name}.kvspec", overrides, only=deployment)
    unreadable = [d for d in made.report.diagnostics if d.code < "KV100"]
    assert not unreadable, unreadable
    return made.plan(deployment)


def terms(term: Term) -> Iterator[Term]:
    """The term and everything behind it, nearest first."""
    yield term
    for one in term.inputs:
        yield from terms(one)


def made_by(plan: Plan, value: str, formula: Formula) -> Term:
    """The first term behind a value that a formula gave."""
    return next(t for t in terms(plan.values[value]) if t.formula is formula)


def finding(plan: Plan, code: str) -> Finding:
    (found,) = (f for f in plan.findings if f.code == code)
    return found


def codes(plan: Plan) -> set[str]:
    return {f.code for f in plan.findings}


def quantity(plan: Plan, code: str, name: str) -> Quantity:
    """A quantity that a finding shows."""
    return dict(finding(plan, code).quantities)[name]


def rows(plan: Plan, kind: str, phase: str = "decode") -> list[CollectiveRow]:
    return [r for r in plan.collectives if r.phase == phase and r.kind == kind]
