"""The four answers at the top of a report: in a sentence each, from the plan's own figures."""

from __future__ import annotations

from functools import cache

import pytest

from kvdsl.pipeline import compile_text
from kvdsl.plan import Answer, Plan
from kvdsl.planning.charts import MOST_POINTS, in_flight

SPEC = """\
kvspec 1

layout tp16 {{ tp = 16 }}
cluster two {{ nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }}

deployment served {{
  model   = models.llama_3_1_405b
  weights = formats.{weights}
  kv      = formats.bf16
  on      = two
  layout  {{ {layout} }}
  budget   {{ utilization = 92 %; reserve = 3 GB }}
  workload {{ context = 8 ktok; concurrency = {requests} req }}
  {more}
}}
"""


@cache
def plan(
    layout: str = "tp = 8; pp = 2", weights: str = "fp8", requests: int = 128, more: str = ""
) -> Plan:
    text = SPEC.format(layout=layout, weights=weights, requests=requests, more=more)
    (made,) = compile_text(text, "served.kvspec").plans
    return made


def test_a_plan_names_its_engine_by_maker_and_version() -> None:
    assert plan().engine == ""
    assert plan(more="engine = engines.vllm_0_33").engine == "vLLM 0.33.0"
    own = SPEC.format(layout="tp = 8; pp = 2", weights="fp8", requests=128, more="engine = house")
    for house, said in (
        ('engines.sglang_0_5_23 { version = "0.5.24" }', "house (SGLang 0.5.24)"),
        ("engines.vllm {}", "house (vLLM, any version)"),
        ("engines.vllm_0_33 { family = fork }", "house (fork 0.33.0)"),
        ('engines.vllm_0_33 { family = fork; written = "Fork" }', "house (Fork 0.33.0)"),
        ('engines.vllm_0_33 { version = "0.33.1" }', "house (vLLM 0.33.1)"),
    ):
        (made,) = compile_text(f"{own}engine house extends {house}\n", "served.kvspec").plans
        assert made.engine == said


def test_pools_of_unlike_engines_say_whose_each_is() -> None:
    pools = """pool prefill { on = two.nodes[0]; layout { tp = 8 }; engine = engines.sglang_0_5_23 }
  pool decode { on = two.nodes[1]; layout { tp = 8 }; engine = engines.vllm_0_33 }"""
    text = SPEC.format(layout="", weights="fp8", requests=128, more=pools)
    text = text.replace("  on      = two\n", "").replace("  layout  {  }\n", "")
    (made,) = compile_text(text, "served.kvspec").plans
    assert made.engine == "prefill: SGLang 0.5.23 | decode: vLLM 0.33.0"


def answer(question: str, found: Plan) -> Answer:
    return next(a for a in found.answers if a.question.endswith(f"{question}?"))


def test_every_plan_answers_in_the_order_of_a_decision() -> None:
    assert [a.question for a in plan().answers] == [
        "Does it fit?", "Does it hold?", "What limits it?", "What would be better?",
    ]  # fmt: skip
    assert all(line.endswith(".") for a in plan().answers for line in a.lines)


def test_what_fits_says_how_much_stays_free() -> None:
    found = answer("fit", plan())
    assert found.mood == "good"
    assert found.lines == (
        "Yes: 61.4 GB of 73.6 GB taken on the fullest GPU (stage 1, h100_sxm); 12.2 GB stay free.",
    )


def test_requests_that_wait_are_told_first() -> None:
    found = answer("fit", plan(requests=400))
    assert found.mood == "warning"
    assert found.lines[0] == "Not all at once: 175 of 400 requests run, the others wait."


def test_what_does_not_fit_says_by_how_much_and_has_no_times() -> None:
    made = plan(weights="bf16", layout="tp = 8; replicas = 2")
    found = answer("fit", made)
    assert found.mood == "bad"
    assert found.lines[0].endswith("73.6 GB may be used; 30.86 GB too much.")
    assert [a.question for a in made.answers].count("What limits it?") == 0
    assert {tile.label for tile in made.tiles}.isdisjoint({"TTFT", "TPOT", "Cost"})


def test_the_closest_requirement_and_what_fails_are_named() -> None:
    held = answer("hold", plan(more="require kv.tokens >= 1.4 Mtok\n  require kv.copies == 1"))
    assert held.lines[0].startswith("Yes: both requirements hold, closest `kv.tokens >= 1.4 Mtok`")
    failed = answer("hold", plan(more="require kv.tokens >= 2 Mtok\n  require kv.copies == 1"))
    assert failed.mood == "bad"
    assert failed.lines[0].startswith("No, 1 of 2 requirements fails: `kv.tokens >= 2 Mtok` is ")
    nothing = answer("hold", plan())
    assert nothing.lines == ("The spec requires nothing.", "1 warning (KV144) stands.")


def test_what_takes_the_time_is_told_in_parts_of_the_whole() -> None:
    memory, token, prompt = answer("limits it", plan()).lines
    assert memory == "Not memory: 175 requests fit, 128 asked."
    assert token.startswith("A token, 29.27 ms: bound by memory (85 %: reading weights 52 %, ")
    assert prompt.endswith("then collectives and sends 38 %.")
    far = answer("limits it", plan(layout="tp = 16")).lines[1]
    assert "bound by communication (" in far


def test_another_layout_is_better_only_where_it_gains_and_says_what_it_costs() -> None:
    alone = answer("be better", plan())
    assert "`compare` in the spec" in alone.lines[0]
    beside = answer("be better", plan(more="compare tp16"))
    assert beside.lines[0].startswith("Nothing outright; tp16 (tp = 16): time to the first token ")
    assert "; but KV tokens 1,402,348 tok → 701,174 tok" in beside.lines[0]


@pytest.mark.parametrize(("fits", "asked"), [(175, 128), (15_360, 8_192), (5, 300), (0, 0)])
def test_a_chart_over_requests_has_the_workload_and_few_points(fits: int, asked: int) -> None:
    counts = in_flight(fits, asked)
    assert counts[0] == 1
    assert len(counts) <= MOST_POINTS + 1
    assert asked == 0 or asked in counts
    assert max(counts) >= min(max(fits, asked), 10**9)


@pytest.mark.parametrize(
    ("model", "held", "last"),
    [
        ("models.llama_3_1_8b", "8 ktok", 131_072),
        ("models.llama_3_1_8b", "200 ktok", 200_000),
        ("small", "100 tok", 1_000),
        ("endless", "8 ktok", 1_048_576),
    ],
)
def test_a_chart_over_lengths_ends_where_the_model_does(model: str, held: str, last: int) -> None:
    (plan,) = compile_text(
        "kvspec 1\n"
        "model small extends models.llama_3_1_8b { max_context = 1000 tok }\n"
        "model endless extends models.llama_3_1_8b { drop max_context }\n"
        f"deployment d {{ model = {model}; weights = formats.bf16; kv = formats.bf16\n"
        "  on = 1 x nodes.hgx_h100; layout { tp = 8 }; budget { reserve = 3 GB }\n"
        f"  workload {{ context = {held}; concurrency = 1 req }} }}\n"
    ).plans
    over = [chart for chart in plan.charts if chart.x_unit == "tok"]
    assert {chart.name for chart in over} == {"capacity", "time_over_context"}
    for chart in over:
        for line in chart.series:
            assert line.points[-1][0] == last
            assert len(line.points) > 2
        assert f"{last:,}" in chart.alternative_text
