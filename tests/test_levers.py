"""Levers: each is the deployment with one change, run like any plan, and says what it cannot do."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest

from kvdsl.pipeline import compile_text, levers_text
from kvdsl.planning.lever_studies import Asked, LeversOf
from kvdsl.planning.levers import Row

SPEC = """\
kvspec 1

deployment served {
  model    = models.llama_3_1_70b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   { tp = 4 }
  budget   { reserve = 3 GB }
  workload { context = 32 ktok; concurrency = 24 req }
}

deployment latent extends served {
  model  = models.deepseek_v2_lite
  layout { tp = 8; experts { ep = 8 } }
}

deployment past_heads extends served {
  on     = racks.gb200_nvl72.nodes[0..7]
  layout { tp = 8 }
}
"""


@cache
def study(name: str, more: str = "") -> LeversOf:
    (found,) = levers_text(SPEC + more, Asked((name,), ("fp8",), (Fraction(1, 2),))).found
    return found


def row(name: str, lever: str, more: str = "") -> Row:
    (found,) = (r for r in study(name, more).rows if r.lever.name == lever)
    return found


@pytest.mark.parametrize("lever", ["as it is", "TP x 2", "PP x 2", "cache in fp8",
                                   "50 % of tokens kept", "replicas x 2"])  # fmt: skip
def test_a_lever_gives_what_a_plan_of_what_it_writes_gives(lever: str) -> None:
    found = row("served", lever)
    written = found.lever.change
    text = written if found.lever.sort == "cache" else f"layout = {{ {written} }}"
    child = f"deployment child extends served {{ {text} }}\n"
    plan = compile_text(SPEC + child, only="child").plan("child")
    for name in ("kv.tokens", "kv.sequences", "decode.tpot", "cost.per_mtok", "gpus"):
        assert found.values[name].value == plan.value(name).value, name


def test_relief_is_the_cache_that_a_gpu_no_longer_holds_for_the_same_requests() -> None:
    assert row("served", "as it is").relief == 1
    for lever in ("TP x 2", "PP x 2", "replicas x 2", "cache in fp8", "50 % of tokens kept"):
        assert row("served", lever).relief == 2, lever
    assert row("served", "cache in fp8, 50 % of tokens kept").relief == 4


def test_more_tp_past_the_kv_heads_costs_gpus_and_relieves_nothing() -> None:
    found = row("past_heads", "TP x 2")
    assert found.relief == 1
    assert any("copies are kept" in text for text in found.cannot)


def test_dp_attention_relieves_a_latent_that_tp_copies() -> None:
    assert row("latent", "DP attention").relief == 8
    # KV heads that TP still divides are not copied, and there is nothing to relieve.
    assert row("served", "DP attention").relief == 1


def test_ranks_that_copy_a_cache_can_cut_the_sequence_instead() -> None:
    name = "sequence over the TP ranks"
    assert row("latent", name).relief == 8
    assert float(row("latent", name).values["kv.copies"].value) == 1
    assert all(r.lever.name != name for r in study("served").rows)  # 8 KV heads on 4 ranks


def test_what_needs_more_devices_than_there_are_says_how_many() -> None:
    found = row("served", "TP x 4")
    assert not found.fits
    assert found.lever.missing == "needs 16 devices, and 8 are here: widen `on`"


def test_no_cache_is_small_enough_where_weights_do_not_fit() -> None:
    more = "deployment large extends served { layout { tp = 1 } }\n"
    for lever in ("cache in fp8", "50 % of tokens kept"):
        found = row("large", lever, more)
        assert not found.fits
        assert any("no cache is small enough" in text for text in found.cannot)
    copies = row("large", "replicas x 2", more)
    assert any("with any number of copies" in text for text in copies.cannot)
    assert row("large", "TP x 4", more).fits


def test_a_requirement_that_fails_is_judged_for_every_lever() -> None:
    more = "deployment asked extends served { require kv.sequences >= 20 req }\n"
    assert row("asked", "as it is", more).failed == ("kv.sequences >= 20 req",)
    assert row("asked", "cache in fp8", more).failed == ()


def test_a_run_speaks_for_the_same_layout_format_and_lengths_alone() -> None:
    run = (
        "deployment run extends served { layout { tp = 8 }; measured { throughput = 500 tok/s } }\n"
    )
    found = row("served", "TP x 2", run)
    assert found.measured is not None
    assert found.cost is not None
    hourly = float(found.values["cost.per_hour"].value)
    assert float(found.cost.value) == pytest.approx(hourly / 500)
    assert row("served", "as it is", run).measured is None
    longer = run.replace("layout {", "workload { context = 8 ktok }; layout {")
    assert row("served", "TP x 2", longer).measured is None


def test_a_larger_device_is_paid_at_its_own_price() -> None:
    priced = "deployment priced extends served { price = 1 USD/h per device }\n"
    larger = next(r for r in study("priced", priced).rows if r.lever.name.startswith("larger"))
    assert float(larger.values["cost.per_hour"].value) * 3600 > 4 * 1.001


@pytest.mark.parametrize("share", [Fraction(1), Fraction(3, 4), Fraction(1, 4)])
def test_evicted_tokens_are_neither_held_nor_read(share: Fraction) -> None:
    text = f"deployment child extends served {{ keep = {float(share * 100):g} % }}\n"
    plan = compile_text(SPEC + text, only="child").plan("child")
    whole = compile_text(SPEC, only="served").plan("served")
    assert plan.value("kv.bytes_per_token").value == whole.value("kv.bytes_per_token").value
    ratio = Fraction(plan.value("kv.bytes_per_request").value) / Fraction(
        whole.value("kv.bytes_per_request").value
    )
    assert ratio == share
    gained = float(plan.value("kv.tokens").value) / float(whole.value("kv.tokens").value)
    assert gained == pytest.approx(float(1 / share), rel=1e-4)


def test_the_break_even_of_cache_and_attention_is_known_of_any_model() -> None:
    def asked(name: str) -> Fraction:
        plan = compile_text(SPEC, only=name).plan(name)
        return Fraction(plan.value("kv.break_even").value)

    # 80 layers of 2 x 8192 x (8192 + 1024) weights at two bytes, 327,680 B a token.
    assert asked("served") == Fraction(80 * 2 * 8192 * (8192 + 1024) * 2, 327_680)
    assert asked("latent") > 0


# --- at an engine's pages and pace ----------------------------------------------------------------

PACED = """\
kvspec 1

