"""Bounds: what a deployment's requirements ask of single values, read without judging them.

Comes in: requirements. Goes out: name, operator, bound, place. Left out: conditions on more than
one value, and those that hold at times only (`when`). Judging is the requirements' job; a rule
asks here whether an alternative would keep or gain a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt

from kvdsl.checks.study import Study
from kvdsl.costs.estimate import Estimate
from kvdsl.source import Span
from kvdsl.syntax.nodes import Binary, Expr, Measure, Number, Path
from kvdsl.units import Quantity, Value

FLIPPED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
COMPARED = {"<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True)
class Bound:
    """`written` is the bound where it stands as a figure, with its unit."""

    name: str
    operator: str
    value: Quantity
    span: Span
    written: Measure | None

    def holds(self, found: Estimate, value: Value | None = None) -> bool | None:
        """Whether an estimate keeps it, or would with another bound; None if it does not say."""
        if self.name not in found.values:
            return None
        asked = self.value.value if value is None else value
        return bool(COMPARED[self.operator](found.values[self.name].value, asked))


def bounds(study: Study) -> tuple[Bound, ...]:
    """The bounds on values of the one pool; none where pools are summed."""
    deployment = study.subject.deployment
    if len(deployment.pools) > 1:
        return ()
    found: list[Bound] = []
    for requirement in deployment.requirements:
        if requirement.when is None:
            for link in _links(requirement.condition):
                found.extend(_bound(link, requirement.constants))
    return tuple(found)


def _links(condition: Expr) -> Iterator[Expr]:
    """The conditions that `and` joins."""
    if isinstance(condition, Binary) and condition.operator == "and":
        yield from _links(condition.left)
        yield from _links(condition.right)
    else:
        yield condition


def _bound(condition: Expr, constants: Mapping[str, Quantity]) -> Iterator[Bound]:
    if not isinstance(condition, Binary) or condition.operator not in COMPARED:
        return
    sides = (
        (condition.left, condition.right, condition.operator),
        (condition.right, condition.left, FLIPPED[condition.operator]),
    )
    for asked, given, operator in sides:
        if isinstance(asked, Path) and asked.dotted not in constants:
            value = _value(given, constants)
            if value is not None:
                written = given if isinstance(given, Measure) else None
                yield Bound(asked.dotted, operator, value, condition.span, written)


def _value(given: Expr, constants: Mapping[str, Quantity]) -> Quantity | None:
    match given:
        case Measure(quantity=quantity):
            return quantity
        case Number(value=value):
            return Quantity(value)
        case Path():
            return constants.get(given.dotted)
        case _:
            return None
