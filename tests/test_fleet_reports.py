"""What a report tells of a fleet: at the top, with what is not added up, in one page or alone."""

from __future__ import annotations

from functools import cache

import pytest

from kvdsl.pipeline import Compilation, compile_text
from kvdsl.render.html import report_html
from tests.test_report import Page

SPEC = """kvspec 1
cluster hall {{ nodes = 4 x nodes.hgx_h100; fabric = links.infiniband_ndr }}
device mute extends devices.h100_sxm {{ drop price; drop power }}
node bare {{ devices = 8 x mute; scale_up {{ link = links.nvlink4; shape = switch }} }}
deployment one {{
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = hall.nodes[0]
  layout   {{ tp = 8 }}
  budget   {{ reserve = 3 GB }}
  workload {{ context = 8 ktok; concurrency = 8 req }}
}}
deployment two extends one {{ on = {on} }}
## Both halls.
fleet all {{
  deployments = [one, two]
  {more}
  require gpus <= 8 because "the quota"
  require deployments.two.kv.tokens >= 1 Mtok
}}
"""


@cache
def made(on: str = "hall.nodes[1]", more: str = "") -> Compilation:
    return compile_text(SPEC.format(on=on, more=more), "halls.kvspec")


def page(*given: str) -> Page:
    compilation = made(*given)
    return Page(report_html(compilation.plans, "0.1.0", compilation.fleets))


def test_a_fleet_stands_before_its_deployments_and_its_links_lead_somewhere() -> None:
    shown = page()
    ids, links = shown.values("id"), shown.values("href")
    assert (shown.wrong, shown.open) == ([], [])
    assert ids.index("all-fleet") < ids.index("one-deployment")
    assert sorted({i for i in ids if ids.count(i) > 1}) == []
    assert [link for link in links if link.startswith("#") and link[1:] not in ids] == []
    assert links.index("#all-fleet") < links.index("#one-deployment")
    assert {"#two-value-kv-tokens", "#all-requirement-1"} <= set(links)


def test_a_fleet_shows_parts_sums_and_requirements() -> None:
    text = page().text.replace("\N{NO-BREAK SPACE}", " ")
    assert "2 deployments on 16 GPUs, 11.2 kW, 47.2 USD/h (413,472 USD a year)" in text
    assert "In all 16 11.2 kW 47.2 USD/h 413,472 USD 10,789 tok/s" in text
    assert "require gpus <= 8 because the quota" in text
    assert "16 8 8 (100 %) above" in text


def test_what_one_deployment_lacks_is_told_and_not_added_up() -> None:
    text = page("1 x bare").text.replace("\N{NO-BREAK SPACE}", " ")
    assert "2 deployments on 16 GPUs; 1 of 2 requirements fail" in text
    assert "In all 16 – – – 10,789 tok/s" in text
    assert "power: no sum, as two lacks it: nothing says what mute draws" in text
    assert "cost an hour: no sum, as two lacks it: nothing says what mute costs" in text


@pytest.mark.parametrize(
    ("on", "more", "parts", "whole"),
    [
        ("hall.nodes[1]", "price = 20 USD/h per node", "20 USD/h 175,200 USD", "40 USD/h"),
        ("1 x bare", "price = 20 USD/h per node", "20 USD/h 175,200 USD", "40 USD/h"),
    ],
)
def test_the_price_of_a_fleet_is_that_of_its_deployments(
    on: str, more: str, parts: str, whole: str
) -> None:
    text = page(on, more).text.replace("\N{NO-BREAK SPACE}", " ")
    assert text.count(parts) == 2
    assert f"{whole} 350,400 USD" in text


def test_a_deployment_that_cannot_be_planned_leaves_no_sum() -> None:
    compilation = made("hall.devices[8..13]")
    (fleet,) = compilation.fleets
    assert dict(fleet.sums) == {}
    assert fleet.verdict.mood == "bad"
    assert "two does not fit" in fleet.verdict.sentence
    assert any("`two` lacks it: it cannot be planned" in note for note in fleet.notes)
    assert "2 requirements not judged: not every deployment is planned" in fleet.notes
    assert page("hall.devices[8..13]").wrong == []


def test_a_fleet_has_a_report_without_plans_beside_it() -> None:
    compilation = made()
    shown = Page(report_html((), "0.1.0", compilation.fleets))
    assert shown.headings[:2] == [1, 2]
    assert shown.text.startswith("Skip to the report Capacity report · halls.kvspec")
    assert "#one-deployment" not in shown.values("href")


def test_a_node_that_two_stand_in_is_paid_once_and_so_told() -> None:
    text = SPEC.format(on="hall.devices[4..7]", more="price = 20 USD/h per node")
    text = text.replace("hall.nodes[0]", "hall.devices[0..3]").replace("tp = 8", "tp = 4")
    (fleet,) = compile_text(text, "halls.kvspec").fleets
    parts = [member.values["cost.per_hour"].value for member in fleet.members]
    assert sum(parts) == 2 * fleet.sums["cost.per_hour"].value
    assert "cost an hour: what several deployments stand in is counted once in the sum" in (
        fleet.notes
    )


def test_devices_of_the_others_are_drawn_as_theirs() -> None:
    one, two = made().plans
    cells = [tuple(box.cells) for box in one.pictures[0].root.boxes]
    assert {cell.taken_by for cell in cells[0]} == {""}
    assert {cell.lines for cell in cells[1]} == {("taken by two",)}
    assert {cell.lines for cell in (*cells[2], *cells[3])} == {("free",)}
    assert {cell.taken_by for cell in two.pictures[0].root.boxes[0].cells} == {"one"}
    drawn = report_html(made().plans, "0.1.0", made().fleets)
    assert "grey: taken by two<" in drawn
    assert "<title>device 8 \N{MIDDLE DOT} taken by two</title>" in drawn


def test_hardware_of_its_own_is_nobody_elses() -> None:
    one, _ = made("1 x nodes.hgx_h100").plans
    assert {cell.taken_by for box in one.pictures[0].root.boxes for cell in box.cells} == {""}


def test_a_folded_picture_tells_whose_units_are_whose() -> None:
    text = SPEC.format(on="hall.nodes[1..20]", more="").replace("4 x nodes", "40 x nodes")
    one, _ = compile_text(text.replace("layout   { tp = 8 }", "layout { tp = 8 }")).plans
    found = [(box.count, box.cells[0].lines[0]) for box in one.pictures[0].root.boxes]
    assert found == [(1, "layers 0-31"), (20, "taken by two"), (19, "free")]
