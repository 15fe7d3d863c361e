"""What a report tells of a fleet, for its template: where its rows link to.

Comes in: a fleet's plan and the chapters of the deployments that stand in the same report. Goes
out: a `FleetSheet`. Not its job: the page around it (html).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvdsl.plan import Finding
from kvdsl.plan.fleets import FleetMember, FleetPlan
from kvdsl.render.chapters import Chapter, worded
from kvdsl.source import Span


@dataclass(frozen=True, slots=True)
class FleetSheet:
    """One fleet of a report. `prefix` begins every id in it; a deployment of another file has no
    chapter to link to."""

    plan: FleetPlan
    prefix: str
    chapters: Mapping[str, Chapter]

    def chapter(self, member: FleetMember) -> Chapter | None:
        return self.chapters.get(member.name)

    @property
    def standing(self) -> tuple[Finding, ...]:
        """Findings but those that say of a requirement what its row says."""
        asked = [result.span for result in self.plan.requirements]
        return tuple(
            finding
            for finding in self.plan.findings
            if not any(_within(finding.diagnostic.span, span) for span in asked)
        )

    def finding_id(self, finding: Finding) -> str:
        return f"{self.prefix}finding-{self.plan.findings.index(finding) + 1}"

    def derivation_id(self, value: str) -> str:
        """The id of the chain of `deployments.NAME.VALUE`; empty where the report has none."""
        head, _, rest = value.partition(".")
        name, _, inner = rest.partition(".")
        told = self.chapters.get(name)
        return told.derivation_id(inner) if head == "deployments" and told is not None else ""

    def worded(self, condition: str) -> tuple[tuple[str, str], ...]:
        """A condition in runs of (text, name of the value that it is, or nothing)."""
        return worded(condition, self.derivation_id)


def _within(one: Span, other: Span) -> bool:
    return one.file == other.file and other.start <= one.start < other.end
