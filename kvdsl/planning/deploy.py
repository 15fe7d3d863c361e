"""One deployment, planned: pools estimated, requirements judged, findings gathered.

Comes in: a resolved deployment. Goes out: an `Outcome` (estimates, values, findings, judged
requirements), enough for `check`; `build` adds what a Plan shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from kvdsl.checks import claims as claim_rules
from kvdsl.checks import policies as policy_rules
from kvdsl.checks import refusals
from kvdsl.checks.findings import RULES, Examined, Fired, examine, examine_service, worded
from kvdsl.checks.study import Fact, Fill
from kvdsl.costs.clients import HeldBack
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.memory import leaf
from kvdsl.costs.money import price_of_token
from kvdsl.costs.service import Service
from kvdsl.diagnostics import Diagnostic, Severity
from kvdsl.formulas import Term
from kvdsl.placement.sites import level_of, one_piece
from kvdsl.plan import Agreed
from kvdsl.planning import pools
from kvdsl.planning.absences import absences
from kvdsl.planning.judgements import agreements, policy_findings, requirement_findings
from kvdsl.planning.ranges import Ranges
from kvdsl.planning.subjects import inputs, subject
from kvdsl.planning.told import Told, by_cause
from kvdsl.requirements import JUDGED, Judged, judge
from kvdsl.source import Span
from kvdsl.spec.declaration import Block
from kvdsl.spec.deployment import Deployment, Policy, Pool
from kvdsl.spec.engine import Limits
from kvdsl.spec.layout import Layout
from kvdsl.spelling import nearest
from kvdsl.units import TOKEN_RATE


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
    service: Service | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    """Why values are missing, by their names, where the reason is known."""
    agreed: tuple[Agreed, ...] = ()
    """What policies want of it."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What a check tells: faults and all findings that are not waived."""
        return (*self.faults, *(t.diagnostic for t in self.told if t.waived is None))

    @property
    def why(self) -> str:
        """Why it cannot be planned, or does not fit: its first error."""
        found = [*self.faults, *(t.diagnostic for t in self.told)]
        errors = (d.headline for d in found if d.severity is Severity.ERROR)
        return next(errors, "the deployment is not complete")


@dataclass(frozen=True, slots=True)
class Rulebook:
    """What a check is given beside the deployment: policies, and the day for waivers that end (as
    `2027-01-31`; empty: none has ended)."""

    policies: tuple[Policy, ...] = ()
    today: str = ""


NO_RULES = Rulebook()


def outcome(
    deployment: Deployment, layout: Layout | None = None, book: Rulebook = NO_RULES
) -> Outcome:
    """The deployment under its own layouts, or with `layout` in every pool."""
    seen: dict[str, Examined] = {}
    faults: list[Diagnostic] = []
    for name, pool in deployment.pools.items():
        made, wrong = subject(deployment, pool, layout)
        faults.extend(wrong)
        if made is not None:
            seen[name] = examine(made)
    held, fewer = pools.bound({n: e.estimate for n, e in seen.items() if e.estimate is not None})
    seen |= {name: examine(made) for name, made in fewer.items()}
    by_pool = [(n, _told(f, each.estimate)) for n, each in seen.items() for f in each.fired]
    estimates = {n: _answered(e.estimate) for n, e in seen.items() if e.estimate is not None}
    told = list(by_cause(by_pool))
    complete = not faults and len(estimates) == len(deployment.pools)
    values, whole = _values(deployment, estimates, held) if complete else ({}, None)
    if values and layout is None:
        values |= measured_values(deployment, values)
    if whole is not None:
        told.extend(_told(fired, whole.shown()) for fired in examine_service(whole))
    absent = absences(deployment, estimates, values)
    judged = tuple(judge(r, values) for r in deployment.requirements) if values else ()
    told.extend(requirement_findings(deployment, judged, estimates, layout, absent))
    told.extend(_not_costed(deployment))
    told.extend(_no_output(deployment))
    told.extend(_shared_devices(estimates))
    told.extend(_transfers(estimates))
    sound = complete and not _stopped(told)
    agreed = agreements(values, book.policies)
    against = tuple(policy_findings(deployment, agreed))
    told = list(_waived(deployment, told, book.today, against, complete=sound))
    judged = tuple(_with_reason(one, told) for one in judged)
    told.extend(against)
    return Outcome(
        deployment,
        estimates,
        values,
        judged,
        tuple(told),
        tuple(faults),
        whole,
        absent,
        tuple(Agreed(policy.name, one.result) for policy, one in agreed),
    )


