"""Plans of a project as a comparison needs them, and what they were made from.

Comes in: a loaded project, or names of catalog entries. Goes out: plans without pictures, their
troubles, facts. Not its job: comparing (review).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvdsl.diagnostics import Report, Severity
from kvdsl.difference import Trouble
from kvdsl.pipeline import book_of, declared_faults, fleets, sources
from kvdsl.plan import Fact, Plan
from kvdsl.plan.fleets import FleetPlan
from kvdsl.planning.deploy import NO_RULES, Outcome, Rulebook, outcome
from kvdsl.planning.fleets import fleet_outcome, members_of
from kvdsl.project.loader import Project, load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.review.kept import fleet_sketch
from kvdsl.review.sides import Sketches
from kvdsl.source import Span


def sketched(project: Project, book: Rulebook = NO_RULES) -> Sketches:
    """Plans of a project as a comparison needs them; a file with errors has troubles."""
    made = planned(project, book)
    troubles = _troubles(project, made.report)
    return Sketches(made.plans, tuple(map(fleet_sketch, made.fleets)), made.broken, troubles)


@dataclass(frozen=True, slots=True)
class Planned:
    """Plans without pictures, and fleets; `broken` are deployments that could not be resolved."""

    plans: tuple[Plan, ...]
    fleets: tuple[FleetPlan, ...]
    broken: tuple[str, ...]
    report: Report


def planned(project: Project, book: Rulebook = NO_RULES) -> Planned:
    """What stands side by side in a comparison. `report` has what is wrong with declarations."""
    from kvdsl.planning.build import sketch
    from kvdsl.planning.fleet_plans import fleet_plan

    resolver = Resolver(project)
    found = declared_faults(resolver)
    book = book_of(resolver, book)
    plans, broken = [], []
    known: dict[Span | None, Outcome] = {}
    for name in resolver.concrete("deployment"):
        deployment, faults = resolver.deployment(name)
        found.extend(faults)
        if deployment is None:
            broken.append(name)
        else:
            made = known[deployment.at] = outcome(deployment, book=book)
            plans.append(sketch(made, sources(project)))
    summed = []
    for fleet in fleets(resolver):
        parts = members_of(fleet, known)
        summed.append(fleet_plan(fleet_outcome(fleet, parts), parts, sources(project)))
    return Planned(tuple(plans), tuple(summed), tuple(broken), Report.of(found))


def sketched_report(project: Project) -> Report:
    """What is wrong with a project's declarations and with the deployments among them."""
    resolver = Resolver(project)
    found = declared_faults(resolver)
    for name in resolver.concrete("deployment"):
        found.extend(resolver.deployment(name)[1])
    return Report.of(found)


def facts(project: Project) -> tuple[Fact, ...]:
    """What the deployments of a project were made from, and those that are only to be extended
    left out."""
    from kvdsl.planning.facts import deployment_facts

    resolver = Resolver(project)
    found: dict[Fact, None] = {}
    for name in resolver.concrete("deployment"):
        deployment, _ = resolver.deployment(name)
        if deployment is not None:
            found |= dict.fromkeys(deployment_facts(deployment))
    return tuple(found)


def entry_facts(entries: Iterable[str]) -> tuple[Fact, ...]:
    """What entries of the catalog say now; those that it has no more are left out."""
    from kvdsl.planning.facts import declaration_facts

    resolver = Resolver(load_text("kvspec 1\n"))
    found: dict[Fact, None] = {}
    for entry in entries:
        if resolver.kind_of(entry) is None:
            continue
        declaration, _ = resolver.declaration(entry)
        if declaration is not None:
            every = declaration_facts(declaration)
            found |= {fact: None for fact in every if fact.entry == entry}
    return tuple(found)


def _troubles(project: Project, report: Report) -> tuple[Trouble, ...]:
    errors = [d for d in report.diagnostics if d.severity is Severity.ERROR]
    if not errors:
        return ()
    first, name = errors[0], project.main.source.name
    return (Trouble(name, "after", first.headline, len(errors), str(first.span)),)
