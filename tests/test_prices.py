"""What pools and fleets pay: all or nothing, each unit once, and the reason where it is nothing."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from kvdsl.formulas import Term
from kvdsl.pipeline import ask_text, compile_text

SPEC = """kvspec 1
device bare extends devices.h100_sxm {{ drop price; drop power }}
node box {{ devices = 8 x {device}; scale_up {{ link = links.nvlink4 }}; {node} }}
cluster hall {{ nodes = 2 x box; fabric = links.infiniband_ndr }}
deployment served {{
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  layout   {{ tp = 4 }}
  budget   {{ reserve = 3 GB }}
  workload {{ prompt = 8 ktok; output = 500 tok; rate = 6 req/s }}
  pool prefill {{ on = {prefill} }}
  pool decode  {{ on = {decode} }}
  transfer {{ over = links.infiniband_ndr }}
  {more}
}}
"""
HOUR = Fraction(3600)
HALVES = {"prefill": "hall.devices[0..3]", "decode": "hall.devices[4..7]"}
APART = {"prefill": "hall.devices[0..3]", "decode": "hall.devices[8..11]"}


def spec(places: Mapping[str, str], device: str = "devices.h100_sxm", node: str = "",
         more: str = "") -> str:  # fmt: skip
    return SPEC.format(device=device, node=node, more=more, **places)


def values(text: str) -> Mapping[str, Term]:
    return compile_text(text).plan("served").values


def hourly(text: str) -> float:
    return float(values(text)["cost.per_hour"].value) * float(HOUR)


def test_a_token_pays_for_the_devices_of_both_pools() -> None:
    found = values(spec(HALVES))
    price, output = found["cost.per_hour"].value, found["decode.throughput"].value
    assert price * HOUR == 8 * Fraction("2.95")
    assert found["cost.per_mtok"].value == pytest.approx(float(price) / float(output))
    alone = found["pools.decode.cost.per_mtok"].value
    assert found["cost.per_mtok"].value == pytest.approx(2 * float(alone))


@pytest.mark.parametrize(("places", "nodes"), [(HALVES, 1), (APART, 2)])
def test_a_node_that_two_pools_stand_in_is_paid_once(places: Mapping[str, str], nodes: int) -> None:
    assert hourly(spec(places, more="price = 30 USD/h per node")) == pytest.approx(30 * nodes)
    assert hourly(spec(places, node="price = 50 USD/h")) == pytest.approx(50 * nodes)
    assert hourly(spec(places, more="price = 90 USD/h per cluster")) == pytest.approx(90)
    assert hourly(spec(places, more="price = 2 USD/h per device")) == pytest.approx(16)


def test_a_node_pays_and_draws_what_it_says_itself() -> None:
    found = values(spec(APART, "bare", "price = 50 USD/h; power = 10 kW"))
    assert found["power"].value == 20_000
    assert found["cost.per_hour"].value * HOUR == 100


def test_two_of_a_kind_of_node_are_two() -> None:
    text = spec({"prefill": "1 x box", "decode": "1 x box"}, more="price = 30 USD/h per node")
    assert hourly(text) == pytest.approx(60)
    assert "KV208" not in {f.code for f in compile_text(text).plan("served").findings}


def test_of_a_part_without_a_price_no_sum_is_told_but_the_reason() -> None:
    text = spec({"prefill": "1 x nodes.hgx_h100", "decode": "1 x box"}, "bare",
                more="require cost.per_mtok <= 1 USD/Mtok")  # fmt: skip
    found = compile_text(text).plan("served")
    assert not {"cost.per_hour", "cost.per_mtok", "power"} & set(found.values)
    told = {f.code: f.diagnostic for f in found.findings}
    reason = (
        "nothing says what bare costs, though devices.h100_sxm has a price: give it a `price`, "
        "or write `price = 2 USD/h per device`"
    )
    assert told["KV912"].notes == (reason,)
    assert told["KV216"].helps[0] == "give it one: `price = 2 USD/h` in `bare`"
    assert ask_text(text, "served.cost.per_mtok").absent == reason
    assert ask_text(text, "served.power").absent.startswith("nothing says what bare draws")
    own = ask_text(text, "served.pools.prefill.cost.per_hour").value
    assert own is not None
    assert own.value * HOUR == 4 * Fraction("2.95")


def test_nothing_is_paid_by_a_unit_that_is_not_there() -> None:
    text = spec(HALVES, more="price = 30 USD/h per rack")
    assert "cost.per_hour" not in values(text)
    absent = ask_text(text, "served.cost.per_hour").absent
    assert absent == "the price is per rack, and nothing stands in one"


FLEET = """
deployment other extends served {{
  pool prefill {{ on = hall.devices[8..11] }}
  pool decode  {{ on = hall.devices[{rest}] }}
  {own}
}}
fleet all {{ deployments = [served, other]; {price} }}
"""


@pytest.mark.parametrize(
    ("rest", "own", "price", "paid"),
    [
        ("12..15", "", "", 100),
        ("4..7", "", "", 100),  # no node twice, though one is in both deployments
        ("12..15", "", "price = 7 USD/h per node", 14),
        ("12..15", "price = 3 USD/h per device", "", 50 + 24),
        ("12..15", "price = 3 USD/h per rack", "", None),
    ],
)
def test_a_fleet_pays_each_node_once(rest: str, own: str, price: str, paid: int | None) -> None:
    text = spec(HALVES, node="price = 50 USD/h") + FLEET.format(rest=rest, own=own, price=price)
    found = ask_text(text, "all.cost.per_hour").value
    assert (None if found is None else found.value * HOUR) == paid


def test_what_a_fleet_pays_is_told_of_each_deployment_wherever_it_is_asked() -> None:
    """Plan, `get`, `explain` and a requirement see one price: the fleet's, not the catalog's."""
    asked = "deployments.other.cost.per_hour"
    price = f"price = 7 USD/h per node; require {asked} <= 7 USD/h"
    text = spec(HALVES) + FLEET.format(rest="12..15", own="", price=price)
    (planned,) = compile_text(text).fleets
    found = ask_text(text, "all").values
    assert [part.values["cost.per_hour"].value * HOUR for part in planned.members] == [7, 7]
    for name in ("served", "other"):
        assert found[f"deployments.{name}.cost.per_hour"].value * HOUR == 7
    assert found["cost.per_hour"].value * HOUR == 14
    assert [result.status for result in planned.requirements] == ["holds"]
    token = found["deployments.other.cost.per_mtok"]
    output = found["deployments.other.decode.throughput"]
    assert token.value == pytest.approx(float(found[asked].value) / float(output.value))
    assert found["deployments.other.pools.decode.cost.per_hour"].value * HOUR == 7
    unpaid = text.replace("per node; require", "per rack; require")
    assert asked not in ask_text(unpaid, "all").values
