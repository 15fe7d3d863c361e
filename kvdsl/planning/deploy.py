"""One deployment, planned: pools estimated, requirements judged, findings gathered.

Comes in: a resolved deployment. Goes out: an `Outcome` (estimates, values, findings, judged
requirements), enough for `check`; `build` adds what a Plan shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

from kvdsl.checks import claims as claim_rules
from kvdsl.checks.findings import RULES, Fired, examine, worded
from kvdsl.checks.study import Fact, Fill
from kvdsl.costs.estimate import Estimate, memory_estimate
from kvdsl.costs.memory import leaf
from kvdsl.costs.money import price_of_token
from kvdsl.diagnostics import Diagnostic, Severity
from kvdsl.formulas import Term
from kvdsl.planning import pools
from kvdsl.planning.claims import explanation
from kvdsl.planning.subjects import inputs, subject
from kvdsl.requirements import CLAIMS, Judged, judge
from kvdsl.rules import Rule
from kvdsl.spec.declaration import Block
from kvdsl.spec.deployment import Deployment
from kvdsl.spec.layout import Layout
from kvdsl.spelling import nearest
from kvdsl.syntax.nodes import Measure, Number, Within
from kvdsl.units import TOKEN_RATE, Quantity, exact, shown


@dataclass(frozen=True, slots=True)
class Told:
    """A finding of the deployment: the rule, its words, the fact, and the reason that waives it."""

    rule: Rule
    diagnostic: Diagnostic
    fact: Fact
    severity: Severity
    estimate: Estimate | None
    waived: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """`faults` are errors before any plan (sizes that disagree); `told` the findings, waived ones
    too; `values` is empty where the deployment cannot be planned."""

    deployment: Deployment
    estimates: Mapping[str, Estimate]
    values: Mapping[str, Term]
    judged: tuple[Judged, ...]
    told: tuple[Told, ...]
    faults: tuple[Diagnostic, ...]

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What a check tells: faults and all findings that are not waived."""
        return (*self.faults, *(t.diagnostic for t in self.told if t.waived is None))


def outcome(deployment: Deployment, layout: Layout | None = None) -> Outcome:
    """The deployment under its own layouts, or with `layout` in every pool."""
    estimates: dict[str, Estimate] = {}
    faults: list[Diagnostic] = []
    told: list[Told] = []
    for name, pool in deployment.pools.items():
        made, wrong = subject(deployment, pool, layout)
        faults.extend(wrong)
        if made is None:
            continue
        seen = examine(made)
        told.extend(_told(name, fired, seen.estimate) for fired in seen.fired)
        if seen.estimate is not None:
            estimates[name] = seen.estimate
    complete = not faults and len(estimates) == len(deployment.pools)
    values = _values(deployment, estimates) if complete else {}
    if values and layout is None:
        values |= measured_values(deployment, values)
    judged = tuple(judge(r, values) for r in deployment.requirements) if values else ()
    told.extend(_requirement_findings(deployment, judged, estimates, layout))
    told.extend(_not_costed(deployment))
    told.extend(_shared_devices(estimates))
    told = list(_waived(deployment, told, complete=complete and not _stopped(told)))
    return Outcome(deployment, estimates, values, judged, tuple(told), tuple(faults))


def _stopped(told: Sequence[Told]) -> bool:
    return any(t.rule.stage in ("subject", "placement") and t.severity is Severity.ERROR
               for t in told)  # fmt: skip


def _values(deployment: Deployment, estimates: Mapping[str, Estimate]) -> dict[str, Term]:
    found = pools.values(deployment, estimates)
    first = next(iter(estimates.values()))
    for name, term in inputs(first.subject).items():
        found.setdefault(name, term)
    return found


def measured_values(deployment: Deployment, values: Mapping[str, Term]) -> dict[str, Term]:
    """What a run gave elsewhere, and the cost of a token that follows."""
    run = deployment.measured
    if run is None:
        return {}
    rate = leaf(run, "throughput", "output as measured", run.throughput, TOKEN_RATE)
    found = {"decode.throughput": rate}
    if "cost.per_hour" in values:
        found["cost.per_mtok"] = price_of_token.derive(
            "price of an output token", price=values["cost.per_hour"], throughput=rate
        )
    return found


def _told(pool: str, fired: Fired, found: Estimate | None) -> Told:
    told = fired.diagnostic
    if pool:
        told = replace(told, headline=f"pool {pool}: {told.headline}")
    return Told(fired.rule, told, fired.fact, fired.severity, found)


def _shared_devices(estimates: Mapping[str, Estimate]) -> Iterator[Told]:
    """Pools that stand on the same devices of a named cluster."""
    rule = claim_rules.shared_devices
    for first, second in combinations(estimates, 2):
        one, other = estimates[first].subject, estimates[second].subject
        a, b = one.pool.on, other.pool.on
        if a is None or b is None or not a.of.name or a.of.at != b.of.at or a.of.catalog:
            continue
        count = sum(
            max(0, min(s + n, t + m) - max(s, t))
            for _, s, n in one.topology.picked
            for _, t, m in other.topology.picked
        )
        if count:
            fills: dict[str, Fill] = {
                "first": first,
                "second": second,
                "title": a.of.title,
                "count": count,
            }
            fact = Fact(other.place("on"), fills)
            yield Told(rule, worded(rule, fact), fact, rule.severity, None)


