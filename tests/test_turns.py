"""One pool that prefills and decodes, at ideal times: what prompts take is gone for tokens."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvdsl
from kvdsl.pipeline import compile_text
from kvdsl.plan import Plan

SPEC = """kvspec 1
device card {{ memory = 80 GB; bandwidth = 2000 GB/s; compute {{ bf16 = 400 TFLOP/s }} }}
node box {{ devices = 8 x card; scale_up {{ link = links.nvlink4 }} }}
model small {{
  hidden = 1000
  vocab  = 1000
  attention heads = gqa {{ query_heads = 10; kv_heads = 10; head_dim = 100 }}
  ffn mlp = plain {{ intermediate = 4000 }}
  stack {{ 10 x layer {{ heads; mlp }} }}
}}
deployment served {{
  model    = small
  weights  = formats.bf16
  kv       = formats.bf16
  on       = {devices} x card
  layout   {{ {layout} }}
  budget   {{ {budget} }}
  price    = 2 USD/h per device
  workload {{ {workload} }}
  {more}
}}
"""

# Prefill of 10,000 tok: attention 2 x 4e6 x 10 layers x 10,000 and feed-forward 2 x 8e6 x 10 x
# 10,000 FLOP at 400 TFLOP/s, 2 + 4 ms; 10 layers x 2 x 200 x 10 heads x 50,005,000 pairs, 5.0005
# ms; embedding and head read, 1 us each, norms 21 x 2,000 B.
TAIL = 2e-6 + 42_000 / 2e12
PROMPT = 2e-3 + 4e-3 + 10 * 2 * 200 * 10 * 50_005_000 / 400e12 + TAIL


def step(requests: int) -> float:
    """Weights of 240 MB and 40 kB of each of 10,008 tok, read at 2 TB/s."""
    return 240e6 / 2e12 + requests * 40_000 * 10_008 / 2e12 + TAIL


def text(
    workload: str,
    layout: str = "tp = 1",
    budget: str = "reserve = 1 GB",
    more: str = "",
    devices: int = 1,
) -> str:
    return SPEC.format(workload=workload, layout=layout, budget=budget, more=more, devices=devices)


def plan(workload: str, layout: str = "tp = 1", budget: str = "reserve = 1 GB") -> Plan:
    return compile_text(text(workload, layout, budget)).plan("served")


def numbers(found: Plan) -> dict[str, float]:
    return {name: float(term.value) for name, term in found.values.items()}


LONG = "prompt = 10_000 tok; output = 16 tok"


def test_a_token_waits_for_the_prompts_of_the_other_clients() -> None:
    found = numbers(plan(f"{LONG}; concurrency = 4 req"))
    assert found["prefill.ttft"] == pytest.approx(PROMPT)
    assert found["decode.prompts"] == pytest.approx(3 * PROMPT / 16)
    assert found["decode.tpot"] == pytest.approx(step(4) + 3 * PROMPT / 16)


def test_output_is_what_is_left_beside_all_prompts() -> None:
    # Every 4 requests the device computes 4 prompts and takes 16 steps of 4 tokens.
    found = numbers(plan(f"{LONG}; concurrency = 4 req"))
    output = 4 * 16 / (4 * PROMPT + 16 * step(4))
    assert found["decode.throughput"] == pytest.approx(output)
    assert found["cost.per_mtok"] == pytest.approx(2 / 3600 / output)


def test_a_client_alone_waits_for_nobody() -> None:
    found = numbers(plan(f"{LONG}; concurrency = 1 req"))
    assert found["decode.prompts"] == 0
    assert found["decode.tpot"] == pytest.approx(step(1))
    assert found["decode.throughput"] == pytest.approx(16 / (PROMPT + 16 * step(1)))


def test_of_a_rate_what_prompts_leave_of_the_time_decodes() -> None:
    found = numbers(plan(f"{LONG}; rate = 50 req/s"))
    alone = found["decode.tpot"] - found["decode.prompts"]
    assert found["decode.tpot"] == pytest.approx(alone / (1 - 50 * PROMPT))
    assert found["decode.throughput"] == pytest.approx(50 * 16)


def test_short_prompts_of_many_clients_are_computed_together() -> None:
    # 63 others with one token each: 63 prompts of 100 tok in a pass, whose work takes longer than
    # reading the weights; one by one each would read them.
    found = numbers(plan("prompt = 100 tok; output = 1 tok; concurrency = 64 req"))
    pairs = 10 * 2 * 200 * 10 * 63 * 5050 / 400e12
    together = 63 * 100 * 2 * 12e7 / 400e12 + pairs + TAIL
    assert found["decode.prompts"] == pytest.approx(together)
    assert found["prefill.throughput"] == pytest.approx(6300 / together)
    assert found["decode.throughput"] * 100 < found["prefill.throughput"]


def test_with_a_context_no_prompt_comes() -> None:
    found = numbers(plan("context = 10_008 tok; concurrency = 4 req"))
    assert "decode.prompts" not in found
    assert found["decode.tpot"] == pytest.approx(step(4))
    assert found["decode.throughput"] == pytest.approx(4 / step(4))


def test_who_finds_no_place_waits_as_long_as_places_are_kept() -> None:
    """Little's law over all clients, those that run and those that wait."""
    found = plan(f"{LONG}; concurrency = 100 req", budget="kv = 4 GB")
    value = numbers(found)
    assert value["kv.sequences"] == 9
    whole = value["prefill.ttft"] + 16 * value["decode.tpot"]
    assert value["decode.throughput"] / 16 * whole == pytest.approx(100)


