"""Figures of papers and documents on transfers and tiers: those that can be reckoned come out as
printed, the others are quoted beside the spec that shows the system."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kvdsl.diagnostics import Severity
from kvdsl.pipeline import compile_text
from kvdsl.plan import Change
from kvdsl.reference.techniques_pools import SYSTEMS
from kvdsl.units import NONE, TIME, Quantity
from tests.known.published import Spec

DATA = Path(__file__).resolve().parent / "data" / "paper_figures.json"
FIGURES: Mapping[str, Mapping[str, Any]] = {f["id"]: f for f in json.loads(DATA.read_text("utf-8"))}

TOPIC = (
    "mooncake", "distserve-", "splitzip", "splitwise", "beluga", "dualblade", "directkv",
    "pykvcache", "specKV", "lmcache",
)  # fmt: skip
"""How the names of figures on pools and tiers begin."""

POOLS = Spec("pools")
GIB, MIB = 1 << 30, 1 << 20


def sent(deployment: str, **changes: str) -> Fraction:
    return Fraction(POOLS.plan(deployment, **changes).value("transfer.bytes").value)


def handed_over(prompt: int) -> Fraction:
    """Bytes of a prompt and its template, in whole pages."""
    return sent("mooncake_pd", workload__prompt=f"{prompt + 10} tok")


PROMPTS = (128, 256, 512, 1024, 4096, 16_384)
PRINTED = {128: 20 * MIB, 256: 38 * MIB, 512: 74 * MIB, 1024: 146 * MIB, 4096: 578 * MIB}


def rate(prompt: int) -> float:
    """GiB a second in the time that was measured, printed as GB/s."""
    milliseconds: float = FIGURES[f"mooncake-pd-bw-{prompt}"]["setup"]["ms"]
    return float(handed_over(prompt)) / (milliseconds / 1000) / GIB


def times(before: float, after: float) -> float:
    change = Change("", "", Quantity(before, NONE), Quantity(after, NONE))
    return change.ratio


def reduction() -> float:
    setup = FIGURES["beluga-ttft"]["setup"]
    change = Change("prefill.ttft", "", Quantity(setup["before_s"], TIME),
                    Quantity(setup["after_s"], TIME))  # fmt: skip
    return 100 * (1 - change.ratio)


ANSWERS: Mapping[str, Callable[[], Fraction | float]] = {
    **{f"mooncake-pd-size-{p}": lambda p=p: handed_over(p) for p in PROMPTS},  # type: ignore[misc]
    **{f"mooncake-pd-bw-{p}": lambda p=p: rate(p) for p in PROMPTS},  # type: ignore[misc]
    "mooncake-te-40gb": lambda: POOLS.number("mooncake_te", "kv.bytes_per_request") / GIB,
    "distserve-kv": lambda: sent("distserve") / GIB,
    "beluga-ttft": reduction,
    "beluga-qps": lambda: times(1.54, 11.32),
}


def printed(name: str) -> float:
    """The printed figure; of a size in words, in bytes."""
    said = FIGURES[name]["printed"]
    if not isinstance(said, str):
        return float(said)
    number, unit = said.split()
    return float(number) * {"MB": MIB, "GB": GIB}[unit]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_figure_that_can_be_reckoned_comes_out_as_printed(name: str) -> None:
    got, figure = float(ANSWERS[name]()), FIGURES[name]
    near = figure["tolerance"]
    allowed = near.get("abs", near.get("rel", 0) * abs(printed(name)))
    assert abs(got - printed(name)) <= allowed, f"{got} for {figure['printed']}"


def test_sizes_are_whole_pages_to_the_byte() -> None:
    for prompt in PROMPTS:
        assert handed_over(prompt) == FIGURES[f"mooncake-pd-size-{prompt}"]["computed"]


def test_every_figure_of_the_topic_is_reckoned_or_quoted_with_its_system() -> None:
    own = {name for name in FIGURES if name.startswith(TOPIC)}
    measured = {name for name in own if FIGURES[name]["kind"] == "measured"}
    assert own - measured == ANSWERS.keys()
    quoted = {name for system in SYSTEMS for name in (*system.reckoned, *system.quoted)}
    assert sorted(own - quoted) == []
    assert sorted(n for n in quoted if n not in FIGURES) == []


def test_distserve_needs_ninety_gigabits_for_ten_requests_a_second() -> None:
    """Zhong et al., DistServe, section 3.3: 1.13 GB at 10 requests a second ask 90 Gbit/s (their GB
    are GiB: 96.6 Gbit/s)."""
    plan = POOLS.plan("distserve_rate")
    asked = float(plan.value("transfer.rate").value) * 8 / 1e9
    assert asked == pytest.approx(10 * 1.125 * GIB * 8 / 1e9)
    assert asked == pytest.approx(90, rel=0.08)


PIECES = ((64, 97), (128, 191), (256, 325), (512, 358), (1024, 353))
"""KiB of a piece, and GB/s between two p5en (Mooncake, efa_transport.md @3b5a5941)."""


@pytest.mark.parametrize(("kib", "measured"), PIECES)
def test_small_pieces_cap_the_rate_as_measured(kib: int, measured: int) -> None:
    plan = POOLS.plan("pieces", transfer__piece=f"{kib} KiB", transfer__setup="0 s")
    carried = float(sent("pieces")) / float(plan.value("transfer.whole").value) / 1e9
    assert carried == pytest.approx(measured, rel=0.13)


def test_a_long_prompt_takes_the_time_of_the_fitted_transfer() -> None:
    """1.83 ms and 85.5 % of 200 GB/s, fitted over nine rows of SGLang's benchmark, 4 x RoCE 400."""
    plan = POOLS.plan("sglang")
    whole = float(plan.value("transfer.whole").value)
    size = float(plan.value("transfer.bytes").value)
    assert whole == pytest.approx(1.83e-3 + size / (200e9 * 0.855), rel=1e-6)


EXAMPLES = Path(__file__).resolve().parents[2] / "specs" / "examples"


@pytest.mark.parametrize("name", sorted({system.example for system in SYSTEMS}))
def test_the_example_of_a_system_is_planned_without_an_error_and_keeps_its_requirements(
    name: str,
) -> None:
    made = compile_text((EXAMPLES / name).read_text("utf-8"), name)
    assert made.plans
    for plan in made.plans:
        assert plan.unplanned == ""
        assert plan.flow is not None
        told = [f for f in plan.findings if f.severity is Severity.ERROR and f.waived is None]
        assert [f.diagnostic.headline for f in told] == []
        required = [r for r in plan.requirements if r.keyword == "require"]
        assert {r.status for r in required} <= {"holds"}


def test_splitzip_saves_at_most_a_quarter_of_the_bytes() -> None:
    """16 bits become 12 where nothing is kept aside; its transfers are 1.32 times shorter."""
    text = (EXAMPLES / "splitzip_llama_70b.kvspec").read_text("utf-8")
    plans = {plan.name: plan for plan in compile_text(text, "splitzip.kvspec").plans}
    plain, coded = (float(plans[n].value("transfer.bytes").value) for n in ("plain", "coded"))
    assert plain / coded == pytest.approx(1.32)
    assert plain / coded < 16 / 12
