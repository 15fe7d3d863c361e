"""Figures that stand side by side agree: rows add up to the total that is shown, a head that is
tied is read, pools say which GPUs they count, and what stands in for something is named."""

from __future__ import annotations

from functools import cache

import pytest

from kvdsl.comparison import Candidate, compare
from kvdsl.diagnostics import Diagnostic
from kvdsl.pipeline import compile_text
from kvdsl.plan import Comparison, Plan
from kvdsl.units import BYTES, Quantity

SPEC = """\
kvspec 1

model untied extends models.gemma_3_1b { tied_embeddings = false }

model mixture {
  hidden      = 4096
  vocab       = 32_000
  max_context = 32 ktok
  attention full = gqa { query_heads = 32; kv_heads = 8; head_dim = 128 }
  ffn sparse     = moe { experts = 8; active = 2; intermediate = 14_336 }
  stack { 32 x layer { full; sparse } }
}

deployment small {
  model    = models.gemma_3_1b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.l40s_x8
  layout   { tp = 1; replicas = 8 }
  budget   { reserve = 3 GB }
  workload { prompt = 100 tok; output = 200 tok; concurrency = 8 req }
}
deployment small_fitted  extends small { engine = engines.vllm_0_33 }
deployment small_stages  extends small_fitted { layout = { pp = 2; replicas = 4 } }
deployment untied_fitted extends small_fitted { model = untied }
deployment untied_stages extends small_stages { model = untied }

deployment one_request {
  model    = mixture
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   { tp = 4; replicas = 2 }
  budget   { reserve = 3 GB }
  workload { prompt = 2 ktok; output = 200 tok; concurrency = 1 req }
}
deployment many_requests extends one_request { workload { concurrency = 512 req } }

deployment stages extends one_request {
  engine   = engines.vllm_0_33
  layout   = { tp = 2; pp = 4 }
  workload { concurrency = 64 req }
}
deployment ranks extends stages { layout = { attention { dp = 8 }; experts { ep = 8 } } }
deployment gathered extends stages { layout = { tp = 8; experts { ep = 8 } } }
deployment drafted extends stages {
  draft { method = ngram; tokens = 3; acceptance = 60 % }
  layout = { tp = 8 }
}
deployment ideal_stages extends stages { time = ideal }

cluster three { nodes = 3 x nodes.hgx_h200; fabric = links.infiniband_ndr }
deployment pools {
  model    = models.deepseek_v3
  weights  = recipes.deepseek_v3_fp8
  kv       = recipes.fp8_ds_mla
  engine   = engines.vllm_0_33
  budget   { reserve = 4 GB }
  workload { prompt = 4 ktok; output = 1 ktok; rate = 2 req/s }
  pool prefill { on = three.nodes[0];    layout { attention { dp = 8 };  experts { ep = 8 } } }
  pool decode  { on = three.nodes[1..2]; layout { attention { dp = 16 }; experts { ep = 16 } } }
  transfer { over = links.infiniband_ndr }
}
"""


@cache
def plan(name: str) -> Plan:
    return compile_text(SPEC, only=name).plan(name)


def number(name: str, value: str) -> float:
    return float(plan(name).values[value].value)


# --- heads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tied", "twin"), [("small_fitted", "untied_fitted"), ("small_stages", "untied_stages")]
)
def test_a_tied_head_is_read_as_one_of_its_own_is(tied: str, twin: str) -> None:
    head = "decode.weight_read.head"
    assert number(tied, head) > 0
    assert number(tied, head) == pytest.approx(number(twin, head))
    assert number(tied, "decode.tpot") == pytest.approx(number(twin, "decode.tpot"), rel=1e-6)


def test_a_tied_table_is_stored_once_and_read_once() -> None:
    table = 262_144 * 1152 * 2
    more = number("untied_fitted", "memory.weights") - number("small_fitted", "memory.weights")
    assert more == pytest.approx(table, rel=0.01)
    assert "decode.weight_read.head" in plan("small").values
    read = number("small", "decode.weight_read") * 864e9
    assert read == pytest.approx(number("small", "memory.weights"), rel=1e-3)


