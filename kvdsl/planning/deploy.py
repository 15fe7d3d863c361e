"""One deployment, planned: pools estimated, requirements judged, findings gathered.

Comes in: a resolved deployment. Goes out: an `Outcome` (estimates, values, findings, judged
requirements), enough for `check`; `build` adds what a Plan shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product, zip_longest

from kvdsl.checks import claims as claim_rules
from kvdsl.checks import policies as policy_rules
from kvdsl.checks import refusals
from kvdsl.checks.findings import RULES, Examined, Fired, advice, examine, examine_service, worded
from kvdsl.checks.study import Fact, Fill
from kvdsl.costs.clients import HeldBack
from kvdsl.costs.estimate import Estimate, memory_estimate
from kvdsl.costs.memory import leaf
from kvdsl.costs.money import default_price, price_of_token
from kvdsl.costs.service import Service
from kvdsl.diagnostics import Diagnostic, Label, Severity
from kvdsl.formulas import Term
from kvdsl.placement.sites import level_of, one_piece
from kvdsl.planning import pools
from kvdsl.planning.absences import absences
from kvdsl.planning.claims import explanation
from kvdsl.planning.ranges import Ranges
from kvdsl.planning.subjects import inputs, subject
from kvdsl.requirements import CLAIMS, Judged, judge
from kvdsl.rules import Rule
from kvdsl.source import Span
from kvdsl.spec.declaration import Block
from kvdsl.spec.deployment import Deployment, Policy, Pool
from kvdsl.spec.engine import Limits
from kvdsl.spec.layout import Layout
from kvdsl.spelling import nearest
from kvdsl.syntax.nodes import Measure, Number, Within
from kvdsl.units import MONEY_RATE, TOKEN_RATE, Quantity, exact, shown


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
    service: Service | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    """Why values are missing, by their names, where the reason is known."""

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
    told = list(_by_cause(by_pool))
    complete = not faults and len(estimates) == len(deployment.pools)
    values, whole = _values(deployment, estimates, held) if complete else ({}, None)
    if values and layout is None:
        values |= measured_values(deployment, values)
    if whole is not None:
        told.extend(_told(fired, whole.shown()) for fired in examine_service(whole))
    absent = absences(deployment, estimates, values)
    judged = tuple(judge(r, values) for r in deployment.requirements) if values else ()
    told.extend(_requirement_findings(deployment, judged, estimates, layout, absent))
    told.extend(_not_costed(deployment))
    told.extend(_no_output(deployment))
    told.extend(_shared_devices(estimates))
    told.extend(_transfers(estimates))
    sound = complete and not _stopped(told)
    told = list(_waived(deployment, told, book.today, complete=sound))
    told.extend(policy_findings(deployment, values, book.policies))
    return Outcome(deployment, estimates, values, judged, tuple(told), tuple(faults), whole, absent)


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


# --- findings of several pools -------------------------------------------------------------------


def _by_cause(found: Sequence[tuple[str, Told]]) -> Iterator[Told]:
    """Findings with the names of their pools: of one cause, one for all pools that have it."""
    causes: dict[tuple[object, ...], list[tuple[str, Told]]] = {}
    for pool, told in found:
        words = (told.diagnostic.headline, told.diagnostic.primary, told.diagnostic.labels)
        causes.setdefault((told.rule.code, told.severity, words), []).append((pool, told))
    for every in causes.values():
        pool, first = every[0]
        if len(every) > 1:
            yield _joined(every)
        elif pool:
            headline = f"{_pools([pool])}: {first.diagnostic.headline}"
            yield replace(first, diagnostic=replace(first.diagnostic, headline=headline))
        else:
            yield first


def _pools(names: Sequence[str]) -> str:
    """`pool decode`, `pools prefill and decode`."""
    if len(names) == 1:
        return f"pool {names[0]}"
    return f"pools {', '.join(names[:-1])} and {names[-1]}"


def _joined(every: Sequence[tuple[str, Told]]) -> Told:
    """One finding of several pools; what they do not share says which pool it is about. The
    alternative is shown where it is one for all."""
    _, first = every[0]
    alike = len({advice(told.fact) for _, told in every}) == 1
    fact = replace(
        first.fact,
        quantities=tuple(
            (f"pool {pool}: {label}" if pool else label, quantity)
            for pool, told in every
            for label, quantity in told.fact.quantities
        ),
        suggestion=first.fact.suggestion if alike else None,
    )
    names = list(dict.fromkeys(pool for pool, _ in every))
    of_pools = f"{_pools(names)}: " if names != [""] else ""  # parts of one, where there are none
    diagnostic = replace(
        first.diagnostic,
        headline=of_pools + first.diagnostic.headline,
        notes=_shared([(pool, told.diagnostic.notes) for pool, told in every]),
        helps=_shared([(pool, told.diagnostic.helps) for pool, told in every]),
    )
    return replace(first, diagnostic=diagnostic, fact=fact)


def _shared(by_pool: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    """Texts of all pools in their order, those of some alone behind their pool's name."""
    rows = zip_longest(*(texts for _, texts in by_pool), fillvalue="")
    every = dict.fromkeys(text for row in rows for text in row if text)
    if not any(pool for pool, _ in by_pool):
        return tuple(every)
    having = {text: [pool for pool, texts in by_pool if text in texts] for text in every}
    return tuple(
        text if len(pools) == len(by_pool) else f"{_pools(pools)}: {text}"
        for text, pools in having.items()
    )


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


# --- requirements ------------------------------------------------------------------------------


def _requirement_findings(
    deployment: Deployment,
    judged: Sequence[Judged],
    estimates: Mapping[str, Estimate],
    layout: Layout | None,
    absent: Mapping[str, str],
) -> Iterator[Told]:
    for one in judged:
        if one.result.status == "unanswered":
            yield _unanswered(one, absent)
        elif one.result.status == "fails":
            yield _failed(deployment, one, estimates, layout)


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


def policy_findings(
    deployment: Deployment, values: Mapping[str, Term], policies: Sequence[Policy]
) -> Iterator[Told]:
    """Conditions of policies that a deployment does not meet; without values there is nothing to
    judge, and an error has said why."""
    for policy in policies if values else ():
        for requirement in policy.requirements:
            one = judge(requirement, values)
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
    return Told(rule, worded(rule, fact, severity), fact, severity, None)


# --- waivers -----------------------------------------------------------------------------------


def _waived(
    deployment: Deployment, told: Sequence[Told], today: str, *, complete: bool
) -> Iterator[Told]:
    """Findings with the reason of the `allow` that silences them, and findings on the waivers."""
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
    known = {rule.code for rule in RULES if rule.stage != "text"}
    for waiver in deployment.waivers:
        if waiver in ended:
            rule = policy_rules.expired_allow
            fills = {"code": waiver.code, "until": waiver.until or "", "today": today}
        elif waiver.code not in known:
            rule = claim_rules.unknown_allow
            fills = {"code": waiver.code, "near": ", ".join(nearest(waiver.code, sorted(known)))}
        elif waiver.code not in fired and complete:
            rule, fills = claim_rules.unused_allow, {"code": waiver.code}
        else:
            continue
        fact = Fact(waiver.span, fills)
        yield Told(rule, worded(rule, fact), fact, rule.severity, None)
