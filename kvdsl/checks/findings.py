"""Runs the rules, words their facts, and lets rules silence one another.

Comes in: a subject. Goes out: findings and, where no error stands before it, the estimate. The
stages run in order: an error of one stage ends the run, since later ones would build on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter

from kvdsl.checks import (
    blocks,
    budget,
    claims,
    compression,
    conversions,
    crossings,
    data_parallel,
    disaggregation,
    domains,
    drafts,
    experts,
    fetching,
    figures,
    formats,
    handover,
    heads,
    latent,
    limits,
    load,
    lockstep,
    policies,
    prices,
    readings,
    refusals,
    room,
    sequence,
    stages,
    starts,
    tiers,
    uneven_widths,
)
from kvdsl.checks.study import Fact, Fill, Study, told_apart
from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.service import Service
from kvdsl.diagnostics import Diagnostic, Label, Severity
from kvdsl.placement.placement import Placement, build
from kvdsl.placement.subject import Subject
from kvdsl.recall import Once
from kvdsl.rules import Rule
from kvdsl.units import Numeral, Quantity, grouped, shown

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *heads.RULES,
            *latent.RULES,
            *data_parallel.RULES,
            *stages.RULES,
            *domains.RULES,
            *crossings.RULES,
            *budget.RULES,
            *load.RULES,
            *limits.RULES,
            *lockstep.RULES,
            *room.RULES,
            *figures.RULES,
            *formats.RULES,
            *handover.RULES,
            *conversions.RULES,
            *disaggregation.RULES,
            *tiers.RULES,
            *fetching.RULES,
            *prices.RULES,
            *compression.RULES,
            *sequence.RULES,
            *experts.RULES,
            *drafts.RULES,
            *claims.RULES,
            *refusals.RULES,
            *uneven_widths.RULES,
            *blocks.RULES,
            *starts.RULES,
            *readings.RULES,
            *policies.RULES,
        ),
        key=lambda r: r.code,
    )
)
"""Every planning rule. Codes are never reused."""


@dataclass(frozen=True, slots=True)
class Fired:
    """A rule that fired, with its fact, in words."""

    rule: Rule
    fact: Fact
    severity: Severity

    @property
    def diagnostic(self) -> Diagnostic:
        return worded(self.rule, self.fact, self.severity)


@dataclass(frozen=True, slots=True)
class Examined:
    fired: tuple[Fired, ...]
    placement: Placement | None
    estimate: Estimate | None


def examine(subject: Subject) -> Examined:
    """All findings of a subject."""
    study = Study(subject, judge=Errors())
    fired = _run("subject", study)
    if _failed(fired):
        return Examined(_settled(fired), None, None)
    placement = build(subject)
    study = replace(study, placement=placement)
    fired += _run("placement", study)
    if _failed(fired):
        return Examined(_settled(fired), placement, None)
    found = estimate(subject, placement)
    study = replace(study, estimated=found, judge=Errors(Once(lambda: _doubtful(found))))
    fired += _run("costs", study)
    return Examined(_settled(fired), placement, found)


def examine_service(made: Service) -> tuple[Fired, ...]:
    """All findings of the pools together and of what lies below their memory."""
    fired = [
        Fired(rule, fact, fact.severity or rule.severity)
        for rule in RULES
        if rule.stage == "service" and rule.function is not None
        for fact in rule.function(made)
    ]
    return _settled(fired)


def placed(subject: Subject) -> tuple[tuple[Fired, ...], Placement | None]:
    """What forbids a placement, and the placement where nothing does: `examine` without costs, and
    without findings that only advise."""
    fired, placement = _forbidden(Study(subject, judge=Errors()))
    return _settled(fired), placement


def _forbidden(study: Study) -> tuple[list[Fired], Placement | None]:
    fired = _errors("subject", study)
    if fired:
        return fired, None
    placement = build(study.subject)
    fired = _errors("placement", replace(study, placement=placement))
    return fired, None if fired else placement


def _errors(stage: str, study: Study) -> list[Fired]:
    found = _run(stage, study, STOPS)
    return [fired for fired in found if fired.severity is Severity.ERROR]


def judged(subject: Subject) -> tuple[tuple[Fired, ...], Estimate | None]:
    """The errors of a subject, without what they suggest, and its estimate where none forbids the
    placement. Raises ValueError where a group has nothing that joins it."""
    fired, placement = _forbidden(Study(subject, closed=True))
    if placement is None:
        return _settled(fired), None
    found = estimate(subject, placement)
    return _settled(_errors("costs", Study(subject, placement, found, closed=True))), found


def _doubtful(found: Estimate) -> frozenset[str]:
    """Codes that can be errors and fire on an estimated layout, as whatever."""
    study = Study(found.subject, found.placement, found, closed=True)
    return frozenset(fired.rule.code for fired in _run("costs", study, STOPS))


@dataclass(frozen=True, slots=True)
class Errors:
    """Judges what a finding would suggest, by the rules themselves: a layout with an error is no
    advice, but for what the plan is told too. `own` are the plan's codes: they are asked where a
    layout has an error, which most have not."""

    own: Callable[[], frozenset[str]] = frozenset

    def place(self, subject: Subject) -> Placement | None:
        return _forbidden(Study(subject, closed=True))[1]

    def accepts(self, found: Estimate) -> bool:
        study = Study(found.subject, found.placement, found, closed=True)
        fired = _settled(_errors("costs", study))
        return not fired or {one.rule.code for one in fired} <= self.own()


def _run(stage: str, study: Study, rules: Sequence[Rule] = RULES) -> list[Fired]:
    return [
        Fired(rule, _compared(study, _declared(study, fact)), fact.severity or rule.severity)
        for rule in rules
        if rule.stage == stage and rule.function is not None
        for fact in rule.function(study)
    ]


def _compared(study: Study, fact: Fact) -> Fact:
    """The fact with what its suggestion is measured against; without it where nothing it shows
    gets better and something gets worse: that is no help."""
    if fact.suggestion is None or study.estimated is None:
        return fact
    fact = replace(fact, before=study.estimated)
    if fact.suggestion is not None and fact.suggestion.what_if:
        return fact
    better = [found for _, _, _, found in fact.moves()]
    return replace(fact, suggestion=None) if False in better and True not in better else fact


STOPS = tuple(rule for rule in RULES if Severity.ERROR in rule.severities)
"""Rules whose findings can be errors."""


def _declared(study: Study, fact: Fact) -> Fact:
    """The fact with a second place: where the layout that it is about is declared."""
    places = study.subject.places
    at = places.get("declared layout")
    if at is None or fact.place != places.get("layout") or fact.labels:
        return fact
    if at == fact.place or at.line == fact.place.line:
        return fact
    return replace(fact, labels=(Label(at, "this layout"),))


def _failed(fired: Sequence[Fired]) -> bool:
    return any(f.severity is Severity.ERROR for f in fired)


def _settled(fired: Sequence[Fired]) -> tuple[Fired, ...]:
    """What is left once rules have silenced and softened one another."""
    silenced = {code for f in fired for code in f.rule.silences}
    softened = {code for f in fired for code in f.rule.softens}
    kept = [f for f in fired if f.rule.code not in silenced]
    return tuple(replace(f, severity=Severity.INFO) if f.rule.code in softened else f for f in kept)


FLIPS = "this flips with: "

# --- wording -----------------------------------------------------------------------------------


def worded(rule: Rule, fact: Fact, severity: Severity | None = None) -> Diagnostic:
    """The diagnostic of a fact: the rule's templates filled, quantities printed for people."""
    fills = {name: _printed(value) for name, value in fact.fills.items()}
    helps = list(_texts(rule.helps, fills))
    if fact.suggestion is not None:
        helps.insert(0, advice(fact))
    if rule.flips:
        helps.append(FLIPS + _text(rule.flips, fills))
    return Diagnostic(
        rule.code,
        severity or rule.severity,
        _text(rule.headline, fills),
        Label(fact.place, _text(rule.label, fills)),
        fact.labels,
        _texts(rule.notes, fills),
        tuple(helps),
    )


