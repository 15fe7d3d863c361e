"""Findings of several pools: one of one cause is told once, with the pools that have it."""

from __future__ import annotations

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
