"""Requirements: `require` and `expect` judged against a plan's values.

Comes in: requirements, whose expressions ask names of the vocabulary, and the terms that answer
them. Goes out: results with value, bound, margin and the largest terms. Not its job: dimensions,
which the resolver has checked, and matching a wrong claim with its derivation (claims).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil as up
from math import floor as down
from types import MappingProxyType
from typing import Any

from kvdsl.formulas import Term, total
from kvdsl.plan import RequirementResult, Status
from kvdsl.spec.deployment import Requirement
from kvdsl.syntax.nodes import (
    Binary,
    Call,
    Expr,
    Items,
    Measure,
    Number,
    Path,
    Truth,
    Unary,
    Within,
)
from kvdsl.units import Quantity, Value, grouped, shown

Values = Mapping[str, Term]
Result = Quantity | bool | None

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }
)
CLAIMS = frozenset({"==", "within"})
"""Operators that claim a figure, rather than bound one."""

JUDGED = frozenset({"KV146", "KV910", "KV911", "KV912"})
"""Codes of the findings that say that a requirement does not hold."""


@dataclass(slots=True)
class Evaluation:
    """Evaluates expressions over the values of a plan. `missing` gathers the names that it does
    not answer: a result of None means that something was missing."""

    values: Values
    constants: Mapping[str, Quantity]
    missing: list[str] = field(default_factory=list)

    def of(self, expr: Expr) -> Result:
        match expr:
            case Number(value=value):
                return Quantity(value)
            case Measure(quantity=quantity):
                return quantity
            case Truth(value=truth):
                return truth
            case Path():
                return self._named(expr.dotted)
            case Within():
                return self._within(expr)
            case Unary():
                return self._unary(expr)
            case Binary():
                return self._binary(expr)
            case Call():
                return self._call(expr)
            case _:
                return None

    def _named(self, dotted: str) -> Result:
        if dotted in self.values:
            return self.values[dotted].quantity
        if dotted in self.constants:
            return self.constants[dotted]
        self.missing.append(dotted)
        return None

    def _unary(self, expr: Unary) -> Result:
        inner = self.of(expr.operand)
        if inner is None:
            return None
        if expr.operator == "not":
            return not inner
        return Quantity(-inner.value, inner.dimension) if isinstance(inner, Quantity) else None

    def _binary(self, expr: Binary) -> Result:
        left, right = self.of(expr.left), self.of(expr.right)
        if expr.operator in ("and", "or"):
            if left is None or right is None:
                return None
            both = bool(left), bool(right)
            return all(both) if expr.operator == "and" else any(both)
        if not isinstance(left, Quantity) or not isinstance(right, Quantity):
            return None
        if expr.operator in _COMPARE:
            return _COMPARE[expr.operator](left.value, right.value)
        return _arithmetic(expr.operator, left, right)

    def _within(self, expr: Within) -> Result:
        parts = (self.of(expr.value), self.of(expr.tolerance), self.of(expr.target))
        value, tolerance, target = parts
        if not (
            isinstance(value, Quantity)
            and isinstance(tolerance, Quantity)
            and isinstance(target, Quantity)
        ):
            return None
        return abs(float(value.value) - float(target.value)) <= float(tolerance.value) * abs(
            float(target.value)
        )

    def _call(self, expr: Call) -> Result:
        found: list[Quantity] = []
        for argument in expr.arguments:
            inner = argument.items if isinstance(argument, Items) else (argument,)
            for item in inner:
                value = self.of(item)
                if not isinstance(value, Quantity):
                    return None
                found.append(value)
        if not found:
            return None
        return _function(expr.function.text, found)


def _function(name: str, found: list[Quantity]) -> Result:
    dimension = found[0].dimension
    numbers = [q.value for q in found]
    if name in ("ceil", "floor"):
        step = numbers[1] if len(numbers) > 1 else 1
        times = Fraction(numbers[0]) / Fraction(step)
        return Quantity((up if name == "ceil" else down)(times) * step, dimension)
    functions: dict[str, Callable[[Any], Any]] = {"min": min, "max": max, "sum": sum}
    return Quantity(functions[name](numbers), dimension) if name in functions else None


def _arithmetic(operator: str, left: Quantity, right: Quantity) -> Quantity | None:
    a, b = left.value, right.value
    if operator == "+":
        return Quantity(a + b, left.dimension)
    if operator == "-":
        return Quantity(a - b, left.dimension)
    if operator == "*":
        return Quantity(a * b, left.dimension * right.dimension)
    if operator == "/" and b:
        exact = not isinstance(a, float) and not isinstance(b, float)
        quotient = Fraction(a) / Fraction(b) if exact else float(a) / float(b)
        return Quantity(quotient, left.dimension / right.dimension)
    return None


def asked_names(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    """Names of the plan that conditions ask, each once."""
    found: dict[str, None] = {}
    for one in requirements:
        waiting = [one.condition] if one.when is None else [one.when, one.condition]
        while waiting:
            expr = waiting.pop()
            if isinstance(expr, Path) and expr.dotted not in one.constants:
                found[expr.dotted] = None
            waiting += _inside(expr)
    return tuple(found)


def _inside(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Binary():
            return expr.left, expr.right
        case Within():
            return expr.value, expr.tolerance, expr.target
        case Unary():
            return (expr.operand,)
        case Call():
            return expr.arguments
        case Items():
            return expr.items
        case _:
            return ()


def met(requirement: Requirement, values: Values) -> bool | None:
    """Whether a requirement holds, without a result to show: for many plans. None where they do
    not answer it; one that does not apply holds."""
    seen = Evaluation(values, requirement.constants)
    if requirement.when is not None and seen.of(requirement.when) is False:
        return True
    outcome = seen.of(requirement.condition)
    return None if outcome is None or seen.missing else bool(outcome)


# --- judging -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """A requirement with its result, the name it is about and the operator it was compared by."""

    requirement: Requirement
    result: RequirementResult
    name: str
    operator: str
    missing: tuple[str, ...]


def judge(requirement: Requirement, values: Values) -> Judged:
    """The result of one requirement."""
    seen = Evaluation(values, requirement.constants)
    if requirement.when is not None:
        applies = seen.of(requirement.when)
        if applies is False:
            return _judged(requirement, "skipped", None, "", ())
    outcome = seen.of(requirement.condition)
    failing = _first_failing(requirement.condition, seen)
    if outcome is None or seen.missing:
        names = tuple(dict.fromkeys(seen.missing))
        return _judged(requirement, "unanswered", failing, "", names, seen)
    status: Status = "holds" if outcome else "fails"
    return _judged(requirement, status, failing, "", (), seen)


def _first_failing(condition: Expr, seen: Evaluation) -> Expr:
    """Of conditions joined by `and`, the first that fails; else the first of all."""
    links: list[Expr] = []
    waiting = [condition]
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, Binary) and expr.operator == "and":
            waiting += [expr.right, expr.left]
        else:
            links.append(expr)
    return next((e for e in links if seen.of(e) is False), links[0])


def _judged(
    requirement: Requirement,
    status: Status,
    about: Expr | None,
    note: str,
    missing: tuple[str, ...],
    seen: Evaluation | None = None,
) -> Judged:
    value, bound, name, operator = _sides(about, seen) if about and seen else (None, None, "", "")
    largest: tuple[Term, ...] = ()
    if status == "fails" and seen is not None and name in seen.values:
        largest = largest_terms(seen.values[name])
    result = RequirementResult(
        requirement.keyword,
        " ".join(requirement.condition.span.text.split()),
        requirement.label or "",
        requirement.because or "",
        status,
        value,
        bound,
        _margin(value, bound, operator),
        note,
        largest,
        requirement.span,
        name,
        operator=operator,
    )
    return Judged(requirement, result, name, operator, missing)


_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _sides(about: Expr, seen: Evaluation) -> tuple[Quantity | None, Quantity | None, str, str]:
    """Value, bound, the asked name and the operator, with the asked name on the left."""
    if isinstance(about, Within):
        left, right, operator = about.value, about.target, "within"
    elif isinstance(about, Binary) and about.operator in _COMPARE:
        left, right, operator = about.left, about.right, about.operator
    else:
        return None, None, "", ""
    if not _asks(left, seen) and _asks(right, seen):
        left, right = right, left
        operator = _FLIPPED.get(operator, operator)
    value, bound = seen.of(left), seen.of(right)
    name = left.dotted if isinstance(left, Path) else " ".join(left.span.text.split())
    return (
        value if isinstance(value, Quantity) else None,
        bound if isinstance(bound, Quantity) else None,
        name,
        operator,
    )


def _asks(expr: Expr, seen: Evaluation) -> bool:
    """Whether an expression asks something of the plan."""
    match expr:
        case Path():
            return expr.dotted in seen.values or expr.dotted not in seen.constants
        case Binary():
            return _asks(expr.left, seen) or _asks(expr.right, seen)
        case Unary():
            return _asks(expr.operand, seen)
        case Call():
            return any(_asks(a, seen) for a in expr.arguments)
        case _:
            return False


def _margin(value: Quantity | None, bound: Quantity | None, operator: str) -> str:
    if value is None or bound is None:
        return ""
    if operator in ("==", "!=") or value.value == bound.value:
        return "equal" if value.value == bound.value else _apart(value, bound)
    return _apart(value, bound)


def _apart(value: Quantity, bound: Quantity) -> str:
    gap: Value = value.value - bound.value
    size = Quantity(gap if gap > 0 else -gap, value.dimension)
    word = "above" if gap > 0 else "below"
    share = (
        f" ({grouped(abs(float(gap)) / abs(float(bound.value)) * 100)} %)" if bound.value else ""
    )
    return f"{shown(size)}{share} {word}"


def largest_terms(term: Term, most: int = 3) -> tuple[Term, ...]:
    """The terms that weigh most in a value: of nested sums the largest parts, of a `greatest` the
    one that won; of any other formula what was put in."""
    parts: list[Term] = []
    waiting = [term]
    while waiting:
        part = waiting.pop(0)
        name = part.formula.name if part.formula is not None else ""
        if name == "sum" and part.inputs:
            waiting = [*part.inputs, *waiting]
        elif name in ("greatest", "least") and part.inputs:
            pick = max if name == "greatest" else min
            waiting = [pick(part.inputs, key=lambda t: t.value), *waiting]
        else:
            parts.append(part)
    if len(parts) == 1:
        return _put_in(parts[0])[:most]
    merged: dict[str, Term] = {}
    for part in parts:
        known = merged.get(part.label)
        merged[part.label] = total(part.label, [known, part]) if known else part
    return tuple(sorted(merged.values(), key=lambda t: -abs(float(t.value)))[:most])


def _put_in(term: Term) -> tuple[Term, ...]:
    """What was put in, past steps that change nothing: one holder times its tokens. A definition,
    as the hours of a year, says nothing of the plan: what it is beside is asked further."""
    given = [t for t in term.inputs if t.basis != "definition"]
    if len(given) == 1 and len(term.inputs) > 1:
        return largest_terms(given[0])
    same = [t for t in term.inputs if t.value == term.value and t.dimension == term.dimension]
    if same:
        return _put_in(same[0])
    return term.inputs or (term,)


def constant(label: str, value: Quantity) -> Term:
    """An input of the plan as a term, for requirements that ask it by path."""
    return Term(label, value.value, value.dimension, basis="spec")
