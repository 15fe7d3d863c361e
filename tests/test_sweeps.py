"""Sweeps as a plan shows them: a row a point, why a row is empty, charts in the field's words."""

from __future__ import annotations

from typing import Any

import pytest

from kvdsl.diagnostics import Severity
from kvdsl.pipeline import compile_text
from kvdsl.plan import Plan
from kvdsl.planning.sweeps import sweeps
from kvdsl.project.loader import load_text
from kvdsl.render.html import report_html
from kvdsl.render.machine_plan import plans_form
from kvdsl.render.plan_tables import sweep_table
from kvdsl.render.spreadsheet import sweep_csv
from kvdsl.render.tables import as_markdown, as_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.vocabulary import INPUTS, input_words

SPEC = """kvspec 1
cluster pair {{ nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }}
deployment prod {{
  model    = models.llama_3_1_70b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = {on}
  layout   {{ tp = 8 }}
  budget   {{ reserve = 3 GB }}
  workload {{ context = 8 ktok; concurrency = 40 req }}
  {sweep}
}}
"""


def plan(sweep: str, on: str = "pair") -> Plan:
    return compile_text(SPEC.format(sweep=sweep, on=on), "prod.kvspec").plan("prod")


def test_a_point_without_figures_says_why_in_each_form() -> None:
    made = plan("sweep { layout.tp = [1, 3, 8, 32, 5]; show = [kv.tokens] }")
    table = sweep_table(made.sweeps[0])
    assert as_text(table, 80)[6:] == [
        "  layout.tp = 1: the weights leave no room for a cache: 141.1 GB on a device",
        "    that has 69 GB for them",
        "  layout.tp = 3: 64 query heads cannot be split over TP=3",
        "  layout.tp = 32: the layout needs 32 devices, and pair has 16",
        "  layout.tp = 5: 64 query heads cannot be split over TP=5",
    ]
    assert "\n- layout.tp = 3: 64 query heads cannot be split" in as_markdown(table)
    form: Any = plans_form([made])
    rows = form["plans"][0]["sweeps"][0]["rows"]
    told = {row["point"][0]: row["why"] for row in rows}
    assert told["8"] is None
    assert told["32"] == "the layout needs 32 devices, and pair has 16"
    assert "64 query heads cannot be split over TP=3" in report_html([made], "0.1.0")


def test_a_rate_that_is_not_served_keeps_its_figures_and_says_why() -> None:
    sweep = "sweep { workload.rate = [1 req/s, 900 req/s]; show = [decode.tpot] }"
    text = SPEC.format(on="pair", sweep=f"require decode.tpot <= 1 s; {sweep}").replace(
        "context = 8 ktok; concurrency = 40 req", "prompt = 1 ktok; output = 9 tok; rate = 1 req/s"
    )
    made = compile_text(text, "prod.kvspec").plan("prod")
    assert made.sweeps[0].verdict(1) == "not served"
    form: Any = plans_form([made])
    rows = form["plans"][0]["sweeps"][0]["rows"]
    assert [row["holds"] for row in rows] == [True, False]
    assert "arrive faster than they are served" in rows[1]["why"]
    assert all(row["values"][0] for row in rows)
    page = report_html([made], "0.1.0")
    assert '<span class="aside">requests arrive faster than they are served' in page
    assert '<span class="status fails">not served</span>' in page


def test_points_of_one_reason_stand_on_one_line() -> None:
    made = plan("sweep { layout.pp = [100, 101, 102, 103, 104, 105]; show = [kv.tokens] }")
    reasons = sweep_table(made.sweeps[0]).notes
    assert len(reasons) == 6
    tokens = "sweep { workload.concurrency = [1 req, 2 req, 3 req, 4 req, 5 req, 6 req]; "
    made = plan(tokens + "layout.tp = [3]; show = [kv.tokens] }")
    (reason,) = sweep_table(made.sweeps[0]).notes
    assert reason.endswith("and 2 more points: 64 query heads cannot be split over TP=3")


def test_axes_of_a_chart_are_named_in_words_with_their_units() -> None:
    loads = "workload.concurrency = [8 req, 16 req, 32 req]"
    made = plan(f"sweep {{ {loads}; layout.tp = [4, 8]; show = [decode.tpot] }}")
    chart = next(c for c in made.charts if c.name == "sweep.decode.tpot")
    assert (chart.x_label, chart.x_unit) == ("requests in flight", "req")
    assert (chart.y_label, chart.y_unit) == ("time of a token", "ms")
    assert [line.label for line in chart.series] == ["TP 4", "TP 8"]
    assert chart.title == "Time of a token over requests in flight"


