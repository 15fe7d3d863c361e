"""One text through the whole street, as `check`, `plan`, `graph` and `report` walk it.

Comes in: a text. Goes out: how far it came; an exception is kvdsl's own fault. Not its job: where
the text is from (specs, mutations), or how often (campaign).
"""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

from kvdsl.diagnostics import Report
from kvdsl.pipeline import check_text, compile_text
from kvdsl.placement.graph import graph
from kvdsl.placement.graph_forms import FORMS
from kvdsl.plan import Plan
from kvdsl.planning.deploy import outcome
from kvdsl.project.loader import load_text
from kvdsl.render import machine
from kvdsl.render.diagnostics import concise, drawn_report
from kvdsl.render.html import report_html
from kvdsl.render.machine_plan import plans_form
from kvdsl.render.paint import PLAIN, Paint
from kvdsl.render.tables import as_csv, as_markdown, tables
from kvdsl.render.terminal import plan_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.syntax.formatter import equivalent, format_module
from kvdsl.syntax.parser import parse

LIMIT = 20.0
"""Seconds that one text may take. A guard against a hang, not a measure: most take 30 ms."""

ENDLESS = ("prefill.ttft", "cost.per_mtok")
"""Values that may be without end: a queue that only grows, the price of no token at all."""

LACKING = ("memory.kv", "memory.free")
"""Values that may be below zero: by so much the weights do not fit, or the workload."""


Way = Literal["check", "plan", "all"]
"""How far a text goes: a plan costs ten times as much as its check, the page as much again."""


class Overtime(BaseException):
    """A text took longer than its limit; no `except Exception` on the way can swallow it."""


@contextmanager
def limited(seconds: float = LIMIT) -> Iterator[None]:
    """Raises Overtime in the block after so many seconds, where the system has such alarms."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Overtime(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def walked(text: str, way: Way) -> str:
    """What became of a text: `refused` where an error says that it is no sound spec, `checked`,
    `unplanned` where no deployment of it has a plan, `planned`."""
    report = check_text(text, "fuzz.kvspec").report
    draw_findings(report)
    _formatted(text)
    if any(each.code < "KV100" for each in report.diagnostics if each.severity.rank == 0):
        return "refused"
    if way == "check":
        return "checked"
    compilation = compile_text(text, "fuzz.kvspec")
    draw_findings(compilation.report)
    if all(plan.unplanned for plan in compilation.plans):
        return "unplanned"
    draw_plans(compilation.plans)
    if way == "all":
        report_html(compilation.plans, "0")
        draw_graphs(text)
    return "planned"


def draw_findings(report: Report) -> None:
    drawn_report(report, 40, Paint(colour=True))
    for each in report.diagnostics:
        concise(each, PLAIN)
    strict(machine.text(machine.findings(report)))


def draw_plans(plans: tuple[Plan, ...]) -> None:
    strict(machine.text(plans_form(plans)))
    as_csv(plans)
    for plan in plans:
        plan_text(plan, 80, PLAIN)
        for table in tables(plan):
            as_markdown(table)
        add_up(plan)


def draw_graphs(text: str) -> None:
    resolver = Resolver(load_text(text, "fuzz.kvspec"))
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


def _formatted(text: str) -> None:
    """A text without faults is laid out; the result means the same and is laid out already."""
    from kvdsl.source import SourceFile

    module, faults = parse(SourceFile("fuzz.kvspec", text))
    if faults:
        return
    after = format_module(module)
    again, left = parse(SourceFile("fuzz.kvspec", after))
    assert not left, "formatting broke it"
    assert equivalent(module, again), "formatting changed its meaning"
    assert format_module(again) == after, "formatting twice is not formatting once"
