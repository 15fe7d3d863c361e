"""Laws of fitted times: what must hold whatever the constants are."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvdsl
from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.step import work_in_tiles
from kvdsl.formulas import Term
from kvdsl.planning.bulk import Loads, floors
from kvdsl.planning.subjects import subject
from kvdsl.project.catalog import Catalog
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver

CATALOG = Catalog()
"""Read once for all tests here."""

SPEC = """kvspec 1

link wire {{ bandwidth = {link} GB/s; latency = {latency} us }}
device card {{
  memory = 192 GB; bandwidth = {bandwidth} GB/s
  compute {{ bf16 = {peak} TFLOP/s; fp8 = {peak2} TFLOP/s }}
}}
node box {{ devices = 8 x card; scale_up {{ link = wire; shape = switch }} }}
engine own {{
  family = vllm; version = "1"
  pace {{
    launches {{ layer = 40 us; sparse = 20 us; unfused = 30 us; latent = 40 us; prefill = 3 }}
    reached {{ weights = 90 %; experts = 95 %; cache = 60 %; attention = 50 %; grouped = 30 % }}
    first {{ entry = 20 ms; steps = 2; queue = 0.2; crowd = 0.9; length = 0.3; full = 0.4 }}
    tpot {{ usual = 10 %; wide = 30 % }}
    ttft {{ usual = 30 %; wide = 100 % }}
  }}
}}
deployment run {{
  model = models.{model}
  on = 1 x box
  weights = formats.{weights}
  kv = formats.{kv}
  engine = own
  layout {{ {layout} }}
  workload {{ prompt = {prompt} tok; output = {output} tok; concurrency = {concurrency} req }}
}}
"""

PLAIN = {
    "link": 450, "latency": 1, "bandwidth": 4000, "peak": 1000, "peak2": 2000,
    "model": "llama_3_1_70b", "weights": "fp8", "kv": "bf16", "layout": "tp = 8",
    "prompt": 1024, "output": 512, "concurrency": 32,
}  # fmt: skip
LAYOUTS = ("tp = 8", "tp = 4", "attention { dp = 8 }; experts { ep = 8 }", "tp = 4; pp = 2")
MODELS = ("llama_3_1_70b", "qwen3_30b_a3b", "gpt_oss_20b", "qwen3_next_80b_a3b",
          "deepseek_v2_lite")  # fmt: skip
TIMES = ("decode.tpot", "prefill.ttft")


def spec(**changes: object) -> str:
    return SPEC.format(**{**PLAIN, **changes})


def terms(**changes: object) -> dict[str, Term]:
    """The values of the deployment's one pool."""
    return terms_of(spec(**changes))


def terms_of(text: str) -> dict[str, Term]:
    return dict(estimated(text).values)


def estimated(text: str) -> Estimate:
    deployment, found = Resolver(load_text(text, catalog=CATALOG)).deployment("run")
    assert deployment is not None, [d.headline for d in found]
    made, _ = subject(deployment, deployment.pools[""])
    assert made is not None
    return estimate(made)


def values(**changes: object) -> dict[str, float]:
    return {name: float(term.value) for name, term in terms(**changes).items()}