@pytest.mark.parametrize("load", ["concurrency = 16 req", "rate = 3 req/s"])
def test_a_plan_says_what_prompts_take_of_a_step(load: str) -> None:
    found = plan(f"{LONG}; {load}")
    bar = next(s for s in found.steps if s.phase == "decode")
    parts = {s.label: float(s.quantity.value) for s in bar.segments}
    assert parts["prompts of others"] == pytest.approx(numbers(found)["decode.prompts"])
    assert sum(parts.values()) == pytest.approx(numbers(found)["decode.tpot"])


# --- rates ---------------------------------------------------------------------------------------


def told(rate: str, budget: str = "kv = 4 GB", output: int = 16) -> dict[str, str]:
    found = plan(f"prompt = 10_000 tok; output = {output} tok; rate = {rate} req/s", budget=budget)
    return {f.code: f.diagnostic.headline for f in found.findings}


@pytest.mark.parametrize(
    ("rate", "code", "headline"),
    [
        (
            "500", "KV203",
            "prompts arrive faster than they are prefilled: 500 req/s against 65.7 req/s at the "
            "most",
        ),
        (
            "90", "KV215",
            "requests arrive faster than they are served: 90 req/s against 65.7 req/s at the most",
        ),
    ],
)  # fmt: skip
def test_a_rate_that_prefill_and_decode_cannot_both_serve_is_refused(
    rate: str, code: str, headline: str
) -> None:
    # 9 requests fit. At 65.7 req/s prompts take 72.3 % of the time, so that 16 steps of 1.9235 ms
    # take 111.05 ms, a prompt 11 ms and waits 14.35 ms: 65.7 x 136.4 ms = 8.96 are in flight.
    assert told(rate)[code] == headline


@pytest.mark.parametrize("output", [1, 16, 500])
@pytest.mark.parametrize("engine", ["", "engine = engines.vllm_0_33; "])
def test_the_rate_that_is_told_is_served_and_no_higher_one(output: int, engine: str) -> None:
    def codes(rate: str) -> dict[str, str]:
        given_ = text(f"prompt = 10_000 tok; output = {output} tok; rate = {rate} req/s",
                      budget="kv = 4 GB", more=engine)  # fmt: skip
        return {
            f.code: f.diagnostic.headline
            for f in compile_text(given_).plan("served").findings
            if f.code in ("KV203", "KV215")
        }

    (headline,) = codes("10_000").values()
    most = re.search(r"against ([0-9.]+) req/s", headline)
    assert most is not None
    assert not codes(most[1])
    assert codes(f"{float(most[1]) * 1.02:.4f}")


