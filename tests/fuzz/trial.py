"""One text through the whole street, as `check`, `fmt`, `plan`, `graph` and `report` walk it.

Comes in: a text. Goes out: how far it came; an exception is kvdsl's own fault. Not its job: where
the text is from (specs, mutations), or how often (campaign).
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from kvdsl.diagnostics import Report
from kvdsl.pipeline import checked, compiled
from kvdsl.placement.graph import graph
from kvdsl.placement.graph_forms import FORMS
from kvdsl.plan import Plan
from kvdsl.plan.fleets import FleetPlan
from kvdsl.planning.deploy import outcome
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import Project, load_text
from kvdsl.render import machine
from kvdsl.render.derivation import derivation_text
from kvdsl.render.diagnostics import concise, drawn_report
from kvdsl.render.fleets import fleet_tables, fleet_text
from kvdsl.render.html import report_html
from kvdsl.render.machine_plan import plans_form
from kvdsl.render.paint import PLAIN, Paint
from kvdsl.render.plan_tables import tables
from kvdsl.render.spreadsheet import as_csv
from kvdsl.render.tables import as_markdown
from kvdsl.render.terminal import plan_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.source import SourceFile
from kvdsl.syntax.formatter import equivalent, format_module
from kvdsl.syntax.parser import parse
from tests.fuzz.commands import commanded
from tests.fuzz.shelf import KeptCatalog

LIMIT = 10.0
"""Seconds of the processor that one text may take, however busy the machine is with others. A
guard against a hang, not a measure: most take 10 ms."""

ENDLESS = ("prefill.ttft", "cost.per_mtok")
"""Values that may be without end: a queue that only grows, the price of no token at all."""

LACKING = ("memory.kv", "memory.free")
"""Values that may be below zero: by so much the weights do not fit, or the workload."""


SAMPLED = 5
"""One value in so many has its chain drawn."""

FOLDER = Path(__file__).resolve().parent / "imported"
"""Where texts look for what they import."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done with a text beside its check, which each gets. A plan costs four times as much
    as a check, its page and graph as much again."""

    formatted: bool = True
    planned: bool = True
    rendered: bool = True
    fresh: bool = True
    """Reads the catalog's files anew, as a command does."""
    command: int | None = None
    """The number of a command that is run on it, if it is sound: most others only tell why not."""


EVERY = Steps()


def steps_of(number: int) -> Steps:
    """Every eighth text is formatted. Of sound ones every second is planned, a quarter of those
    rendered too, and every second given to a command. One in 64 reads the catalog anew."""
    return Steps(
        formatted=number % 8 == 0,
        planned=number % 2 == 1,
        rendered=number % 8 == 1,
        fresh=number % 64 == 1,
        command=number if number % 2 == 0 else None,
    )


@dataclass(slots=True)
class Way:
    """How far a text came: `diagnosed` where an error was told, else `clean`; then each further
    step that it took. `seconds` of the processor are those of loading and checking it."""

    steps: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Overtime(BaseException):
    """A text took longer than its limit; no `except Exception` on the way can swallow it."""


