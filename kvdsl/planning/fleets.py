"""Fleets: deployments on the same hardware, their sums, and what is required of those.

Comes in: a resolved fleet and the outcome of each deployment. Goes out: the sums as terms,
requirements judged, findings. Not its job: the deployments themselves (deploy).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

from kvdsl.checks import claims as claim_rules
from kvdsl.checks import prices as price_rules
from kvdsl.checks.findings import worded
from kvdsl.checks.study import Fact, Fill
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.money import paid, power_bill, price_bill, yearly
from kvdsl.diagnostics import Diagnostic, Severity
from kvdsl.formulas import Term, total
from kvdsl.placement.placement import Placement
from kvdsl.placement.sites import level_of, one_piece
from kvdsl.planning.absences import paid_absences
from kvdsl.planning.deploy import Outcome, outcome
from kvdsl.planning.told import Told, whose
from kvdsl.requirements import Judged, judge
from kvdsl.resolve.changes import Change
from kvdsl.resolve.resolver import Resolver
from kvdsl.rules import Rule
from kvdsl.source import Span
from kvdsl.spec.deployment import Fleet
from kvdsl.units import shown

SUMS: Mapping[str, str] = MappingProxyType(
    {
        "gpus": "GPUs",
        "power": "power",
        "cost.per_hour": "cost an hour",
        "decode.throughput": "tokens a second",
    }
)
"""Values that add up over deployments, with their labels."""

NOT_ALL = "not every deployment gives it"

PRICES = ("cost.per_hour", "cost.per_mtok")

PER_YEAR = "cost.per_year"
"""What `cost.per_hour` comes to in a year."""


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """`values` has the sums, and each deployment's values as `deployments.NAME.VALUE`. A sum is
    missing where one deployment does not answer it: half a bill is no bill; `absent` says why, by
    the name of the sum. `members` are the deployments' own parts of the sums. Both are under the
    fleet's price where it has one."""

    fleet: Fleet
    values: Mapping[str, Term]
    judged: tuple[Judged, ...]
    told: tuple[Told, ...]
    members: Mapping[str, Mapping[str, Term]]
    absent: Mapping[str, str]


def fleet_outcome(fleet: Fleet, outcomes: Sequence[Outcome]) -> FleetOutcome:
    """The outcomes are those of the fleet's deployments, in its order."""
    priced = {found.deployment.name: _priced(fleet, found) for found in outcomes}
    members = {name: _parts(values) for name, values in priced.items()}
    values = dict(_values(fleet, outcomes, members))
    for of, own in priced.items():
        values |= {f"deployments.{of}.{name}": term for name, term in own.items()}
    absent = dict(_absent(fleet, outcomes, members, values))
    whole = all(found.values for found in outcomes)
    judged = tuple(judge(r, values) for r in fleet.requirements) if whole else ()
    told = (*_failed(fleet, judged, absent), *_shared(outcomes), *_priced_twice(fleet, outcomes))
    return FleetOutcome(fleet, values, judged, told, members, absent)


def members_of(fleet: Fleet, known: Mapping[Span | None, Outcome]) -> list[Outcome]:
    """Outcomes of a fleet's deployments, those that are `known` by where they are declared taken
    from there."""
    return [known.get(d.at) or outcome(d) for d in fleet.deployments]


@dataclass(frozen=True, slots=True)
class Changed:
    """A fleet with changes from outside, and its deployments in order. Without an outcome the
    fleet, or a deployment of it, refuses one: a sum of deployments some of which are changed is
    none."""

    faults: tuple[Diagnostic, ...]
    outcome: FleetOutcome | None = None
    parts: tuple[Outcome, ...] = ()


def changed(
    resolver: Resolver,
    name: str,
    changes: Sequence[Change],
    known: Mapping[Span | None, Outcome] = MappingProxyType({}),
) -> Changed:
    """A fleet that a file declares, its deployments those of other files too. `known` have had
    their changes. A fault that several have alike is told once."""
    fleet, found = resolver.fleet(name, changes)
    if fleet is None:
        return Changed(found)
    outcomes: dict[Span | None, Outcome] = dict(known)
    faults: dict[tuple[str, str, str], Diagnostic] = {}
    for each in fleet.deployments if changes else ():
        if each.at in outcomes:
            continue
        made, wrong = resolver.member(each, changes)
        if made is not None:
            outcomes[each.at] = outcome(made)
        else:
            faults |= {(d.code, d.headline, str(d.primary.span)): d for d in wrong}
    if faults:
        return Changed((*found, *faults.values()))
    parts = tuple(members_of(fleet, outcomes))
    return Changed(found, fleet_outcome(fleet, parts), parts)


def _placements(found: Outcome) -> list[Placement]:
    return [estimate.placement for estimate in found.estimates.values()]