def test_every_input_has_words() -> None:
    assert [name for name in INPUTS if "." in input_words(name)] == []
    assert input_words("pools.decode.layout.attention.dp") == "attention DP of pool decode"


@pytest.mark.parametrize(
    ("on", "told"),
    [
        ("pair", "pair (2 x hgx_h100, 16 x h100_sxm)"),
        ("2 x nodes.hgx_h100", "2 x hgx_h100 (16 x h100_sxm)"),
        ("pair.devices[4..11]", "pair.devices[4..11] (2 x hgx_h100, 8 x h100_sxm)"),
        ("8 x devices.h100_sxm", "8 x h100_sxm"),
    ],
)
def test_the_hardware_says_what_it_is_made_of(on: str, told: str) -> None:
    assert plan("", on).hardware == told


COUNTS = ", ".join(f"{n} req" for n in range(1, 61))
PROMPTS = ", ".join(f"{n} ktok" for n in range(1, 11))
LONG = f"sweep {{ workload.context = [{PROMPTS}]; workload.concurrency = [{COUNTS}]; %s }}"


def test_of_a_long_table_people_are_shown_the_best_and_the_ends() -> None:
    made = plan(LONG % "show = [decode.tpot, kv.tokens, kv.sequences]")
    (sweep,) = made.sweeps
    assert len(sweep.rows) == 600
    told = [sweep.rows[number][0] for number, _ in sweep.told]
    lengths, counts = ("1 ktok", "5 ktok", "10 ktok"), ("1 req", "30 req", "60 req")
    assert told == [(length, count) for length in lengths for count in counts]
    assert [why for _, why in sweep.told if why] == ["least time of a token, most whole requests"]
    lines = as_text(sweep_table(sweep), 80)
    assert lines[-4:] == [
        "  9 of 600 points: the best of each value, and the ends of the axes; `kvdsl",
        "    sweep --output csv` has all",
        "  least time of a token, most whole requests: workload.context = 1 ktok,",
        "    workload.concurrency = 1 req",
    ]
    assert as_text(sweep_table(sweep, whole=True), 80)[600].startswith("  10 ktok")
    assert len(sweep_csv("prod", sweep).splitlines()) == 601
    html = report_html([made], "0.1.0")
    assert "9 of 600 points" in html
    assert html.count('<td class="n bar"') == 9 * 3
    form: Any = plans_form([made])
    assert len(form["plans"][0]["sweeps"][0]["rows"]) == 600


def test_a_chart_of_a_long_sweep_has_some_of_its_lines() -> None:
    made = plan(LONG % "show = [decode.tpot]")
    chart = next(c for c in made.charts if c.name == "sweep.decode.tpot")
    assert [line.label for line in chart.series] == [
        "1 req", "13 req", "25 req", "36 req", "48 req", "60 req",
    ]  # fmt: skip
    assert all(len(line.points) == 10 for line in chart.series)


def test_a_plan_of_more_layouts_than_it_compiles_says_how_many_points_it_has() -> None:
    resolver = Resolver(load_text(SPEC.format(on="pair", sweep="sweep big { layout.tp = [1, 2, 4, "
                                  "8]; workload.concurrency = [1 req, 2 req] }")))  # fmt: skip
    deployment, _ = resolver.deployment("prod")
    assert deployment is not None
    (table,) = sweeps(resolver, deployment, (), 2)
    assert (table.name, len(table.rows)) == ("big (4 of 8 points)", 4)
    (table,) = sweeps(resolver, deployment, (), None)
    assert (table.name, len(table.rows)) == ("big", 8)


def test_shares_of_two_classes_are_two_axes() -> None:
    text = SPEC.format(
        on="pair",
        sweep="sweep { workload.classes.a.share = [40 %, 60 %, 70 %]; "
        "workload.classes.b.share = [60 %, 40 %]; show = [decode.tpot] }",
    ).replace(
        "context = 8 ktok; concurrency = 40 req",
        "concurrency = 40 req; class a { share = 50 %; prompt = 1 ktok; output = 9 tok }; "
        "class b { share = 50 %; prompt = 2 ktok; output = 99 tok }",
    )
    compiled = compile_text(text)
    told = {d.code for d in compiled.report.diagnostics if d.severity is Severity.ERROR}
    assert told == {"KV064"}  # 70 % has no partner
    (table,) = compiled.plan("prod").sweeps
    assert [bool(table.reason(n)) for n in range(6)] == [False, True, True, False, True, True]