def _with_reason(one: Judged, told: Sequence[Told]) -> Judged:
    """A requirement that does not hold, with the reason of the `allow` that waives it."""
    place = one.requirement.condition.span
    said = (t.waived for t in told if t.rule.code in JUDGED and t.fact.place == place)
    waived = next((reason for reason in said if reason is not None), None)
    if waived is None:
        return one
    return replace(one, result=replace(one.result, waived=waived))


def _answered(found: Estimate) -> Estimate:
    """Without a decode step where no request has output: none is ever taken. Checks before the
    plan still see one, as they compare layouts by it."""
    return found if found.subject.workload.generates else found.without_decode()


def _stopped(told: Sequence[Told]) -> bool:
    return any(t.rule.stage in ("subject", "placement") and t.severity is Severity.ERROR
               for t in told)  # fmt: skip


def _values(
    deployment: Deployment, estimates: Mapping[str, Estimate], held: HeldBack | None
) -> tuple[dict[str, Term], Service]:
    found, made = pools.served(deployment, estimates, held)
    first = next(iter(estimates.values()))
    for name, term in inputs(first.subject).items():
        found.setdefault(name, term)
    return found, made


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


def _told(fired: Fired, found: Estimate | None) -> Told:
    return Told(fired.rule, fired.diagnostic, fired.fact, fired.severity, found)


def _shared_devices(estimates: Mapping[str, Estimate]) -> Iterator[Told]:
    """Pools that stand on the same devices of a named cluster: each beside those that had them
    first, so that many pools on one device are one finding a pool."""
    rule = claim_rules.shared_devices
    taken: dict[Span | None, Ranges] = {}
    for name, estimate in estimates.items():
        pool = estimate.subject.pool
        if pool.on is None or not one_piece(pool.on, pool.on) or pool.on.of.catalog:
            continue
        known = taken.setdefault(pool.on.of.at, Ranges())
        found: Counter[str] = Counter()
        for _, start, many in estimate.subject.topology.picked:
            found.update(known.take(start, start + many, name))
        del found[name]
        for first, count in found.items():
            fills: dict[str, Fill] = {
                "first": first,
                "second": name,
                "title": pool.on.of.title,
                "level": pool.on.pick.level if pool.on.pick else level_of(pool.on.of),
                "count": count,
            }
            fact = Fact(estimate.subject.place("on"), fills)
            yield Told(rule, worded(rule, fact), fact, rule.severity, None)


def _transfers(estimates: Mapping[str, Estimate]) -> Iterator[Told]:
    """Pools whose cuts an engine cannot hand a cache across."""
    rule = refusals.refused_transfer
    senders = [e for e in estimates.values() if e.subject.pool.role == "prefill"]
    takers = [e for e in estimates.values() if e.subject.pool.role == "decode"]
    for sender, taker in product(senders, takers):
        fact = refusals.transfer_fact(sender.subject, taker.subject)
        if fact is not None:
            yield Told(rule, worded(rule, fact), fact, rule.severity, None)


def _more_than_context(limits: Limits | None) -> bool:
    return limits is not None and limits.model_fields_set - {"origins", "at"} != {"context"}


