"""Fleets: deployments on the same hardware, their sums, and what is required of those.

Comes in: a resolved fleet and the outcome of each deployment. Goes out: the sums as terms,
requirements judged, findings. Not its job: the deployments themselves (deploy).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from kvdsl.checks import claims as claim_rules
from kvdsl.checks.findings import worded
from kvdsl.checks.study import Fact, Fill
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.money import power_bill, price_bill
from kvdsl.diagnostics import Severity
from kvdsl.formulas import Term, total
from kvdsl.placement.sites import level_of, one_piece
from kvdsl.planning.deploy import Outcome, Told
from kvdsl.requirements import Judged, judge
from kvdsl.rules import Rule
from kvdsl.spec.deployment import Fleet
from kvdsl.units import shown

SUMS = {"gpus": "GPUs", "power": "power", "cost.per_hour": "cost an hour"}
"""Values that add up over deployments, with their labels."""


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """`values` has the sums, and each deployment's values as `deployments.NAME.VALUE`. A sum is
    missing where one deployment does not answer it: half a bill is no bill."""

    fleet: Fleet
    values: Mapping[str, Term]
    judged: tuple[Judged, ...]
    told: tuple[Told, ...]


def fleet_outcome(fleet: Fleet, outcomes: Sequence[Outcome]) -> FleetOutcome:
    """The outcomes are those of the fleet's deployments, in its order."""
    values = dict(_values(fleet, outcomes))
    whole = all(found.values for found in outcomes)
    judged = tuple(judge(r, values) for r in fleet.requirements) if whole else ()
    told = (*_failed(judged), *_shared(outcomes))
    return FleetOutcome(fleet, values, judged, told)


def _values(fleet: Fleet, outcomes: Sequence[Outcome]) -> Iterator[tuple[str, Term]]:
    bills = _bills(fleet, outcomes)
    for name, label in SUMS.items():
        terms = [
            found.values[name].named(found.deployment.name)
            for found in outcomes
            if name in found.values
        ]
        one = total(f"{label} of the fleet", terms) if terms else None
        if one is not None and len(terms) == len(outcomes) and name not in bills:
            yield name, one
        elif (bill := bills.get(name)) is not None:
            # The sum shows each deployment, where no unit is in two of them.
            apart = one is not None and one.value == bill.value
            yield name, one if one is not None and apart else bill
    for found in outcomes:
        for name, term in found.values.items():
            yield f"deployments.{found.deployment.name}.{name}", term


def _bills(fleet: Fleet, outcomes: Sequence[Outcome]) -> dict[str, Term | None]:
    """What all deployments pay together: a node that two of them stand in is there once. Those
    with a price of their own pay it apart, unless the fleet has one."""
    if not all(found.values for found in outcomes):
        return dict.fromkeys(("power", "cost.per_hour"))
    held = [(o, [e.placement for e in o.estimates.values()]) for o in outcomes]
    every = [placement for _, placements in held for placement in placements]
    apart = [] if fleet.price is not None else [each for each in held if each[0].deployment.price]
    shared = [p for o, ps in held if not any(o is own for own, _ in apart) for p in ps]
    bills = [price_bill(placements, o.deployment) for o, placements in apart]
    bills += [price_bill(shared, fleet)] if shared else []
    prices = [bill.whole for bill in bills if bill.whole is not None]
    price = total("cost an hour of the fleet", prices) if len(prices) == len(bills) else None
    return {"power": power_bill(every).whole, "cost.per_hour": price}


def _failed(judged: Sequence[Judged]) -> Iterator[Told]:
    for one in judged:
        result = one.result
        if result.status not in ("fails", "unanswered"):
            continue
        rule: Rule = claim_rules.failed_requirement
        if result.status == "unanswered":
            rule = claim_rules.unanswered_requirement
        elif result.keyword == "expect":
            rule = claim_rules.failed_expectation
        fills: dict[str, Fill] = {
            "name": one.name or result.text,
            "names": ", ".join(one.missing) or result.text,
            "value": result.value if result.value is not None else "false",
            "text": result.text,
            "why": "not every deployment gives it",
            "margin": result.margin or "it does not hold",
            "terms": "from " + ", ".join(f"{t.label} {shown(t.quantity)}" for t in result.largest)
            if result.largest
            else "",
            "because": result.because,
        }
        fact = Fact(one.requirement.condition.span, fills)
        severity = rule.severity if result.keyword == "require" else Severity.WARNING
        yield Told(rule, worded(rule, fact, severity), fact, severity, None)


def _shared(outcomes: Sequence[Outcome]) -> Iterator[Told]:
    """Deployments that stand on the same devices of a named cluster."""
    rule = claim_rules.shared_devices
    for one, other in combinations(outcomes, 2):
        for first in one.estimates.values():
            for second in other.estimates.values():
                count = _common(first, second)
                on = second.subject.pool.on
                if not count or on is None:
                    continue
                fills: dict[str, Fill] = {
                    "first": one.deployment.name,
                    "second": other.deployment.name,
                    "title": on.of.title,
                    "level": on.pick.level if on.pick else level_of(on.of),
                    "count": count,
                }
                fact = Fact(second.subject.place("on"), fills)
                yield Told(rule, worded(rule, fact), fact, rule.severity, None)


def _common(first: Estimate, second: Estimate) -> int:
    """Devices in both of what is one piece; `2 x nodes.hgx_h100` is some two."""
    a, b = first.subject.pool.on, second.subject.pool.on
    if a is None or b is None or not one_piece(a, b):
        return 0
    return sum(
        max(0, min(s + n, t + m) - max(s, t))
        for _, s, n in first.subject.topology.picked
        for _, t, m in second.subject.topology.picked
    )
