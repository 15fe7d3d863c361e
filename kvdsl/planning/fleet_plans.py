"""Builds what a renderer shows of a fleet from its outcome.

Comes in: the outcome of a fleet and those of its deployments. Goes out: a `FleetPlan`. Not its job:
the sums (fleets), or the plans of the deployments (build).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvdsl.diagnostics import Severity
from kvdsl.formulas import Term
from kvdsl.plan import Finding, Mood, RequirementResult, Verdict
from kvdsl.plan.fleets import FleetColumn, FleetMember, FleetPlan
from kvdsl.planning.build import finding, hardware
from kvdsl.planning.deploy import Outcome
from kvdsl.planning.facts import fleet_facts
from kvdsl.planning.fleets import PER_YEAR, SUMS, FleetOutcome
from kvdsl.planning.headlines import all_hold, fail
from kvdsl.source import SourceFile, Span
from kvdsl.spelling import in_a_row
from kvdsl.units import counted, shown

COLUMNS = (
    FleetColumn("replicas", "replicas", added=False),
    FleetColumn("gpus", "GPUs"),
    FleetColumn("power", "power"),
    FleetColumn("cost.per_hour", "an hour"),
    FleetColumn(PER_YEAR, "a year"),
    FleetColumn("decode.throughput", "output"),
)
"""What the table of a fleet shows of each deployment."""

YEAR = "a year is 8,760 hours, every one paid"


def fleet_plan(
    found: FleetOutcome, outcomes: Sequence[Outcome], sources: Sequence[SourceFile]
) -> FleetPlan:
    """The outcomes are those of the fleet's deployments, in its order; `sources` are the spec's
    files, its own first."""
    fleet = found.fleet
    place = fleet.at or Span(sources[0], 0, 0)
    sums = {c.name: found.values[c.name] for c in COLUMNS if c.name in found.values}
    judged = tuple(one.result for one in found.judged)
    findings = tuple(finding(told) for told in found.told)
    return FleetPlan(
        fleet.name,
        fleet.doc,
        place.file.name,
        _verdict(sums, outcomes, judged, findings),
        COLUMNS,
        tuple(_member(found, each) for each in outcomes),
        sums,
        tuple(_notes(found, outcomes, sums)),
        judged,
        findings,
        place,
        tuple((source.name, source.text) for source in sources),
        facts=fleet_facts(fleet),
        fits=all(map(_fits, outcomes)),
        times=in_a_row(_times(outcomes), "and"),
    )


def _times(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for kind, ideal in (("ideal", True), ("fitted", False)):
        if any(bool(o.values) and o.deployment.ideal is ideal for o in outcomes):
            yield kind


def _member(found: FleetOutcome, one: Outcome) -> FleetMember:
    values = dict(found.members[one.deployment.name])
    if "replicas" in one.values:
        values["replicas"] = one.values["replicas"]
    return FleetMember(one.deployment.name, hardware(one.deployment), values)


def _verdict(
    sums: Mapping[str, Term],
    outcomes: Sequence[Outcome],
    judged: Sequence[RequirementResult],
    findings: Sequence[Finding],
) -> Verdict:
    """The sums in one sentence, what does not fit, and how many requirements hold."""
    gpus = sums.get("gpus")
    said = [counted(len(outcomes), "deployments")]
    said[0] += f" on {counted(gpus.value, 'GPUs')}" if gpus is not None else ""
    said += [shown(sums[name].quantity) for name in ("power", "cost.per_hour") if name in sums]
    text = ", ".join(said)
    if PER_YEAR in sums:
        text += f" ({shown(sums[PER_YEAR].quantity)} a year)"
    unfit = [o.deployment.name for o in outcomes if not _fits(o)]
    if unfit:
        verb = "does not fit" if len(unfit) == 1 else "do not fit"
        text += f"; {', '.join(unfit)} {verb}"
    failing = fail(judged)
    errors = any(f.severity is Severity.ERROR for f in findings)
    mood: Mood = "bad" if unfit or failing or errors else "warning" if findings else "good"
    if errors and not failing:
        count = sum(f.severity is Severity.ERROR for f in findings)
        failing = f"; {counted(count, 'errors')}"
    return Verdict(mood, f"{text}{failing or all_hold(judged)}.")


def _fits(found: Outcome) -> bool:
    return bool(found.values) and found.values["memory.kv"].value > 0


def _notes(
    found: FleetOutcome, outcomes: Sequence[Outcome], sums: Mapping[str, Term]
) -> Iterator[str]:
    """What is not added up and why, what the sums count once, and what a year is."""
    for name, why in found.absent.items():
        if name != PER_YEAR:
            yield f"{SUMS[name]}: no sum, as {why}"
    for name in ("power", "cost.per_hour"):
        parts = [values[name].value for values in found.members.values() if name in values]
        if name in sums and len(parts) == len(outcomes) and sum(parts) != sums[name].value:
            yield f"{SUMS[name]}: what several deployments stand in is counted once in the sum"
    if found.fleet.requirements and not found.judged:
        asked = counted(len(found.fleet.requirements), "requirements")
        yield f"{asked} not judged: not every deployment is planned"
    if PER_YEAR in sums or any(PER_YEAR in values for values in found.members.values()):
        yield YEAR