def _not_costed(deployment: Deployment) -> Iterator[Told]:
    """What is written and resolved, but does not enter the figures of this version."""
    parts: list[tuple[str, Block | None]] = [("search", deployment.search)]
    for pool in deployment.pools.values():
        # The longest request is checked, and an engine's pages and shares follow from the rest.
        idle = pool.limits if pool.engine is None and _more_than_context(pool.limits) else None
        parts += [(_of_draft(deployment, pool), pool.draft), ("limits", idle)]
    rule = claim_rules.not_costed
    for word, block in parts:
        if word and block is not None and block.at is not None:
            fact = Fact(block.at, {"what": word})
            yield Told(rule, worded(rule, fact), fact, rule.severity, None)


def _of_draft(deployment: Deployment, pool: Pool) -> str:
    """What of a draft does not enter; empty if nothing. An engine's pace gives its time, own layers
    are in the memory, and a lookup of n-grams takes none."""
    if pool.draft is None:
        return ""
    paced = pool.engine is not None and pool.engine.pace is not None and not deployment.ideal
    stored = pool.draft.method in ("mtp", "ngram")
    if paced:
        return "" if stored else "the memory of a draft"
    return "the time of a draft" if stored else "draft"


def _no_output(deployment: Deployment) -> Iterator[Told]:
    """Workloads whose requests are prompts alone, each once."""
    rule = claim_rules.no_output
    found = {p.workload.at: p.workload for p in deployment.pools.values() if p.workload is not None}
    for at, workload in found.items():
        if at is not None and not workload.generates:
            origin = workload.origin("output")
            fact = Fact(origin.span if origin else at, {})
            yield Told(rule, worded(rule, fact), fact, rule.severity, None)


# --- waivers -----------------------------------------------------------------------------------

WAIVABLE = tuple(rule for rule in RULES if rule.stage != "text")


def _meant_by(code: str) -> dict[str, str]:
    """What stands behind `allow` and is no code: perhaps the name of a rule."""
    names = {rule.name: rule.code for rule in WAIVABLE}
    plain = code.lower().replace("_", "-")
    by_code = nearest(code, sorted(names.values()))
    near = ", ".join(by_code or (f"{names[n]} ({n})" for n in nearest(plain, names)))
    instead = names.get(plain, "")
    return {
        "code": code,
        "instead": instead,
        "near": "" if instead else near,
        "lists": "" if instead or near else "`kvdsl rule` lists the codes",
    }


def _waived(
    deployment: Deployment,
    told: Sequence[Told],
    today: str,
    against: Sequence[Told],
    *,
    complete: bool,
) -> Iterator[Told]:
    """Findings with the reason of the `allow` that silences them, and findings on the waivers;
    those `against` a policy are not waived."""
    kept = {one.rule.code for one in against}
    # Days written as year, month and day are in order as texts.
    ended = [w for w in deployment.waivers if w.until is not None and today > w.until]
    reasons = {w.code: w.because for w in deployment.waivers if w not in ended}
    fired = set()
    for one in told:
        fired.add(one.rule.code)
        reason = reasons.get(one.rule.code)
        yield (
            one
            if reason is None
            else Told(one.rule, one.diagnostic, one.fact, one.severity, one.estimate, reason)
        )
    known = {rule.code for rule in WAIVABLE}
    for waiver in deployment.waivers:
        if waiver in ended:
            rule = policy_rules.expired_allow
            fills = {"code": waiver.code, "until": waiver.until or "", "today": today}
        elif waiver.code not in known:
            rule, fills = claim_rules.unknown_allow, _meant_by(waiver.code)
        elif waiver.code not in fired and complete:
            rule = claim_rules.unused_allow
            held = waiver.code in kept
            why = "no `allow` waives a policy" if held else f"{waiver.code} does not fire here"
            fills = {"code": waiver.code, "why": why}
        else:
            continue
        fact = Fact(waiver.span, fills)
        yield Told(rule, worded(rule, fact), fact, rule.severity, None)