# --- ideal times ---------------------------------------------------------------------------------


def test_ideal_times_read_the_experts_that_tokens_hit() -> None:
    experts = "decode.weight_read.routed_experts"
    few, many = number("one_request", experts), number("many_requests", experts)
    assert few == pytest.approx(many * 2 / 8, rel=1e-6)


def test_times_of_two_kinds_are_not_ranked() -> None:
    names = ("small", "small_fitted")
    made = compare(
        [
            Candidate(n, "", dict(plan(n).values), (), fits=True, main=False, times=plan(n).times)
            for n in names
        ]
    )
    assert made is not None
    assert [c.times for c in made.columns] == ["ideal", "fitted"]
    assert "decode.tpot" not in made.best
    assert made.best["kv.tokens"] == (0,)
    assert made.flips == (
        "Times of several kinds are not ranked: those of small ideal and those of small_fitted "
        "fitted."
    )


def test_times_of_unlike_loads_are_not_ranked() -> None:
    def beside(*loads: dict[str, str]) -> Comparison:
        values = dict(plan("small").values)
        made = compare(
            [Candidate(f"c{n}", "", values, (), fits=True, main=False, asked=asked)
             for n, asked in enumerate(loads)]
        )  # fmt: skip
        assert made is not None
        return made

    flight, engine = "workload.concurrency", "engine"
    assert beside({flight: "8 req"}, {flight: "8 req"}).unlike == ()
    served = beside({engine: ""}, {engine: "vLLM 0.33.0"})
    assert served.unlike == ((engine, engine, ("", "vLLM 0.33.0")),)
    assert "Loads differ" not in served.flips
    many = beside(*({flight: f"{n} req"} for n in range(1, 7)))
    assert many.flips == (
        "Loads differ (in flight: 1 req, 2 req, 3 req, 4 req and 2 more): times, throughput and "
        "their cost are not ranked."
    )
    assert "decode.tpot" not in many.best
    assert "kv.sequences" in many.best
    long = beside({"workload.prompt": "1 tok", engine: "a"}, {"workload.prompt": "2 tok"})
    assert [name for name, _, _ in long.unlike] == ["workload.prompt", engine]
    assert "kv.sequences" not in long.best


# --- rows and totals -----------------------------------------------------------------------------

LAID_OUT = (
    "small", "small_fitted", "small_stages", "one_request", "stages", "ranks", "gathered",
    "drafted", "ideal_stages", "pools",
)  # fmt: skip


@pytest.mark.parametrize("name", LAID_OUT)
def test_the_rows_of_a_step_add_up_to_the_time_of_its_tokens(name: str) -> None:
    assert plan(name).steps
    for step in plan(name).steps:
        rows = sum(float(segment.quantity.value) for segment in step.segments)
        assert rows == pytest.approx(float(step.whole.value), rel=1e-9)
        if step.phase == "decode":
            yielded = 1 + 0.6 + 0.6**2 + 0.6**3 if name == "drafted" else 1
            assert rows == pytest.approx(number(name, "decode.tpot") * yielded, rel=1e-9)


def test_waiting_for_the_slowest_stage_has_a_row() -> None:
    decode = next(s for s in plan("stages").steps if s.phase == "decode")
    assert "waiting for the slowest stage" in [segment.label for segment in decode.segments]


def test_a_step_with_drafts_says_how_many_tokens_it_yields() -> None:
    decode = next(s for s in plan("drafted").steps if s.phase == "decode")
    assert decode.title == "one decode step, which yields 2.18 tok of a request"


def test_rates_of_prefill_that_differ_say_why() -> None:
    prefill = next(s for s in plan("ranks").steps if s.phase == "prefill")
    assert "prefill.throughput is" in prefill.roofline
    assert "tokens a DP rank that this load fills" in prefill.roofline


# --- what is named -------------------------------------------------------------------------------


def test_a_layout_says_its_tp_beside_a_block_of_experts() -> None:
    assert plan("gathered").layout == "tp = 8; experts { ep = 8 }"
    assert plan("ranks").layout == "attention { dp = 8 }; experts { ep = 8 }"


