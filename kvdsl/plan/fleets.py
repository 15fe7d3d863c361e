"""What a renderer may show of a fleet: its deployments, their sums, what is required of those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvdsl.formulas import Term
from kvdsl.plan import Fact, Finding, Input, RequirementResult, Verdict
from kvdsl.source import Span


@dataclass(frozen=True, slots=True)
class FleetColumn:
    """A value of the deployments, by its name; `added` where the fleet sums it, if all have it."""

    name: str
    label: str
    added: bool = True


@dataclass(frozen=True, slots=True)
class FleetMember:
    """A deployment of the fleet. `values` are those of the fleet's columns that it answers, by
    their names; its price is the fleet's where that has one."""

    name: str
    hardware: str
    values: Mapping[str, Term]


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """A fleet, planned. Where `sums` lacks a column that is added, `notes` say why: there is no
    partial sum."""

    name: str
    doc: str
    file: str
    verdict: Verdict
    columns: tuple[FleetColumn, ...]
    members: tuple[FleetMember, ...]
    sums: Mapping[str, Term]
    notes: tuple[str, ...]
    requirements: tuple[RequirementResult, ...]
    findings: tuple[Finding, ...]
    span: Span
    texts: tuple[tuple[str, str], ...] = ()
    """Files of the spec: name and text, the fleet's own first."""
    inputs: tuple[Input, ...] = ()
    facts: tuple[Fact, ...] = ()
    fits: bool = True
    """Whether each deployment is planned and its weights leave room for a cache."""
    times: str = ""
    """`ideal`, `fitted`, or both where its deployments have times of both kinds."""