@contextmanager
def limited(seconds: float = LIMIT) -> Iterator[None]:
    """Raises Overtime in the block after so many seconds, where the system has such alarms."""
    if not hasattr(signal, "SIGPROF"):
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Overtime(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def walked(text: str, steps: Steps = EVERY) -> Way:
    """Takes a text through those steps. Raises whatever kvdsl raises, which is its own fault."""
    way = Way()
    begun = time.process_time()
    project = loaded(text, fresh=steps.fresh)
    report = checked(project).report
    way.seconds = time.process_time() - begun
    way.steps.append("diagnosed" if report.failed else "clean")
    draw_findings(report)
    if steps.formatted and _formatted(project.main.source):
        way.steps.append("formatted")
    # Codes below KV100 say that it is no sound spec; others are found on a sound one.
    unsound = any(each.code < "KV100" for each in report.diagnostics if each.severity.rank == 0)
    if steps.planned and not unsound:
        _plan(loaded(text, fresh=steps.fresh), way, steps)
    told = not unsound and "deployment" in text
    if steps.command is not None and (told or steps.command % 32 == 0):
        way.steps.append(commanded(text, steps.command))
    return way


def loaded(text: str, *, fresh: bool = True) -> Project:
    catalog = Catalog() if fresh else KeptCatalog()
    return load_text(text, "fuzz.kvspec", FOLDER, catalog=catalog)


def _plan(project: Project, way: Way, steps: Steps) -> None:
    compilation = compiled(project)
    draw_findings(compilation.report)
    draw_fleets(compilation.fleets)
    if all(plan.unplanned for plan in compilation.plans):
        return
    draw_plans(compilation.plans)
    way.steps.append("planned")
    if steps.rendered:
        report_html(compilation.plans, "0", compilation.fleets)
        draw_derivations(compilation.plans)
        draw_graphs(project)
        way.steps.append("rendered")


def draw_findings(report: Report) -> None:
    drawn_report(report, 40, Paint(colour=True))
    for each in report.diagnostics:
        concise(each, PLAIN)
    strict(machine.text(machine.findings(report)))


def draw_fleets(fleets: tuple[FleetPlan, ...]) -> None:
    strict(machine.text(plans_form((), fleets)))
    for fleet in fleets:
        fleet_text(fleet, 80, PLAIN)
        made = fleet_tables(fleet)
        as_csv((), [(fleet.name, table) for table in made])
        for table in made:
            as_markdown(table)


def draw_plans(plans: tuple[Plan, ...]) -> None:
    strict(machine.text(plans_form(plans)))
    as_csv(plans)
    for plan in plans:
        plan_text(plan, 80, PLAIN)
        for table in tables(plan):
            as_markdown(table)
        add_up(plan)


def draw_derivations(plans: tuple[Plan, ...]) -> None:
    for plan in plans:
        names = sorted(plan.values)
        # Terms are shared by values: of sixty chains most are pieces of others.
        for name in names[len(names) % SAMPLED :: SAMPLED]:
            derivation_text(name, plan.values[name], 80, PLAIN)


def draw_graphs(project: Project) -> None:
    resolver = Resolver(project)
    for name in resolver.concrete("deployment"):
        deployment, _ = resolver.deployment(name)
        if deployment is not None:
            for estimate in outcome(deployment).estimates.values():
                drawn = graph(estimate.placement, expanded=False)
                for form in FORMS.values():
                    form(drawn)


def add_up(plan: Plan) -> None:
    """What holds of every plan: its memory adds up, and no count or size is negative."""
    for bar in plan.memory:
        pieces = sum(s.quantity.value for s in bar.segments)
        # What does not fit is more than the memory, and then nothing is left of that.
        needed = sum(s.quantity.value for s in bar.segments if s.group != "over")
        if pieces != max(bar.memory.value, needed):
            raise AssertionError(f"{bar.title}: {pieces} is not {bar.memory.value}")
    for name, term in plan.values.items():
        value = term.value
        if math.isnan(value) or (math.isinf(value) and not name.endswith(ENDLESS)):
            raise AssertionError(f"{name} is {value}")
        if value < 0 and not name.endswith(LACKING):
            raise AssertionError(f"{name} is {value}")


def strict(text: str) -> object:
    """The JSON of a text that holds no NaN and no infinity."""

    def refuse(word: str) -> object:
        raise AssertionError(f"JSON has no {word}")

    return json.loads(text, parse_constant=refuse)


def _formatted(source: SourceFile) -> bool:
    """A text without faults is laid out; the result means the same and is laid out already."""
    module, faults = parse(source)
    if faults:
        return False
    after = format_module(module)
    again, left = parse(SourceFile("fuzz.kvspec", after))
    assert not left, "formatting broke it"
    assert equivalent(module, again), "formatting changed its meaning"
    assert format_module(again) == after, "formatting twice is not formatting once"
    return True
