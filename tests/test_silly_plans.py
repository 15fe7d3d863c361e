"""Plans that nobody would ask for: each gives figures that hold together, or says why not.

The cases are under `silly/`. Every plan also goes through every renderer, and what must hold of
every plan (its memory adds up, nothing is below zero, JSON is strict) is asked of it there.
"""

from __future__ import annotations

import re

import pytest

from kvdsl.diagnostics import Severity
from kvdsl.pipeline import Compilation, compile_text
from kvdsl.render.diagnostics import drawn_report
from kvdsl.render.html import report_html
from kvdsl.render.paint import PLAIN
from kvdsl.render.terminal import plan_text
from tests.fuzz.trial import draw_findings, draw_graphs, draw_plans, limited, loaded
from tests.silly import CASES, Case


def compiled(text: str) -> Compilation:
    with limited():
        compilation = compile_text(text, "silly.kvspec")
        draw_findings(compilation.report)
        draw_plans(compilation.plans)
        if compilation.plans:
            report_html(compilation.plans, "0")
        draw_graphs(loaded(text))
    return compilation


@pytest.mark.parametrize("name", CASES)
def test_a_silly_plan_gives_figures_or_a_reason(name: str) -> None:
    case = CASES[name]
    compilation = compiled(case.text)
    errors = [d for d in compilation.report.diagnostics if d.severity is Severity.ERROR]
    told = "\n".join(f"{d.code} {d.headline}" for d in errors)
    planned = [plan for plan in compilation.plans if not plan.unplanned]
    assert planned or errors
    if case.so is not None:
        assert planned, told
        assert case.so(planned[0]), told
    if case.words:
        assert case.words.lower() in told.lower()


def test_no_figure_for_people_has_more_digits_than_they_read() -> None:
    asked = "context = 10_000_000_000_000_000_000_000_000 tok; concurrency = 1e28 req"
    compilation = compiled(Case(workload=asked).text)
    page = re.sub(r"<[^>]*>", "", report_html(compilation.plans, "0").partition("</style>")[2])
    told = drawn_report(compilation.report, 80, PLAIN) + plan_text(compilation.plans[0], 80, PLAIN)
    assert "1e25 tok" in told
    assert re.findall(r"[0-9][0-9,]{24,}", told + page) == []