loads = st.lists(
    st.tuples(st.integers(1, 20_000), st.integers(2, 4_000), st.integers(1, 700)),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", ["llama_3_1_70b", "qwen3_30b_a3b"])
@settings(max_examples=4, deadline=None)
@given(found=loads)
def test_a_plan_and_many_loads_at_once_agree(
    layout: str, model: str, found: list[tuple[int, int, int]]
) -> None:
    one = kvdsl.bulk(spec(layout=layout, model=model))[0]
    served = one.serve(*zip(*found, strict=True)).values
    for number, (prompt, output, concurrency) in enumerate(found):
        plan = values(layout=layout, model=model, prompt=prompt, output=output,
                      concurrency=concurrency)  # fmt: skip
        for name in (*TIMES, "decode.throughput", "decode.tpot_low", "decode.tpot_high"):
            assert served[name][number] == pytest.approx(plan[name], rel=1e-9)


POOLS = """kvspec 1
deployment run {{
  model = models.llama_3_1_70b
  weights = formats.fp8
  kv = formats.fp8
  engine extends engines.vllm {{ version = "0.14" }}
  budget {{ reserve = 3 GB }}
  pool before {{ role = prefill; on = 1 x nodes.hgx_h100; layout {{ tp = 4; replicas = 2 }} }}
  {decode}
  workload {{ prompt = {prompt} tok; output = {output} tok; {load} }}
}}
"""
ONE = "pool after { role = decode; on = 1 x nodes.hgx_h100; layout { tp = 8 } }"
TWO = (
    "pool after { role = decode; share = 70 %; on = 1 x nodes.hgx_h100; layout { tp = 4; "
    "replicas = 2 } }\n  pool rest { role = decode; share = 30 %; on = 1 x nodes.hgx_h200; "
    "layout { tp = 8 } }"
)
ALONE = "pool after { on = 1 x nodes.hgx_h100; layout { tp = 8 } }"
NAMES = (*TIMES, "decode.throughput", "decode.tpot_low", "decode.tpot_high")


def planned(text: str) -> dict[str, float]:
    found = kvdsl.compile(text)
    plan = found.plan("run")
    return {name: float(plan.value(name).value) for name in NAMES}


@pytest.mark.parametrize("decode", [ONE, TWO])
@pytest.mark.parametrize(
    ("prompt", "output", "kind", "many"),
    [(1000, 2000, "concurrency", 48), (500, 1000, "concurrency", 16),
     (2000, 500, "rate", 1.5), (1000, 1000, "rate", 0.25)],
)  # fmt: skip
def test_a_plan_of_pools_and_many_loads_at_once_agree(
    decode: str, prompt: int, output: int, kind: str, many: float
) -> None:
    """Where prefill keeps up: what it holds back (KV177) is a plan's alone."""
    unit = "req" if kind == "concurrency" else "req/s"
    text = POOLS.format(decode=decode, prompt=prompt, output=output, load=f"{kind} = {many} {unit}")
    one = kvdsl.bulk(text)[0]
    if kind == "rate":
        served = one.serve([prompt], [output], rate=[many]).values
    else:
        served = one.serve([prompt], [output], [int(many)]).values
    plan = planned(text)
    for name in NAMES:
        assert served[name][0] == pytest.approx(plan[name], rel=1e-9), name


rates = st.lists(
    st.tuples(st.integers(64, 9_000), st.integers(2, 2_000), st.floats(0.01, 6)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=6, deadline=None)
@given(found=rates)
def test_a_rate_yields_what_arrives_in_a_plan_and_in_bulk(
    found: list[tuple[int, int, float]],
) -> None:
    served = kvdsl.bulk(spec())[0].serve(*zip(*[f[:2] for f in found], strict=True),
                                         rate=[round(f[2], 2) for f in found]).values  # fmt: skip
    for number, (prompt, output, many) in enumerate(found):
        load = f"rate = {round(many, 2)} req/s"
        plan = {
            name: float(term.value)
            for name, term in terms_of(
                spec(prompt=prompt, output=output).replace("concurrency = 32 req", load)
            ).items()
        }
        for name in ("decode.tpot", "decode.throughput"):
            assert served[name][number] == pytest.approx(plan[name], rel=1e-9)
        if "prefill.ttft" in plan:
            assert served["prefill.ttft"][number] == pytest.approx(plan["prefill.ttft"], rel=1e-9)
        assert plan["decode.throughput"] <= round(many, 2) * output * (1 + 1e-12)


@pytest.mark.parametrize("rate", [0.5, 2, 6, 20, 100, 1000])
def test_a_rate_fits_in_bulk_where_no_check_refuses_it(rate: float) -> None:
    """KV203 and KV215 are errors of a plan; so many loads have no place for them but `fits`."""
    for lengths in ((1024, 1024), (8192, 256)):
        text = spec(prompt=lengths[0], output=lengths[1])
        served = kvdsl.bulk(text)[0].serve(*([n] for n in lengths), rate=[rate])
        text = text.replace("concurrency = 32 req", f"rate = {rate} req/s")
        codes = {each.code for each in kvdsl.compile(text).report.diagnostics}
        assert served.fits is not None
        assert served.fits[0] == (not codes & {"KV203", "KV215"})


def test_a_deployment_without_pools_says_why_it_serves_nothing() -> None:
    one = kvdsl.bulk(spec().replace("engine = own", "time = ideal"))[0]
    served = one.serve([100], [10], [1])
    assert served.fits is None
    assert served.refusal == one.refusal != ""


def test_clients_who_wait_for_answers_fit_however_many() -> None:
    fits = kvdsl.bulk(spec())[0].serve([1024], [1024], [100_000]).fits
    assert fits is not None
    assert fits[0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"prompt": [0]}, "`prompt[0]` is 0, not a finite number above 0"),
        ({"prompt": [1.5]}, "`prompt[0]` is 1.5, not a whole number above 0"),
        ({"output": [0]}, "`output[0]` is 0, not a finite number above 0"),
        ({"output": [1, 2]}, "`output` has 2 and `prompt` 1: each load has one of each"),
        ({"concurrency": [0]}, "`concurrency[0]` is 0, not a finite number above 0"),
        ({"concurrency": [0.5]}, "`concurrency[0]` is 0.5, not a whole number above 0"),
        ({"concurrency": []}, "`concurrency` has 0 and `prompt` 1: each load has one of each"),
        ({"concurrency": None, "rate": [-1]}, "`rate[0]` is -1, not a finite number above 0"),
        ({"concurrency": None, "rate": [float("nan")]},
         "`rate[0]` is nan, not a finite number above 0"),
        ({"concurrency": None, "rate": [float("inf")]},
         "`rate[0]` is inf, not a finite number above 0"),
        ({"concurrency": None, "rate": 3}, "`rate` is no sequence of numbers"),
        ({"prompt": ["x"]}, "`prompt` is no sequence of numbers"),
        ({"concurrency": None}, "either `concurrency` or `rate` says what the load is"),
    ],
)  # fmt: skip
def test_a_load_that_is_none_is_named(given: dict[str, Any], told: str) -> None:
    one = kvdsl.bulk(spec())[0]
    with pytest.raises(ValueError, match=re.escape(told)):
        one.serve(**{"prompt": [64], "output": [8], "concurrency": [1], **given})


