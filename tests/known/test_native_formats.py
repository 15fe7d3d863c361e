"""Which formats each generation of devices computes in: the others are told to be converted.

Source of the rows: the devices' `compute` in the catalog, each with its source; makers name FP8
from Hopper and CDNA 3 on, FP4 from Blackwell and CDNA 4 on.
"""

from __future__ import annotations

import pytest

from kvdsl.pipeline import check_text

SPEC = """\
kvspec 1
deployment served {{
  model    = models.llama_3_1_8b
  weights  = formats.bf16
  kv       = formats.{form}
  on       = 1 x nodes.{node}
  layout   {{ tp = 8 }}
  budget   {{ reserve = 3 GB }}
  workload {{ context = 8 ktok; concurrency = 8 req }}
}}
"""

NODES = ("hgx_a100_80gb", "hgx_h100", "hgx_h200", "hgx_b200", "hgx_b300", "oam_mi300x",
         "oam_mi355x")  # fmt: skip
NATIVE = {
    "fp8": {*NODES} - {"hgx_a100_80gb"},
    "fp8_e5m2": {*NODES} - {"hgx_a100_80gb"},
    "int8": {*NODES},
    "nvfp4": {"hgx_b200", "hgx_b300", "oam_mi355x"},
    "mxfp4": {"hgx_b200", "hgx_b300", "oam_mi355x"},
    "int4": set[str](),
}


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("form", NATIVE)
def test_a_format_is_converted_where_a_device_has_no_arithmetic_for_it(
    form: str, node: str
) -> None:
    told = {d.code for d in check_text(SPEC.format(form=form, node=node)).report.diagnostics}
    assert ("KV161" not in told) is (node in NATIVE[form])


def test_a_code_of_weights_is_refused_for_a_cache() -> None:
    text = SPEC.format(form="dfloat11", node="hgx_h100")
    told = [d for d in check_text(text).report.diagnostics if d.code == "KV165"]
    assert len(told) == 1
    assert any("token by token" in note for note in told[0].notes)