def _not_costed(deployment: Deployment) -> Iterator[Told]:
    """What is written and resolved, but does not enter the figures of this version."""
    parts: list[tuple[str, Block | None]] = [("search", deployment.search)]
    parts += [(f"tier `{name}`", tier) for name, tier in deployment.tiers.items()]
    for pool in deployment.pools.values():
        parts += [("draft", pool.draft), ("limits", pool.limits)]
    rule = claim_rules.not_costed
    for word, block in parts:
        if block is not None and block.at is not None:
            fact = Fact(block.at, {"what": word})
            yield Told(rule, worded(rule, fact), fact, rule.severity, None)


# --- requirements ------------------------------------------------------------------------------


def _requirement_findings(
    deployment: Deployment,
    judged: Sequence[Judged],
    estimates: Mapping[str, Estimate],
    layout: Layout | None,
) -> Iterator[Told]:
    for one in judged:
        if one.result.status == "unanswered":
            yield _unanswered(one)
        elif one.result.status == "fails":
            yield _failed(deployment, one, estimates, layout)


def _unanswered(one: Judged) -> Told:
    rule = claim_rules.unanswered_requirement
    names = ", ".join(one.missing) or one.result.text
    fills = {"names": names, "text": one.result.text, "why": "nothing here gives it"}
    fact = Fact(one.requirement.condition.span, fills)
    severity = rule.severity if one.requirement.keyword == "require" else Severity.WARNING
    return Told(rule, worded(rule, fact, severity), fact, severity, None)


def _failed(
    deployment: Deployment,
    one: Judged,
    estimates: Mapping[str, Estimate],
    layout: Layout | None,
) -> Told:
    result, operator = one.result, one.operator
    value, bound = result.value, result.bound
    rule = claim_rules.failed_expectation
    if one.requirement.keyword == "require":
        rule = claim_rules.wrong_claim if operator in CLAIMS else claim_rules.failed_requirement
    fit = ""
    if rule is claim_rules.wrong_claim and bound is not None and len(estimates) == 1:
        found = next(iter(estimates.values()))
        compared = list(_compared(deployment, found, layout))
        fit = explanation(one.name, bound, _tolerance(one), found, compared)
    fills: dict[str, Fill] = {
        "name": one.name or result.text,
        "value": value if value is not None else "false",
        "bound": bound if bound is not None else "",
        "claimed": bound if bound is not None else "",
        "value_exact": _written(value),
        "text": result.text,
        "margin": result.margin or "it does not hold",
        "because": result.because,
        "fit": fit,
        "terms": _terms(result.largest),
    }
    fact = Fact(one.requirement.condition.span, fills)
    return Told(rule, worded(rule, fact), fact, rule.severity, None)


def _written(value: Quantity | None) -> str:
    """A value as a spec would say it: exact, or rounded where it is a time or a rate."""
    if value is None:
        return ""
    return shown(value) if isinstance(value.value, float) else exact(value)


def _tolerance(one: Judged) -> Fraction:
    condition = one.requirement.condition
    if isinstance(condition, Within):
        match condition.tolerance:
            case Measure(quantity=quantity):
                return Fraction(quantity.value)
            case Number(value=value):
                return Fraction(value)
    return Fraction(0)


def _terms(largest: Sequence[Term]) -> str:
    if not largest:
        return ""
    return "from " + ", ".join(f"{t.label} {shown(t.quantity)}" for t in largest)


def _compared(
    deployment: Deployment, found: Estimate, layout: Layout | None
) -> Iterator[tuple[str, Estimate]]:
    for other in deployment.compare:
        if layout is not None and other.name == layout.name:
            continue
        made, _ = subject(deployment, found.subject.pool, other)
        if made is not None and made.degrees.devices <= made.topology.devices:
            yield other.name or made.degrees.text(), memory_estimate(made)


# --- waivers -----------------------------------------------------------------------------------


def _waived(deployment: Deployment, told: Sequence[Told], *, complete: bool) -> Iterator[Told]:
    """Findings with the reason of the `allow` that silences them, and findings on the waivers."""
    reasons = {waiver.code: waiver.because for waiver in deployment.waivers}
    fired = set()
    for one in told:
        fired.add(one.rule.code)
        reason = reasons.get(one.rule.code)
        yield (
            one
            if reason is None
            else Told(one.rule, one.diagnostic, one.fact, one.severity, one.estimate, reason)
        )
    known = {rule.code for rule in RULES if rule.stage != "text"}
    for waiver in deployment.waivers:
        if waiver.code not in known:
            rule = claim_rules.unknown_allow
            fills = {"code": waiver.code, "near": ", ".join(nearest(waiver.code, sorted(known)))}
        elif waiver.code not in fired and complete:
            rule, fills = claim_rules.unused_allow, {"code": waiver.code}
        else:
            continue
        fact = Fact(waiver.span, fills)
        yield Told(rule, worded(rule, fact), fact, rule.severity, None)
