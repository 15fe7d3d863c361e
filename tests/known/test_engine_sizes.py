"""Default limits of engines by device, read from their source: vLLM 0.31 and 0.33
(`vllm/engine/arg_utils.py:2940-3039`, API server) and SGLang 0.5.23 (`srt/arg_groups/
memory_hook.py`)."""

from __future__ import annotations

import pytest

from kvdsl.placement.subject import Subject
from kvdsl.planning.subjects import subject
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver

CATALOG = Catalog()

SPEC = """kvspec 1
node box {{ devices = 8 x devices.{device}; scale_up {{ link = links.pcie_5_x16 }} }}
cluster mixed {{
  nodes = [2 x nodes.hgx_h100, 1 x nodes.l40s_x8]; fabric = links.infiniband_ndr
}}
deployment run {{
  model = models.llama_3_1_8b; weights = formats.bf16; kv = formats.bf16
  on = {on}; layout {{ tp = {tp} }}; workload {{ context = 1 ktok; concurrency = 1 req }}
  {engine}
}}
"""


def placed(device: str, engine: str, tp: int = 1, on: str = "1 x box") -> Subject:
    text = SPEC.format(device=device, engine=engine, tp=tp, on=on)
    deployment, found = Resolver(load_text(text, catalog=CATALOG)).deployment("run")
    assert deployment is not None, [d.headline for d in found]
    made, faults = subject(deployment, deployment.pools[""])
    assert made is not None, faults
    return made


def limits(device: str, engine: str, tp: int = 1, on: str = "1 x box") -> tuple[int | None, ...]:
    found = placed(device, engine, tp, on).limits
    return found.step, found.sequences


VLLM = {
    "l40s": (2048, 256),
    "a100_sxm_40gb": (2048, 256),
    "a100_sxm_80gb": (2048, 256),  # it asks for the name
    "h100_sxm": (8192, 1024),
    "h200_sxm": (8192, 1024),
    "b200_sxm": (16_384, 1024),
    "mi300x": (16_384, 1024),
}


@pytest.mark.parametrize("device", VLLM)
@pytest.mark.parametrize("version", ["vllm_0_31", "vllm_0_33"])
def test_vllm_has_limits_by_memory(device: str, version: str) -> None:
    assert limits(device, f"engine = engines.{version}") == VLLM[device]


SGLANG = {
    ("v100_sxm_16gb", 1): (2048, 8),
    ("l4", 2): (4096, 48),
    ("l4", 4): (4096, 160),
    ("l40s", 2): (4096, 32),
    ("l40s", 8): (4096, 160),
    ("h100_sxm", 2): (8192, 256),
    ("h100_sxm", 4): (8192, 512),
    ("h200_sxm", 8): (8192, 512),
    ("b200_sxm", 1): (16_384, 512),
    ("b200_sxm", 8): (16_384, 512),
}


@pytest.mark.parametrize(("device", "tp"), SGLANG)
def test_sglang_has_limits_by_memory_and_tp(device: str, tp: int) -> None:
    assert limits(device, "engine = engines.sglang_0_5_23", tp) == SGLANG[device, tp]


def test_what_is_written_stands_before_a_size() -> None:
    own = "engine extends engines.vllm_0_31 { limits { step = 4096 tok } }"
    assert limits("b200_sxm", own) == (4096, 1024)
    assert limits("b200_sxm", f"{own}; limits {{ step = 512 tok }}") == (512, 1024)
    longest = "engine = engines.vllm_0_31; limits { context = 8 ktok }"
    assert limits("b200_sxm", longest) == (16_384, 1024)


def test_a_size_can_be_changed_or_dropped_by_a_child() -> None:
    changed = "engine extends engines.vllm_0_31 { size large { step = 1000 tok } }"
    assert limits("b200_sxm", changed) == (1000, 1024)
    dropped = "engine extends engines.vllm_0_31 { drop sizes.large }"
    assert limits("b200_sxm", dropped) == (8192, 1024)


def test_the_limit_says_where_it_was_read() -> None:
    origin = placed("h100_sxm", "engine = engines.vllm_0_31").limits.origin("step")
    assert origin is not None
    assert "devices of 70 GiB and more" in (origin.source or "")


@pytest.mark.parametrize(
    ("on", "found"),
    [
        ("mixed", (2048, 256)),
        ("mixed.nodes[0..1]", (8192, 1024)),
        ("mixed.nodes[1]", (8192, 1024)),
        ("mixed.nodes[2]", (2048, 256)),
    ],
)
def test_the_smallest_device_of_those_selected_counts(on: str, found: tuple[int, int]) -> None:
    assert limits("h100_sxm", "engine = engines.vllm_0_31", on=on) == found