@pytest.mark.parametrize("time", ["fitted", "ideal"])
def test_output_is_what_arrives_and_costs_what_it_yields(time: str) -> None:
    text = spec().replace("concurrency = 32 req", "rate = 0.5 req/s")
    found = terms_of(text.replace("deployment run {", f"deployment run {{\n  time = {time}"))
    assert found["decode.throughput"].value == pytest.approx(0.5 * 512)


@pytest.mark.parametrize("time", ["fitted", "ideal"])
@pytest.mark.parametrize("decode", [ONE, TWO, ALONE])
def test_a_first_token_waits_for_a_place_in_a_full_cache(time: str, decode: str) -> None:
    def first(count: int) -> float:
        text = POOLS.format(
            decode=decode, prompt=8000, output=1000, load=f"concurrency = {count} req"
        )
        if decode is ALONE:
            text = "\n".join(line for line in text.splitlines() if "pool before" not in line)
        text = text.replace("deployment run {", f"deployment run {{\n  time = {time}")
        return float(kvdsl.compile(text).plan("run").value("prefill.ttft").value)

    few, more, most = first(400), first(2000), first(4000)
    assert few < more < most
    # Of closed loops each further client waits one more turn of its place.
    assert most - more == pytest.approx(2 * (more - first(1000)), rel=0.2)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        ({"bandwidth": 3000}, {"bandwidth": 6000}),
        ({"peak": 500}, {"peak": 1000}),
        ({"peak2": 1000}, {"peak2": 2000}),
        ({"link": 50}, {"link": 900}),
        ({"latency": 5}, {"latency": 1}),
        ({"kv": "bf16"}, {"kv": "fp8"}),
    ],
)
def test_more_of_a_resource_or_fewer_bytes_never_raise_a_time(
    model: str, slow: dict[str, object], fast: dict[str, object]
) -> None:
    for concurrency in (1, 64):
        before = values(model=model, concurrency=concurrency, **slow)
        after = values(model=model, concurrency=concurrency, **fast)
        for name in TIMES:
            assert after[name] <= before[name] * (1 + 1e-12)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_token_never_takes_less_time_among_more_requests(model: str, layout: str) -> None:
    one = kvdsl.bulk(spec(model=model, layout=layout))[0]
    counts = [*range(1, 40), 64, 100, 200, 400, 1000, 3000]
    for prompt, output in ((128, 1024), (1024, 1024), (8192, 256)):
        served = one.serve([prompt] * len(counts), [output] * len(counts), counts)
        tpot = list(served.values["decode.tpot"])
        assert all(b >= a * (1 - 1e-12) for a, b in pairwise(tpot))


@pytest.mark.parametrize("model", MODELS)
def test_no_step_is_shorter_than_its_bytes_at_full_bandwidth(model: str) -> None:
    one = kvdsl.bulk(spec(model=model))[0]
    counts = [1, 8, 64, 512]
    served = one.serve([1024] * 4, [1024] * 4, counts)
    from numpy import array

    least = floors(one.pools, Loads(array([1024.0] * 4), array([1024.0] * 4), array(counts, float)))
    assert (served.values["decode.tpot"] >= least).all()
    assert (served.values["decode.throughput"] <= array(counts) / least).all()