deployment whole {
  model    = models.gpt_oss_20b
  weights  = formats.bf16
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h100
  layout   { tp = 8 }
  budget   { reserve = 4 GB }
  workload { prompt = 8 ktok; output = 128 tok; concurrency = 8 req }
}
"""


@pytest.mark.parametrize("engine", ["vllm_0_33", "sglang_0_5_23"])
def test_evicted_tokens_free_an_engines_pages_and_are_not_read(engine: str) -> None:
    own = f"deployment one extends whole {{ engine = engines.{engine} }}\n"
    kept = "deployment quarter extends one { keep = 25 % }\n"
    made = compile_text(PACED + own + kept)
    one, quarter = made.plan("one"), made.plan("quarter")
    more = float(quarter.value("kv.sequences").value) / float(one.value("kv.sequences").value)
    assert 3.9 < more <= 4.01
    assert quarter.value("decode.kv_read").value < one.value("decode.kv_read").value
    assert quarter.value("kv.printed").value == one.value("kv.printed").value


def test_a_prompt_that_is_cut_over_ranks_is_cut_at_a_fitted_pace_too() -> None:
    alone = """
deployment straight extends whole {
  model    = models.llama_3_1_70b
  engine   = engines.vllm_0_33
  workload { prompt = 8 ktok; output = 128 tok; concurrency = 1 req }
}
deployment gathered extends straight {
  layout { attention { pcp = 4; tp = 2 }; ffn { tp = 8 }; vocab { tp = 8 } }
}
deployment ideal extends gathered { time = ideal }
deployment ring extends straight {
  layout { attention { pcp = 4; tp = 2; prompt = ring }; ffn { tp = 8 }; vocab { tp = 8 } }
}
"""
    made = compile_text(PACED + alone)
    first = {n: made.plan(n).value("prefill.ttft").value for n in ("ideal", "gathered", "ring")}
    # Were the prompt not cut, it would take four times as much; a ring hides what a gather shows.
    assert first["ideal"] < first["ring"] < first["gathered"] < 3 * first["ideal"]


REFUSED = """
deployment refused extends served {
  engine = engines.vllm_0_33
  limits { context = 32 ktok }
}
deployment blocks extends served {
  model   = models.qwen3_30b_a3b
  weights = fp8_blocks
  engine  = engines.vllm_0_33
  layout  { tp = 2 }
  limits  { context = 16 ktok }
  workload { context = 16 ktok; concurrency = 24 req }
}
recipe fp8_blocks {
  default   = formats.fp8_block128
  embedding = formats.bf16; head = formats.bf16; norms = formats.bf16; router = formats.bf16
}
deployment six extends served { layout = { tp = 6 } }
"""


def test_a_lever_that_a_check_would_refuse_is_named_with_the_rule_and_has_no_figures() -> None:
    # One request of the limit fits into four stages of the model, and not into one of its halves.
    wide = row("blocks", "TP x 2", REFUSED)
    assert wide.refused.startswith("KV220: blocks of 128")
    assert (wide.values, wide.fits, wide.relief) == ({}, False, None)
    assert row("blocks", "PP x 2", REFUSED).refused == ""
    # TP = 8 is as far as KV heads go: no copy is left that cp could spare under this engine.
    assert row("refused", "context parallelism x 2", REFUSED).refused.startswith("KV110: ")


def test_a_plan_that_a_check_refuses_has_no_levers_but_says_why() -> None:
    told = levers_text(SPEC + REFUSED, Asked(("six",), (), ()))
    assert told.found == ()
    (why,) = (d for d in told.report.diagnostics if d.code == "KV102")
    assert why.headline == "64 query heads cannot be split over TP=6"


def test_a_model_without_experts_is_offered_no_axes_for_them() -> None:
    changes = [r.lever.change for r in study("served").rows]
    assert [change for change in changes if "experts" in change] == []
    assert any("dp = 4" in change for change in changes)
    assert "experts { ep = 8 }" in row("latent", "DP attention").lever.change


def test_costs_of_nothing_are_not_divided() -> None:
    def matched(price: str) -> list[float]:
        text = SPEC + f"deployment priced extends served {{ price = {price} per device }}\n"
        (found,) = levers_text(text, Asked(("priced",), ("int4",), ())).found
        return [match.ratio for match in found.matches]

    assert matched("0 USD/h") == []
    (ratio,) = matched("1 USD/h")
    assert 0 < ratio < float("inf")