def _priced(fleet: Fleet, found: Outcome) -> Mapping[str, Term]:
    """Its values, and those of its pools, as the fleet pays for them. A node that others stand in,
    too, is paid whole in each."""
    if fleet.price is None or not found.values:
        return found.values
    values = {n: term for n, term in found.values.items() if not n.endswith(PRICES)}
    parts = {f"pools.{name}.": [e.placement] for name, e in found.estimates.items() if name}
    for start, placements in ({"": _placements(found)} | parts).items():
        own = {n.removeprefix(start): term for n, term in values.items() if n.startswith(start)}
        values |= {start + name: term for name, term in paid(placements, fleet, own).items()}
    return values


def _parts(values: Mapping[str, Term]) -> dict[str, Term]:
    """A deployment's own part of each sum."""
    found = {name: values[name] for name in SUMS if name in values}
    if "cost.per_hour" in found:
        found[PER_YEAR] = yearly(found["cost.per_hour"], "cost a year")
    return found


Members = Mapping[str, Mapping[str, Term]]


def _values(
    fleet: Fleet, outcomes: Sequence[Outcome], members: Members
) -> Iterator[tuple[str, Term]]:
    bills = _bills(fleet, outcomes)
    for name, label in SUMS.items():
        own = {of: values[name].named(of) for of, values in members.items() if name in values}
        one = total(f"{label} of the fleet", list(own.values())) if own else None
        bill = bills.get(name)
        if name in bills:
            # The sum shows each deployment, where no unit is in two of them.
            whole = one is not None and len(own) == len(outcomes)
            apart = whole and one is not None and bill is not None and one.value == bill.value
            summed = one if apart else bill
        else:
            summed = one if len(own) == len(outcomes) else None
        if summed is None or (name == "decode.throughput" and len(_models(outcomes)) > 1):
            continue
        yield name, summed
        if name == "cost.per_hour":
            yield PER_YEAR, yearly(summed, "cost a year of the fleet")


def _models(outcomes: Sequence[Outcome]) -> set[str]:
    """Models that are served: a token of one is no token of another."""
    pools = (pool for found in outcomes for pool in found.deployment.pools.values())
    return {pool.model.title for pool in pools if pool.model is not None}


def _bills(fleet: Fleet, outcomes: Sequence[Outcome]) -> dict[str, Term | None]:
    """What all deployments pay together: a node that two of them stand in is there once. Those
    with a price of their own pay it apart, unless the fleet has one."""
    if not all(found.values for found in outcomes):
        return dict.fromkeys(("power", "cost.per_hour"))
    held = [(o, _placements(o)) for o in outcomes]
    every = [placement for _, placements in held for placement in placements]
    apart = [] if fleet.price is not None else [each for each in held if each[0].deployment.price]
    shared = [p for o, ps in held if not any(o is own for own, _ in apart) for p in ps]
    bills = [price_bill(placements, o.deployment) for o, placements in apart]
    bills += [price_bill(shared, fleet)] if shared else []
    prices = [bill.whole for bill in bills if bill.whole is not None]
    price = total("cost an hour of the fleet", prices) if len(prices) == len(bills) else None
    return {"power": power_bill(every).whole, "cost.per_hour": price}


def _absent(
    fleet: Fleet, outcomes: Sequence[Outcome], members: Members, values: Mapping[str, Term]
) -> Iterator[tuple[str, str]]:
    """Why a sum is missing: the first deployment that lacks its part."""
    for name in SUMS:
        if name in values:
            continue
        found = next((o for o in outcomes if name not in members[o.deployment.name]), None)
        if found is None:
            yield name, "the deployments serve different models"
            continue
        said = f"`{found.deployment.name}` lacks it: {_lacks(fleet, found, name)}"
        yield name, said
        if name == "cost.per_hour":
            yield PER_YEAR, said


def _lacks(fleet: Fleet, found: Outcome, name: str) -> str:
    if not found.values:
        return f"it cannot be planned, {found.why}"
    by = fleet if fleet.price is not None else found.deployment
    reasons = {**found.absent, **paid_absences(_placements(found), by)}
    return reasons.get(name, "no output is planned" if name.startswith("decode.") else "")


def _failed(fleet: Fleet, judged: Sequence[Judged], absent: Mapping[str, str]) -> Iterator[Told]:
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
            "why": next((absent[n] for n in one.missing if n in absent), NOT_ALL),
            "margin": result.margin or "it does not hold",
            "terms": "from " + ", ".join(f"{t.label} {shown(t.quantity)}" for t in result.largest)
            if result.largest
            else "",
            "because": result.because,
        }
        fact = Fact(one.requirement.condition.span, fills)
        severity = rule.severity if result.keyword == "require" else Severity.WARNING
        told = Told(rule, worded(rule, fact, severity), fact, severity, None)
        yield whose(told, one.requirement, "fleet", fleet.name)


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


def _priced_twice(fleet: Fleet, outcomes: Sequence[Outcome]) -> Iterator[Told]:
    """Deployments that pay otherwise by their own price than by the fleet's."""
    rule = price_rules.two_prices
    for found in outcomes:
        placed = _placements(found)
        for fact in price_rules.two_prices_facts(fleet, found.deployment, placed):
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