def test_the_parts_of_a_token_add_up() -> None:
    step = terms()["decode.tpot"]
    names = {term.label for term in step.leaves()}
    assert "launches layer" in names
    found = values()
    assert found["decode.tpot_low"] < found["decode.tpot"] < found["decode.tpot_high"]
    assert found["decode.launches"] == pytest.approx(80 * 40e-6)


def test_ideal_times_stand_beside_a_pace() -> None:
    text = spec().replace("deployment run {", "deployment run {\n  time = ideal")
    ideal = terms_of(text)
    assert "decode.launches" not in ideal
    assert ideal["decode.tpot"].value < values()["decode.tpot"]


def test_drafted_tokens_pay_while_few_requests_are_in_flight() -> None:
    draft = "deployment run {\n  draft { method = ngram; tokens = 3; acceptance = 80 % }"
    for concurrency in (1, 8):
        plain = spec(concurrency=concurrency)
        without = terms_of(plain)["decode.tpot"].value
        drafted = terms_of(plain.replace("deployment run {", draft))["decode.tpot"].value
        yielded = (1 - 0.8**4) / (1 - 0.8)  # Leviathan et al., arXiv 2211.17192
        assert without / yielded <= drafted < without


def test_a_rate_is_served_by_the_fewest_requests_that_keep_up() -> None:
    text = spec().replace("concurrency = 32 req", "rate = 4 req/s")
    found = estimated(text)
    request = found.number("prefill.ttft") + 512 * found.number("decode.tpot")
    assert found.load is not None
    flying = int(found.load.served.value)
    assert flying >= 4 * request > (flying - 1) * 0.98


def test_a_client_waits_for_no_prompt_of_its_own() -> None:
    """One client meets nobody's prompts; of a rate, what is in flight is met by chance, whole."""
    assert values(concurrency=1)["decode.prompts"] == 0
    two, three = (values(concurrency=n, prompt=8192)["decode.prompts"] for n in (2, 3))
    assert three == pytest.approx(2 * two, rel=0.01)
    arriving = terms_of(spec(prompt=8192).replace("concurrency = 32 req", "rate = 0.001 req/s"))
    assert arriving["decode.prompts"].value == pytest.approx(two, rel=0.01)


def test_hidden_vectors_are_moved_by_every_rank() -> None:
    """80 layers x 12 vectors x 8192 x 2 B x tokens, over 4 TB/s, whatever TP is."""
    moved = "pace {\n    vectors = 12"
    for layout in ("tp = 8", "tp = 4"):
        found = terms_of(spec(layout=layout).replace("pace {", moved))
        taken = 80 * 12 * 8192 * 2 * 32 / 4e12
        assert found["decode.vectors"].value == pytest.approx(taken)
        assert values(layout=layout)["decode.tpot"] < found["decode.tpot"].value


@pytest.mark.parametrize("output", [1, 16, 512])
def test_clients_get_no_more_than_their_whole_turns_allow(output: int) -> None:
    """Little's law over a request's whole stay, and no more prompts than are prefilled."""
    for concurrency in (1, 8, 64):
        found = values(prompt=4096, output=output, concurrency=concurrency)
        stay = found["prefill.ttft"] + output * found["decode.tpot"]
        assert found["decode.throughput"] == pytest.approx(concurrency * output / stay)


@pytest.mark.parametrize("layout", ["attention { dp = 8 }; experts { ep = 8 }", "tp = 8"])
def test_a_token_never_takes_less_time_from_one_client_to_the_next(layout: str) -> None:
    """Whether or not clients divide by DP ranks."""
    one = kvdsl.bulk(spec(layout=layout, model="qwen3_30b_a3b"))[0]
    counts = list(range(1, 90))
    tokens = one.serve([300] * 89, [10] * 89, counts).values["decode.tpot"]
    assert all(later >= earlier * (1 - 1e-12) for earlier, later in pairwise(tokens))


@pytest.mark.parametrize("time", ["ideal", "fitted"])
def test_clients_whose_rate_is_said_too_yield_no_more_than_arrives(time: str) -> None:
    text = spec().replace("concurrency = 32 req", "concurrency = 32 req; rate = 0.5 req/s")
    found = terms_of(text.replace("deployment run {", f"deployment run {{\n  time = {time}"))
    assert found["decode.throughput"].value == pytest.approx(0.5 * 512)