@pytest.mark.parametrize("prompt", [40, 60, 100])
def test_a_low_rate_is_told_by_the_digits_that_are_shown(prompt: int) -> None:
    def codes(rate: str) -> dict[str, str]:
        found = compile_text(f"""kvspec 1
deployment slow {{
  model = models.llama_3_1_8b; weights = formats.bf16; kv = formats.bf16
  on = 1 x devices.l40s; engine = engines.vllm_0_33; layout {{ tp = 1 }}
  workload {{ prompt = {prompt} ktok; output = 500 tok; rate = {rate} req/s }}
}}
""").plan("slow")
        return {f.code: f.diagnostic.headline for f in found.findings
                if f.code in ("KV203", "KV215")}  # fmt: skip

    (headline,) = codes("0.2").values()
    most = re.search(r"against ([0-9.]+) req/s", headline)
    assert most is not None
    assert float(most[1]) < 0.1
    assert not codes(most[1])


def test_a_rate_is_refused_where_not_one_request_fits() -> None:
    load = "prompt = 100_000 tok; output = 2 tok; rate = 1 req/s"
    found = plan(load, budget="kv = 1 GB")
    assert found.values["kv.sequences"].value == 0
    codes = {f.code: f.diagnostic.headline for f in found.findings}
    assert codes["KV215"] == (
        "requests arrive faster than they are served: 1 req/s against 0 req/s at the most"
    )
    assert "KV202" not in codes


TWO = """kvspec 1
deployment served {
  model   = models.llama_3_1_70b
  weights = formats.fp8
  kv      = formats.bf16
  engine  = engines.vllm_0_33
  pool before { role = prefill; on = 1 x nodes.hgx_h100; layout { tp = 4; replicas = 2 } }
  pool after  { role = decode; on = 1 x nodes.hgx_h100; layout { tp = 8 }; budget { kv = 8 GB } }
  workload { prompt = 1 ktok; output = 1 ktok; rate = 12 req/s }
  require prefill.ttft < 2 s
}
"""
ENDLESS = (
    "requests arrive faster than they are served, so that the wait for a first token has no end"
)


@pytest.mark.parametrize(
    "spec",
    [
        TWO,
        text(f"{LONG}; rate = 90 req/s", budget="kv = 4 GB", more="require prefill.ttft < 2 s"),
        text(f"{LONG}; rate = 500 req/s", budget="kv = 4 GB", more="require prefill.ttft < 2 s"),
        text(f"{LONG}; rate = 90 req/s", budget="kv = 4 GB",
             more="engine = engines.vllm_0_33; require prefill.ttft < 2 s"),
    ],
    ids=["pools", "places", "prefill", "engine"],
)  # fmt: skip
def test_a_rate_that_is_not_served_has_no_first_token_and_keeps_no_requirement_on_it(
    spec: str,
) -> None:
    found = compile_text(spec).plan("served")
    assert "prefill.ttft" not in found.values
    (result,) = found.requirements
    assert result.status == "unanswered"
    (told,) = (f.diagnostic for f in found.findings if f.code == "KV912")
    assert told.headline == (
        "prefill.ttft is not answered by this plan, so prefill.ttft < 2 s was not judged"
    )
    assert told.severity.value == "error"
    assert ENDLESS in str(told)


def test_nor_has_it_one_among_many_loads() -> None:
    loads = kvdsl.bulk(TWO)[0].serve([1000] * 2, [1000] * 2, rate=[2, 12])
    assert loads.fits is not None
    assert list(loads.fits) == [True, False]
    assert [value < float("inf") for value in loads.values["prefill.ttft"]] == [True, False]


# --- laws ----------------------------------------------------------------------------------------

LAYOUTS = ("tp = 1", "tp = 2", "pp = 2; tp = 1", "tp = 1; replicas = 2",
           "attention { dp = 2 }; ffn { tp = 2 }; vocab { tp = 2 }")  # fmt: skip
few = settings(max_examples=40, deadline=None)


def loaded(layout: str, prompt: int, output: int, load: str) -> dict[str, float]:
    devices = 1 if layout == "tp = 1" else 2
    given_ = text(f"prompt = {prompt} tok; output = {output} tok; {load}", layout)
    on = "on       = 1 x card" if devices == 1 else "on       = box.devices[0..1]"
    return numbers(compile_text(given_.replace("on       = 1 x card", on)).plan("served"))


