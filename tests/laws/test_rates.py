"""Laws of rates: what requests that arrive at a rate wait for, and the highest rate served."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kvdsl
from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.queues import fewest, queue_wait
from kvdsl.costs.sustained import sustained
from kvdsl.planning.subjects import subject
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.sketches import planned

CATALOG = Catalog()
"""Read once for all tests here."""

SPEC = """kvspec 1

link wire {{ bandwidth = {link} GB/s; latency = {latency} us }}
device card {{
  memory = 192 GB; bandwidth = {bandwidth} GB/s
  compute {{ bf16 = {peak} TFLOP/s; fp8 = {peak2} TFLOP/s }}
}}
node box {{ devices = 8 x card; scale_up {{ link = wire; shape = switch }} }}
deployment run {{
  model = models.{model}
  on = 1 x box
  weights = formats.fp8
  kv = formats.fp8
  {engine}
  layout {{ {layout} }}
  budget {{ {budget} }}
  workload {{ prompt = {prompt} tok; output = {output} tok; rate = {rate} req/s }}
}}
"""
PLAIN = {
    "link": 450, "latency": 1, "bandwidth": 4800, "peak": 1000, "peak2": 2000,
    "model": "qwen3_30b_a3b", "engine": "engine = engines.vllm_0_33", "layout": "tp = 8",
    "budget": "reserve = 3 GB", "prompt": 1024, "output": 512, "rate": 1,
}  # fmt: skip
MODELS = ("glm_5_2", "llama_3_1_70b", "qwen3_30b_a3b", "qwen3_next_80b_a3b")
ENGINES = ("engines.vllm_0_33", "engines.sglang_0_5_23", "engines.tensorrt_llm_1_2")
IDEAL = ""
"""Without an engine times are those of bandwidths and peaks."""
LAYOUTS = ("tp = 8", "tp = 4; replicas = 2", "tp = 4; pp = 2",
           "attention { dp = 8 }; experts { ep = 8 }")  # fmt: skip
BETTER: tuple[dict[str, object], ...] = (
    {"bandwidth": 5600}, {"peak": 1500}, {"peak2": 5000}, {"link": 900}, {"latency": 0.1},
)  # fmt: skip
TIMES = ("decode.tpot", "prefill.ttft")
RATES = (0.5, 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 200)
LENGTHS = ((256, 64), (1024, 512), (8192, 256))


def spec(**changes: object) -> str:
    return SPEC.format(**{**PLAIN, **changes})


@cache
def estimated(text: str) -> Estimate:
    deployment, found = Resolver(load_text(text, catalog=CATALOG)).deployment("run")
    assert deployment is not None, [d.headline for d in found]
    made, _ = subject(deployment, deployment.pools[""])
    assert made is not None
    return estimate(made)


def times(text: str) -> dict[str, float]:
    """Infinite where there is none: a queue that only grows."""
    values = estimated(text).values
    return {n: float(values[n].value) if n in values else float("inf") for n in TIMES}


@cache
def served(text: str) -> dict[str, Any]:
    """Times by length and rate, all at once."""
    loads = [(*lengths, rate) for lengths in LENGTHS for rate in RATES]
    prompts, outputs, rates = zip(*loads, strict=True)
    found = kvdsl.bulk(text)[0].serve(prompts, outputs, rate=rates).values
    return {name: found[name].reshape(len(LENGTHS), len(RATES)) for name in TIMES}


# --- the wait ------------------------------------------------------------------------------------

positive = st.floats(1e-4, 1e3)
share = st.floats(0, 1)


@given(positive, share, st.floats(0, 1.2), share, share, share)
def test_a_wait_falls_with_each_of_its_causes(
    alone: float, part: float, busy: float, rate: float, less: float, quicker: float
) -> None:
    many = alone * part
    arrivals = busy / (many or alone)
    wait = queue_wait(arrivals=arrivals, alone=alone, many=many)
    assert wait >= 0
    shorter = many * less
    quick = shorter + (alone - shorter) * quicker
    for other in (
        queue_wait(arrivals=arrivals * rate, alone=alone, many=many),
        queue_wait(arrivals=arrivals, alone=alone, many=shorter),
        queue_wait(arrivals=arrivals, alone=min(alone, quick), many=shorter),
    ):
        assert other <= wait * (1 + 1e-9) + 1e-9 * alone


@pytest.mark.parametrize("many", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("busy", [0.1, 0.5, 0.9])
def test_a_wait_in_shared_passes_is_what_a_queue_of_them_gives(many: float, busy: float) -> None:
    """A server that takes all that wait into one pass of D + d for each further prompt."""
    alone, arrivals, count = 1.0, busy / many, 100_000
    come = np.cumsum(np.random.default_rng(1).exponential(1 / arrivals, count))
    now, at, waited = 0.0, 0, 0.0
    while at < count:
        now = max(now, float(come[at]))
        after = int(np.searchsorted(come, now, "right"))
        now += alone + (after - at - 1) * many
        waited += float((now - come[at:after]).sum())
        at = after
    found = queue_wait(arrivals=arrivals, alone=alone, many=many) + alone
    assert found == pytest.approx(waited / count, rel=0.12)


def test_prompts_that_gain_nothing_together_wait_one_by_one() -> None:
    assert queue_wait(arrivals=50, alone=0.01, many=0.01) == pytest.approx(0.005)  # M/D/1
    assert queue_wait(arrivals=100, alone=0.01, many=0.01) == float("inf")
    assert queue_wait(arrivals=100, alone=0.01, many=0.001) < 0.02


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.data())
def test_who_needs_less_is_never_more_in_flight(needs: list[int], data: st.DataObject) -> None:
    """Whatever the shape: `needed` need not grow with the count."""
    less = [data.draw(st.integers(0, need)) for need in needs]
    limit = len(needs)
    more = fewest(limit, lambda count: needs[count - 1])
    assert fewest(limit, lambda count: less[count - 1]) <= max(more, limit)
    if more <= limit:
        assert fewest(limit, lambda count: less[count - 1]) <= more


# --- at a rate -----------------------------------------------------------------------------------


def never_rises(before: Any, after: Any) -> bool:
    return bool((after <= before * (1 + 1e-12)).all())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", ENGINES)
def test_at_a_rate_more_of_a_resource_never_raises_a_time(model: str, engine: str) -> None:
    """Fewer are in flight then, so fewer prompts would share a chunk: they still wait no longer."""
    layout = LAYOUTS[(MODELS.index(model) + ENGINES.index(engine)) % len(LAYOUTS)]
    old = served(spec(model=model, engine=f"engine = {engine}", layout=layout))
    for better in BETTER:
        new = served(spec(model=model, engine=f"engine = {engine}", layout=layout, **better))
        for name in TIMES:
            assert never_rises(old[name], new[name]), (layout, better, name)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_higher_rate_never_lowers_a_time(model: str, layout: str) -> None:
    found = served(spec(model=model, layout=layout))
    for name in TIMES:
        for before, after in pairwise(found[name].T):
            assert never_rises(after, before), name


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([IDEAL, *(f"engine = {engine}" for engine in ENGINES)]),
    st.sampled_from(LAYOUTS),
    st.integers(1, 12_000),
    st.integers(1, 600),
    st.floats(0.01, 3000),
    st.sampled_from(BETTER),
)
@example(IDEAL, "tp = 8", 16, 1, 3000.0, {"bandwidth": 9600})
@example(IDEAL, "tp = 8", 64, 4, 700.0, {"bandwidth": 5600})
def test_a_plan_of_a_rate_never_gains_a_time(
    engine: str, layout: str, prompt: int, output: int, rate: float, better: dict[str, object]
) -> None:
    load: dict[str, object] = {"engine": engine, "layout": layout, "prompt": prompt,
                               "output": output, "rate": f"{rate:.3g}"}  # fmt: skip
    plain = times(spec(**load))
    quicker = times(spec(**{**load, **better}))
    fewer = times(spec(**{**load, "rate": f"{float(f'{rate:.3g}') * 0.8:.6g}"}))
    for name in TIMES:
        assert quicker[name] <= plain[name] * (1 + 1e-12), name
        assert fewer[name] <= plain[name] * (1 + 1e-12), name


# --- the highest rate ----------------------------------------------------------------------------


def highest(**changes: object) -> float:
    found = sustained(estimated(spec(**{**changes, "rate": "1e9"})))
    assert found is not None
    return found


@pytest.mark.parametrize("engine", [IDEAL, "engine = engines.vllm_0_33"])
@pytest.mark.parametrize("lengths", [(64, 4), (1024, 512), (8192, 16)])
def test_the_highest_rate_never_falls(engine: str, lengths: tuple[int, int]) -> None:
    load: dict[str, object] = {"engine": engine, "prompt": lengths[0], "output": lengths[1]}
    old = highest(**load)
    more: dict[str, object] = {"budget": "reserve = 1 GB"}
    for better in (*BETTER, more):
        assert highest(**load, **better) >= old, better


ERRORS = {"KV203", "KV215"}


@settings(max_examples=5, deadline=None)
@given(
    st.sampled_from([IDEAL, "engine = engines.vllm_0_33"]),
    st.sampled_from([*LAYOUTS, "tp = 2; replicas = 3"]),
    st.sampled_from(["kv = 1 GB", "kv = 3 GB", "kv = 20 GB"]),
    st.integers(1, 12_000),
    st.integers(1, 600),
)
def test_the_highest_rate_is_served_and_no_higher_one_in_a_plan_and_in_bulk(
    engine: str, layout: str, budget: str, prompt: int, output: int
) -> None:
    load: dict[str, object] = {"engine": engine, "layout": layout, "budget": budget,
                               "prompt": prompt, "output": output}  # fmt: skip
    if estimated(spec(**load)).values["kv.sequences"].value < 1:
        return
    most = highest(**load)
    rates = [most * 0.9, most, most * 1.02]
    texts = [spec(**load, rate=f"{rate:.10g}") for rate in rates]
    plans = [planned(load_text(text)).plans[0] for text in texts]
    fits = [not ERRORS & {f.code for f in plan.findings} for plan in plans]
    assert fits == [True, True, False]
    assert ["prefill.ttft" in plan.values for plan in plans] == fits
    if engine:
        bulk = kvdsl.bulk(texts[0])[0].serve([prompt] * 3, [output] * 3, rate=rates)
        assert bulk.fits is not None
        assert list(bulk.fits) == fits
        assert [bool(np.isfinite(t)) for t in bulk.values["prefill.ttft"]] == fits


@pytest.mark.parametrize("lengths", [(16, 1), (64, 4), (64, 64), (2048, 512)])
@pytest.mark.parametrize("model", ["llama_3_1_70b", "qwen3_30b_a3b"])
def test_a_rate_shares_passes_as_clients_do(model: str, lengths: tuple[int, int]) -> None:
    """Times are ideal: the highest rate is what as many clients as fit are served at."""
    load = {"model": model, "engine": IDEAL, "prompt": lengths[0], "output": lengths[1]}
    fits = int(estimated(spec(**load)).values["kv.sequences"].value)
    text = spec(**load).replace("rate = 1 req/s", f"concurrency = {fits} req")
    closed = float(estimated(text).values["decode.throughput"].value) / lengths[1]
    assert highest(**load) == pytest.approx(closed, rel=0.02)