GROWN = "family = vllm; admission = prompt;"
"""An engine that gives pages as requests grow."""


@pytest.mark.parametrize("prompt", [512, 8192])
def test_requests_that_take_pages_as_they_grow_fill_the_cache_with_their_middles(
    prompt: int,
) -> None:
    """As many run as have room halfway through; an engine that keeps room for ends runs fewer."""
    text = spec(layout="tp = 2", prompt=prompt, output=4096, concurrency=9000)
    whole, grown = terms_of(text), terms_of(text.replace("family = vllm;", GROWN))
    fit, runs = whole["kv.sequences"].value, grown["kv.running"].value
    assert whole["kv.running"].value == fit
    assert grown["kv.sequences"].value == fit
    assert runs == grown["kv.tokens"].value // (prompt + 2048)
    for name in ("decode.tpot", "decode.throughput"):
        assert grown[name].value > whole[name].value
    assert grown["prefill.ttft"].value < whole["prefill.ttft"].value
    assert grown["memory.free"].value >= 0


def test_a_load_that_fits_whole_runs_alike_however_pages_are_given() -> None:
    text = spec(concurrency=16)
    grown = terms_of(text.replace("family = vllm;", GROWN))
    for name, term in terms_of(text).items():
        assert name == "kv.running" or grown[name].value == term.value, name


def test_requests_of_all_ages_take_whole_pages_in_each_replica() -> None:
    """A prompt of one token holds a page, whatever it grows to; replicas are counted apart."""
    one = spec(layout="tp = 1", model="llama_3_1_8b", prompt=1, output=15).replace(
        "family = vllm;", GROWN + " block = 16 tok;"
    )
    eight = one.replace("layout { tp = 1 }", "layout { tp = 1; replicas = 8 }")
    single, many = terms_of(one), terms_of(eight)
    assert single["kv.running"].value == single["kv.sequences"].value
    assert many["kv.running"].value == 8 * int(single["kv.running"].value)


def test_a_cache_of_states_runs_no_more_requests_than_it_has_states() -> None:
    text = spec(model="qwen3_next_80b_a3b", kv="fp8", prompt=200, output=1000).replace(
        "engine = own", "engine = engines.sglang_0_5_23"
    )
    found = terms_of(text)
    load = "context = 700 tok; concurrency = 32 req"
    halfway = terms_of(re.sub(r"prompt = 200 tok.*concurrency = 32 req", load, text))
    assert found["kv.running"].value == halfway["kv.sequences"].value


def test_a_prompt_alone_takes_no_longer_than_one_on_each_rank() -> None:
    """With DP attention the experts of all ranks work on it; with copies of everything nobody does,
    and it takes what it takes on one device."""
    shared = estimated(spec(layout=LAYOUTS[2], model="qwen3_30b_a3b", prompt=4096)).prefill
    assert shared is not None
    assert shared.service.value < shared.alone.value
    copies = "attention { dp = 4 }; ffn { dp = 4 }; vocab { dp = 4 }"
    apart, one = (
        estimated(spec(layout=layout, model="llama_3_1_8b", prompt=4096)).prefill
        for layout in (copies, "tp = 1")
    )
    assert apart is not None
    assert one is not None
    assert float(apart.service.value) == pytest.approx(float(one.service.value))


def test_a_pool_that_only_decodes_launches_at_its_own_pace() -> None:
    def launches(factor: str) -> float:
        own = f'engine own extends engines.vllm {{ version = "0.14"; pace {{ {factor} }} }}'
        text = POOLS.format(decode=ONE, prompt=1000, output=100, load="concurrency = 8 req")
        text = re.sub(r"engine extends [^}]*}", "engine = own", text).replace(
            "deployment run", f"{own}\ndeployment run"
        )
        return float(kvdsl.compile(text).plan("run").value("pools.after.decode.launches").value)

    usual = launches("launches { decode = 1 }")
    assert launches("launches { decode = 0.5 }") == pytest.approx(usual / 2)


def test_experts_multiply_whole_tiles() -> None:
    """A token on eight of 128 experts: nine rows each, one of them its own."""
    assert work_in_tiles(each=10, tokens=1, empty=8, experts=128, hit=8 / 128, drawn=8) == 90
    many = work_in_tiles(each=10, tokens=10_000, empty=8, experts=128, hit=1, drawn=8)
    assert many == pytest.approx(100_000, rel=0.02)
