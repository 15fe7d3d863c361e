"""Several pools: a cause that they share is told once, and one does not outrun the other."""

from __future__ import annotations

import pytest

from kvdsl.pipeline import compile_text
from kvdsl.plan import Finding

SPEC = """kvspec 1
cluster hall {{ nodes = 4 x nodes.hgx_h100; fabric = links.infiniband_ndr }}
deployment prod {{
  model   = models.llama_3_1_70b
  weights = {weights}
  kv      = formats.bf16
  budget  {{ reserve = 3 GB }}
  pool prefill {{ on = hall.nodes[0..1]; layout {{ tp = 8; replicas = 2 }} }}
  pool decode  {{ on = hall.nodes[2]; layout {{ tp = 8 }}{decode} }}
  pool more    {{ role = decode; on = hall.nodes[3]; layout {{ tp = 8 }} }}
  transfer {{ over = links.infiniband_ndr }}
  workload {{ prompt = 8 ktok; output = 1 ktok; concurrency = 40 req }}
}}
"""


def findings(code: str, weights: str = "formats.fp8", decode: str = "") -> list[Finding]:
    text = SPEC.format(weights=weights, decode=decode)
    return [f for f in compile_text(text, "prod.kvspec").plan("prod").findings if f.code == code]


def test_a_cause_that_all_pools_share_is_told_once_with_their_names() -> None:
    (told,) = findings("KV144")
    said = told.diagnostic
    assert said.headline.startswith("pools prefill, decode and more: all weights in fp8")
    assert [note.partition(":")[0] for note in said.notes] == [
        "pool prefill",
        "pools decode and more",
    ]
    assert said.helps[-1].startswith("say so per module")
    assert told.alternative is None  # it differs from pool to pool, and stands in the helps
    assert {label.partition(":")[0] for label, _ in told.quantities} == {
        "pool prefill",
        "pool decode",
        "pool more",
    }


def test_pools_with_causes_of_their_own_are_told_apart() -> None:
    told = findings("KV144", "formats.bf16", "; weights = formats.fp8")
    assert [f.diagnostic.headline.partition(":")[0] for f in told] == ["pool decode"]
    assert told[0].alternative is not None


MANY = """kvspec 1
cluster hall {{ nodes = 4 x nodes.hgx_h100; fabric = links.infiniband_ndr }}
deployment prod {{
  model   = models.llama_3_1_8b
  weights = formats.bf16
  kv      = formats.bf16
  layout  {{ tp = 8 }}
  budget  {{ reserve = 3 GB }}
  {engine}
  pool prefill {{ on = hall.nodes[0]; replicas = 1 }}
  pool decode  {{ on = hall.nodes[1..3]; replicas = 3 }}
  {transfer}
  workload {{ prompt = 8 ktok; output = 500 tok; concurrency = {clients} req }}
}}
"""
OVER_IB = "transfer { over = links.infiniband_ndr }"


@pytest.mark.parametrize("transfer", [OVER_IB, ""])
@pytest.mark.parametrize("engine", ["", "engine = engines.vllm_0_33"])
def test_no_more_is_decoded_than_prefill_hands_on(engine: str, transfer: str) -> None:
    output, before = 500, 0.0
    for clients in (1, 4, 16, 64, 256, 1024, 4096):
        text = MANY.format(engine=engine, clients=clients, transfer=transfer)
        plan = compile_text(text).plan("prod")
        value = {name: float(term.value) for name, term in plan.values.items()}
        most = value["prefill.throughput"] / 8000
        # A whole request more than what prefill hands on may be in flight on each rank.
        assert value["decode.throughput"] <= most * output + 3 / value["decode.tpot"]
        around = value["prefill.ttft"] + output * value["decode.tpot"]
        held = "KV177" in {f.code for f in plan.findings}
        assert (clients > 16) >= held >= (clients > 64)
        if held:
            moved = value.get("transfer.time", 0.0)
            assert clients / most == pytest.approx(around - moved, rel=0.03)
        assert value["prefill.ttft"] >= before
        before = value["prefill.ttft"]


def label_of(code: str, engine: str) -> str:
    text = MANY.format(engine=engine, clients=16, transfer=OVER_IB)
    (told,) = (f for f in compile_text(text).plan("prod").findings if f.code == code)
    return told.diagnostic.primary.text


def test_a_transfer_is_weighed_against_what_it_saves_where_it_saves_something() -> None:
    assert label_of("KV174", "") == (
        "2.624 ms of transfer saves 100.3 ms that prompts would hold up decode"
    )
    assert label_of("KV174", "engine = engines.vllm_0_33") == (
        "2.835 ms of transfer saves 151.7 ms that prompts would hold up decode"
    )


SHELVES = """kvspec 1
tier common extends tiers.ddr5 {{ shared = true }}
cluster hall {{ nodes = 3 x nodes.hgx_h100; fabric = links.infiniband_ndr }}
deployment prod {{
  model   = models.llama_3_1_8b
  weights = formats.bf16
  kv      = formats.bf16
  layout  {{ tp = 4 }}
  budget  {{ reserve = 3 GB }}
  pool a      {{ role = prefill; on = hall.{first} }}
  pool b      {{ role = prefill; on = hall.{second} }}
  pool decode {{ on = hall.devices[16..19] }}
  tiers       {{ host {{ tier = {tier}; capacity = 1 TB per node }} }}
  transfer    {{ over = links.infiniband_ndr }}
  workload    {{ prompt = 8 ktok; output = 500 tok; rate = 12 req/s; prefix_hits = 50 % }}
}}
"""


@pytest.mark.parametrize(
    ("first", "second", "tier", "nodes"),
    [
        ("devices[0..3]", "devices[4..7]", "tiers.ddr5", 1),
        ("devices[0..3]", "devices[8..11]", "tiers.ddr5", 2),
        # Of one that all share, the node that decodes gives its own.
        ("devices[0..3]", "devices[4..7]", "common", 2),
        ("devices[0..3]", "devices[8..11]", "common", 3),
    ],
)
def test_memory_of_a_node_that_two_pools_stand_in_is_there_once(
    first: str, second: str, tier: str, nodes: int
) -> None:
    text = SHELVES.format(first=first, second=second, tier=tier)
    found = compile_text(text).plan("prod").values
    assert float(found["tier.host.tokens"].value) == pytest.approx(nodes * 1e12 / 131_072, rel=1e-6)
    reads = min(nodes * 213e9, float("inf"))
    assert float(found["tier.host.read_bandwidth"].value) == pytest.approx(reads)