@few
@given(st.sampled_from(LAYOUTS), st.integers(1, 20_000), st.integers(1, 300), st.integers(1, 90))
def test_no_device_does_more_than_there_is_time_for(
    layout: str, prompt: int, output: int, clients: int
) -> None:
    found = loaded(layout, prompt, output, f"concurrency = {clients} req")
    alone = found["decode.tpot"] - found["decode.prompts"]
    served = min(clients, found["kv.sequences"])
    arriving = found["decode.throughput"] / output
    assert arriving * prompt <= found["prefill.throughput"] * (1 + 1e-9)
    assert found["decode.throughput"] <= served / alone * (1 + 1e-9)
    # The parts of its time in which the device does one and the other.
    busy = arriving * prompt / found["prefill.throughput"]
    busy += found["decode.throughput"] * alone / served
    assert busy <= 1 + 1e-9


@few
@given(st.sampled_from(LAYOUTS), st.integers(1, 20_000), st.integers(1, 300), st.integers(1, 90))
def test_a_token_takes_no_less_time_among_more_clients(
    layout: str, prompt: int, output: int, clients: int
) -> None:
    before = loaded(layout, prompt, output, f"concurrency = {clients} req")
    after = loaded(layout, prompt, output, f"concurrency = {clients + 1} req")
    for name in ("decode.tpot", "decode.prompts"):
        assert after[name] >= before[name] * (1 - 1e-12)
    assert after["decode.throughput"] >= 0


TIMES = ("decode.tpot", "decode.prompts", "prefill.ttft")


@pytest.mark.parametrize("load", ["concurrency = 24 req", "rate = 15 req/s"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bandwidth = 2000 GB/s", "bandwidth = 2600 GB/s"),
        ("bf16 = 400 TFLOP/s", "bf16 = 900 TFLOP/s"),
        ("output = 16 tok;", "output = 16 tok; prefix_hits = 40 %;"),
        ("kv       = formats.bf16", "kv       = formats.fp8"),
    ],
)
def test_more_of_a_resource_or_less_to_do_never_raises_a_time(
    load: str, before: str, after: str
) -> None:
    given_ = text(f"{LONG}; {load}")
    assert before in given_
    old = numbers(compile_text(given_).plan("served"))
    new = numbers(compile_text(given_.replace(before, after)).plan("served"))
    assert all(new[name] <= old[name] * (1 + 1e-12) for name in TIMES)
    assert new["decode.throughput"] >= old["decode.throughput"] * (1 - 1e-12)


@pytest.mark.parametrize("engine", ["", "engine = engines.vllm_0_33"])
def test_a_prompt_that_is_found_whole_still_takes_its_last_token(engine: str) -> None:
    given_ = text(f"{LONG}; concurrency = 4 req; prefix_hits = 100 %", more=engine)
    found = numbers(compile_text(given_).plan("served"))
    assert found["prefill.throughput"] > 0
    assert found["decode.tpot"] > found["decode.prompts"] > 0
    if engine:
        (bulk,) = kvdsl.bulk(given_)
        loads = bulk.serve(prompt=[10_000], output=[16], concurrency=[4])
        assert loads.values["decode.tpot"][0] == pytest.approx(found["decode.tpot"])


def test_past_the_highest_rate_times_stay_those_of_a_full_cache() -> None:
    """What finds no place does not decode: more arrivals change neither a token nor the output."""
    text = SPEC.format(
        devices=1, layout="tp = 1", budget="kv = 4 GB",
        workload="prompt = 2_000 tok; output = 100 tok; rate = {rate} req/s", more="",
    )  # fmt: skip
    plans = [compile_text(text.replace("{rate}", str(r))).plan("served") for r in (500, 900, 9000)]
    assert all(f.code in ("KV203", "KV215") for p in plans for f in p.findings if f.diagnostic
               .severity.value == "error")  # fmt: skip
    for name in ("decode.tpot", "decode.throughput"):
        first, *more = (float(plan.value(name).value) for plan in plans)
        assert more == pytest.approx([first, first])