def _printed(value: Fill) -> Numeral:
    if isinstance(value, Quantity):
        return Numeral(shown(value))
    return Numeral(grouped(value) if isinstance(value, int) else value)


def _text(template: str, fills: Mapping[str, str]) -> str:
    return template.format_map(fills)


def _texts(templates: Sequence[str], fills: Mapping[str, str]) -> tuple[str, ...]:
    """Templates filled; one whose facts are empty is left out."""
    texts = []
    for template in templates:
        asked = {name for _, name, _, _ in Formatter().parse(template) if name}
        if all(fills.get(name) for name in asked):
            texts.append(_text(template, fills))
    return tuple(texts)


def advice(fact: Fact) -> str:
    """The alternative in one line: what to write, and what it gives."""
    made = fact.suggestion
    if made is None:
        return ""
    shown_values, worse = [], []
    for name, new, old, better in fact.moves():
        text = f"{name} {shown(new)}"
        apart = old is not None and told_apart(new, old)
        if better is False:
            worse.append(f"{text} (now {shown(old)})" if old is not None else text)
        elif name in made.shows[:3] and (apart or old is None):
            shown_values.append(f"{text} (now {shown(old)})" if old is not None else text)
    if worse and not shown_values:
        return f"{made.title} costs: {', '.join(worse)}"
    told = ", ".join(shown_values) or "the same figures"
    return f"{made.title} gives {told}" + (f"; worse: {', '.join(worse)}" if worse else "")
