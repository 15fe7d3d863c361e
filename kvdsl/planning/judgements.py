"""Requirements and policies that a plan does not keep, as findings with what the figure is made of.

Comes in: what was judged, and the estimates of each pool. Goes out: findings. Not its job: judging
(requirements), or waiving (deploy).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from kvdsl.checks import claims as claim_rules
from kvdsl.checks import policies as policy_rules
from kvdsl.checks.findings import worded
from kvdsl.checks.study import Fact, Fill
from kvdsl.costs.estimate import Estimate, memory_estimate
from kvdsl.costs.money import default_price
from kvdsl.diagnostics import Label, Severity
from kvdsl.formulas import Term
from kvdsl.plan import Agreed
from kvdsl.planning.claims import explanation
from kvdsl.planning.subjects import subject
from kvdsl.planning.told import Told, whose
from kvdsl.requirements import CLAIMS, Judged, judge
from kvdsl.spec.deployment import Deployment, Policy
from kvdsl.spec.layout import Layout
from kvdsl.syntax.nodes import Measure, Number, Within
from kvdsl.units import MONEY_RATE, Quantity, exact, shown


def requirement_findings(
    deployment: Deployment,
    judged: Sequence[Judged],
    estimates: Mapping[str, Estimate],
    layout: Layout | None,
    absent: Mapping[str, str],
) -> Iterator[Told]:
    for one in judged:
        if one.result.status == "unanswered":
            told = _unanswered(one, absent)
        elif one.result.status == "fails":
            told = _failed(deployment, one, estimates, layout)
        else:
            continue
        yield whose(told, one.requirement, "deployment", deployment.name)


def _unanswered(one: Judged, absent: Mapping[str, str]) -> Told:
    rule = claim_rules.unanswered_requirement
    names = ", ".join(one.missing) or one.result.text
    reasons = dict.fromkeys(absent[name] for name in one.missing if name in absent)
    fills = {
        "names": names,
        "text": one.result.text,
        "why": "nothing here gives it",
        "reason": "; ".join(reasons),
    }
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
    fit, also = "", ""
    if rule is claim_rules.wrong_claim and bound is not None and len(estimates) == 1:
        found = next(iter(estimates.values()))
        compared = list(_compared(deployment, found, layout))
        fit, also = explanation(one.name, bound, _tolerance(one), found, compared)
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
        "also": also,
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
    told = []
    for term in largest:
        by_default = default_price(term) if term.dimension == MONEY_RATE else ""
        told.append(
            f"{term.label} {shown(term.quantity)}{f' ({by_default})' if by_default else ''}"
        )
    # Others quote a price of all tokens, those of the prompt counted.
    paid = any(term.dimension == MONEY_RATE for term in largest) and len(largest) > 1
    return f"from {', '.join(told)}{', for a token of output' if paid else ''}"


def _compared(
    deployment: Deployment, found: Estimate, layout: Layout | None
) -> Iterator[tuple[str, Estimate]]:
    for other in deployment.compare:
        if layout is not None and other.name == layout.name:
            continue
        made, _ = subject(deployment, found.subject.pool, other)
        if made is not None and made.degrees.devices <= made.topology.devices:
            yield other.name or made.degrees.text(), memory_estimate(made)


def agreements(
    values: Mapping[str, Term], policies: Sequence[Policy]
) -> tuple[tuple[Policy, Judged], ...]:
    """Conditions of policies, judged; without values there is nothing to judge, and an error has
    said why."""
    return tuple(
        (policy, judge(requirement, values))
        for policy in policies
        if values
        for requirement in policy.requirements
    )


def policy_findings(
    deployment: Deployment, agreed: Sequence[tuple[Policy, Judged]]
) -> Iterator[Told]:
    """Conditions of policies that a deployment does not meet."""
    for policy, one in agreed:
        if one.result.status in ("fails", "unanswered"):
            yield _against(deployment, policy, one)


def _against(deployment: Deployment, policy: Policy, one: Judged) -> Told:
    rule, result = policy_rules.failed_policy, one.result
    missing = ", ".join(one.missing)
    if missing:
        said = f"{missing} is not answered"
    elif result.value is not None:
        said = f"{one.name} is {shown(result.value)}"
    else:
        said = "this does not hold"
    fills: dict[str, Fill] = {
        "subject": said,
        "policy": policy.name,
        "text": result.text,
        "place": str(one.requirement.span),
        "margin": result.margin or "it does not hold",
        "terms": _terms(result.largest),
        "because": result.because,
    }
    place = deployment.at or one.requirement.span
    labels = (Label(one.requirement.condition.span, f"`{policy.name}` wants this"),)
    fact = Fact(place, fills, labels=labels)
    severity = rule.severity if result.keyword == "require" else Severity.WARNING
    wanted = Agreed(policy.name, result)
    return Told(rule, worded(rule, fact, severity), fact, severity, None, agreed=wanted)
