"""Lever studies: the levers of each deployment of a file, with what its others have measured.

Comes in: the resolver, names of formats and machines. Goes out: rows by deployment, and what is
wrong with a name. Of pools the one that decodes is studied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvdsl.checks.findings import examine
from kvdsl.costs.memory import leaf
from kvdsl.diagnostics import Diagnostic, Report, Severity
from kvdsl.formulas import Term
from kvdsl.placement.subject import Subject
from kvdsl.planning.deploy import outcome
from kvdsl.planning.levers import Key, Match, Row, Tried, key_of, matches, rows
from kvdsl.planning.subjects import subject
from kvdsl.project.loader import Project
from kvdsl.resolve.changes import Change
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.deployment import Deployment
from kvdsl.spec.formats import Format
from kvdsl.spec.hardware import Device, Node
from kvdsl.units import TOKEN_RATE

FORMATS = ("fp8", "int8", "nvfp4", "int4")
"""Formats of the catalog that are tried unless others are named."""

KEEPS = (Fraction(1, 2), Fraction(1, 4))
"""Shares of tokens kept, as studies of eviction have them."""

MACHINES = 2
"""Larger devices that are tried: the next in memory."""


@dataclass(frozen=True, slots=True)
class LeversOf:
    """A deployment with its levers, and pairs of them at the same relief."""

    name: str
    rows: tuple[Row, ...]
    matches: tuple[Match, ...]


class NoFormat(ValueError):
    """A name that was asked for is no format; the text says what is near."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for: empty means the usual."""

    names: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    keeps: tuple[Fraction, ...] = ()
    relief: int = 0


@dataclass(frozen=True, slots=True)
class Levers:
    """Levers of a file's deployments; `known` are all of them."""

    report: Report
    found: tuple[LeversOf, ...]
    known: tuple[str, ...]


def levers_of(project: Project, asked: Asked, changes: Sequence[Change] = ()) -> Levers:
    """The levers of a file that was loaded."""
    resolver = Resolver(project)
    faults = resolver.check()
    found, wrong = studies(resolver, asked, changes, project.catalog.names("nodes"))
    return Levers(Report.of((*faults, *wrong)), found, resolver.concrete("deployment"))


def studies(
    resolver: Resolver, asked: Asked, changes: Sequence[Change], nodes: Sequence[str]
) -> tuple[tuple[LeversOf, ...], tuple[Diagnostic, ...]]:
    """The levers of every deployment, or of those that are named. `nodes` are the catalog's."""
    formats, faults = _formats(resolver, asked.formats or FORMATS)
    found: list[LeversOf] = []
    measured = _measured(resolver)
    for name in resolver.concrete("deployment"):
        if asked.names and name not in asked.names:
            continue
        own = changes if asked.names else resolver.heard(changes, name)
        deployment, wrong = resolver.deployment(name, own)
        faults.extend(wrong)
        if deployment is None:
            continue
        made = _decoding(deployment)
        if made is None or examine(made).estimate is None:
            told = outcome(deployment).diagnostics
            faults.extend(each for each in told if each.severity is Severity.ERROR)
            continue
        if deployment.measured is not None and not asked.names and _starts(resolver, name):
            continue
        machines = tuple(_larger(resolver, made, nodes))
        tried = Tried(formats, asked.keeps or KEEPS, machines, asked.relief or 2)
        table = rows(made, tried, deployment.requirements, measured)
        found.append(LeversOf(name, table, matches(table)))
    return tuple(found), tuple(faults)


def _starts(resolver: Resolver, name: str) -> bool:
    """Whether another deployment stands before this one: runs that are measured are rows of its
    levers, and need no table of their own."""
    return resolver.concrete("deployment")[0] != name


def _decoding(deployment: Deployment) -> Subject | None:
    pools = [p for p in deployment.pools.values() if p.role != "prefill"]
    made, _ = subject(deployment, pools[0]) if pools else (None, ())
    return made if made is not None and made.degrees.devices <= made.topology.devices else None


def _measured(resolver: Resolver) -> Mapping[Key, Term]:
    """Output of the runs that deployments of the file have measured."""
    found: dict[Key, Term] = {}
    for name in resolver.concrete("deployment"):
        deployment, _ = resolver.deployment(name)
        made = _decoding(deployment) if deployment is not None else None
        if deployment is None or made is None or deployment.measured is None:
            continue
        run = deployment.measured
        found[key_of(made)] = leaf(run, "throughput", f"measured as {name}", run.throughput,
                                   TOKEN_RATE)  # fmt: skip
    return found


def _formats(
    resolver: Resolver, names: Sequence[str]
) -> tuple[tuple[Format, ...], list[Diagnostic]]:
    found: list[Format] = []
    faults: list[Diagnostic] = []
    for name in names:
        declaration, wrong = resolver.declaration(name if "." in name else f"formats.{name}")
        if isinstance(declaration, Format):
            found.append(declaration)
        elif declaration is not None:
            raise NoFormat(f"{declaration.title} is no format")
        elif wrong and wrong[0].span.file.name == "<name>":
            raise NoFormat("; ".join((wrong[0].headline, *wrong[0].helps)))
        else:
            faults.extend(wrong)
    return tuple(found), faults


def _larger(resolver: Resolver, base: Subject, names: Sequence[str]) -> Iterator[Node]:
    """Nodes of the catalog whose devices are the next larger ones, and no slower. Of several with
    the same device the shortest name is the board itself, the others are makers' and clouds'."""
    own = base.topology.device(0)
    known: dict[int, Node] = {}
    for name in sorted(names, key=len):
        node, _ = resolver.declaration(f"nodes.{name}")
        if not isinstance(node, Node) or len(node.devices) != 1:
            continue
        device: Device = node.devices[0].of
        wide = device.memory > own.memory and device.bandwidth >= own.bandwidth
        if wide and device.price is not None and node.devices[0].count >= base.degrees.devices:
            known.setdefault(int(device.memory), node)
    for memory in sorted(known)[:MACHINES]:
        yield known[memory]