def test_memory_of_pools_is_of_the_fullest_device_of_any() -> None:
    each = [number("pools", f"pools.{pool}.memory.weights") for pool in ("prefill", "decode")]
    assert each[0] > each[1]
    assert number("pools", "memory.weights") == each[0]
    least = min(number("pools", f"pools.{pool}.memory.kv") for pool in ("prefill", "decode"))
    assert number("pools", "memory.kv") == least
    assert "on the 16 of 24 GPUs that decode" in plan("pools").verdict.sentence


@pytest.mark.parametrize(
    ("word", "algorithm"),
    [
        ("deepep_high_throughput", "normal dispatch"),
        ("deepep_low_latency", "low latency dispatch"),
        ("deepep", "low latency dispatch"),
    ],
)
def test_an_engines_own_word_for_a_backend_is_that_of_the_library(
    word: str, algorithm: str
) -> None:
    made = with_backend(word)
    assert algorithm in {row.algorithm for row in made.collectives if row.phase == "decode"}
    assert "KV125" not in {finding.code for finding in made.findings}


def test_a_backend_that_no_library_has_is_told() -> None:
    found = [f for f in with_backend("nixl_ep").findings if f.code == "KV125"]
    assert len(found) == 1
    assert "nixl_ep are priced as pairwise" in found[0].diagnostic.headline


def test_a_word_that_is_no_backend_is_refused() -> None:
    found = compile_text(backend_spec("banana"), only="sent").report.diagnostics
    told = [d for d in found if d.code == "KV045"]
    assert [d.headline for d in told] == ["`all_to_all` cannot be `banana`"]


def backend_spec(word: str) -> str:
    return (
        SPEC
        + f"engine own extends engines.vllm_0_33 {{ all_to_all = {word} }}\n"
        + "deployment sent extends ranks { engine = own }\n"
    )


@cache
def with_backend(word: str) -> Plan:
    return compile_text(backend_spec(word), only="sent").plan("sent")


def test_explained_collectives_are_in_the_plural_once() -> None:
    total = plan("stages").values["decode.collectives"]
    labels = [inner.label for term in total.inputs for inner in (term, *term.inputs)]
    assert any(label.startswith("all-reduces of ") for label in labels)
    assert not any("ss in stage" in label or "ns in stage" in label for label in labels)


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_wider_ends_take_is_told_of_one_copy(replicas: int) -> None:
    text = f"{SPEC}deployment narrow extends small {{ weights = formats.fp8; layout = "
    text += f"{{ tp = 1; replicas = {replicas} }} }}\n"
    (told,) = [
        f for f in compile_text(text, only="narrow").plan("narrow").findings if f.code == "KV144"
    ]
    assert told.quantities == (("more a copy", Quantity(262_144 * 1152, BYTES)),)
    assert told.diagnostic.notes[0].startswith("in bf16 one copy of them takes 302 MB more: ")


def of_given_cache(code: str, unit: str) -> Diagnostic:
    """What is told of a cache that is given outright, on a card of our own."""
    text = f"{SPEC}device card extends devices.l40s {{ memory = 48 GiB }}\n"
    text += "deployment given extends small { weights = formats.fp8; on = 1 x card; "
    text += f"layout = {{ tp = 1 }}; budget = {{ kv = 4 {unit} }} }}\n"
    plan = compile_text(text, only="given").plan("given")
    (told,) = [f for f in plan.findings if f.code == code]
    return told.diagnostic


def test_wider_ends_beside_a_given_cache_take_nothing_of_it() -> None:
    assert of_given_cache("KV144", "GiB").notes == ("in bf16 one copy of them takes 302 MB more",)


def test_a_given_cache_in_another_unit_is_a_part_of_the_memory() -> None:
    told = of_given_cache("KV140", "GB")
    assert told.primary.text == "one is a part of the other"
    assert told.notes == (
        "as written the cache holds 150,240 tok; with `kv` in the other unit it holds 161,319 tok",
    )
