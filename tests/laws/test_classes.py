"""Classes of requests: those with long outputs are most of the ones in flight."""

from __future__ import annotations

import pytest

import kvdsl

SPEC = """\
kvspec 1

deployment d {
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   { tp = 2; replicas = 4 }
  budget   { reserve = 3 GB }
  workload {
    rate = %d req/s
%s
  }
}
"""
LONG = "prompt = 8191 tok; output = 1023 tok"
SHORT = "prompt = 1 tok; output = 1 tok"
MIXED = f"    class short {{ share = 50 %; {SHORT} }}\n    class long {{ share = 50 %; {LONG} }}"


@pytest.mark.parametrize("name", ["kv.sequences", "decode.tpot", "decode.kv_read"])
def test_requests_that_are_gone_at_once_change_nothing_for_those_that_stay(name: str) -> None:
    alone = kvdsl.compile(SPEC % (15, f"    {LONG}")).plan("d")
    mixed = kvdsl.compile(SPEC % (30, MIXED)).plan("d")
    value, other = alone.value(name).value, mixed.value(name).value
    assert float(other) == pytest.approx(float(value), rel=0.02)
