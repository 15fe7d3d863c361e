"""The diagnostics that the documents ask for: found, with their quantities and what to do instead;
and not invented where the documents say that they are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kvdsl.checks.findings import RULES
from kvdsl.diagnostics import Severity
from kvdsl.plan import Change, Finding, Plan
from tests.known.published import SEEDS, Spec, codes, finding, quantity
from tests.known.waiting import WAITING_DIAGNOSTICS

FAULTS = Spec("diagnostics")
ASKED: Mapping[str, Mapping[str, Any]] = {one["id"]: one for one in SEEDS["diagnostics"]}

FOUND: Mapping[str, str] = {
    "diag-tp16-8kv": "tp16_8kv",
    "diag-tp16-nvl72": "tp16_nvl72",
    "diag-tp12": "tp12",
    "diag-mla-tp8": "mla_tp8",
    "diag-mla-tp8-batch1": "mla_tp8_batch1",
    "diag-dp8-six": "dp8_six",
    "diag-latent-512": "latent_512",
    "diag-70b-one-gpu-int4kv": "one_gpu_int4_kv",
    "diag-dp-relief": "dp_relief",
    "diag-32-2-claims": "claim_32_2",
    "diag-gib": "gb_and_gib",
    "diag-nvfp4-hopper": "nvfp4_on_hopper",
    "diag-short-output-disagg": "short_outputs_apart",
    "diag-lossy-link": "int4_link",
}
"""The deployment that has the fault."""


def spelled(code: str) -> str:
    """KV-101 is KV101."""
    return code.replace("-", "")


def advice(told: Finding) -> str:
    """Everything that a finding says to do."""
    made = told.alternative
    layout = (made.title, made.text) if made is not None else ()
    return " | ".join((*told.diagnostic.helps, *layout))


def gain(told: Finding, name: str) -> Change:
    assert told.alternative is not None
    (change,) = (c for c in told.alternative.changes if c.name == name)
    return change


@pytest.mark.parametrize("asked", FOUND)
def test_a_fault_is_reported_under_the_codes_that_the_documents_ask(asked: str) -> None:
    told = codes(FAULTS.plan(FOUND[asked]))
    assert set(map(spelled, ASKED[asked]["must_report"])) <= told
    assert not set(map(spelled, ASKED[asked].get("must_not_report", ()))) & told


def test_every_diagnostic_of_the_documents_is_found_or_waiting() -> None:
    assert sorted([*FOUND, *WAITING_DIAGNOSTICS]) == sorted(ASKED)


def test_a_diagnostic_waits_only_for_a_rule_that_is_not_there() -> None:
    known = {rule.code for rule in RULES}
    for asked in WAITING_DIAGNOSTICS:
        assert not set(map(spelled, ASKED[asked]["must_report"])) & known, asked


# --- what each one says ------------------------------------------------------------------------


def test_tp16_shows_its_copies_and_what_stages_would_give() -> None:
    plan = FAULTS.plan("tp16_8kv")
    shown = ASKED["diag-tp16-8kv"]["quantities"]
    assert quantity(plan, "KV101", "copies").value == shown["copies"] == 2
    per_gpu = quantity(plan, "KV101", "bytes a token a GPU").value
    assert per_gpu == shown["bytes_per_token_per_gpu"] == 64_512
    across = quantity(plan, "KV104", "all-reduces across").value
    assert across == shown["inter_node_all_reduces"] == 252
    for code in ("KV101", "KV104"):
        told = finding(plan, code)
        assert told.severity is Severity.WARNING
        assert told.alternative is not None
        assert told.alternative.text == "tp = 8; pp = 2"
        tokens = gain(told, "kv.tokens")
        assert (tokens.before.value, tokens.after.value) == (701_174, 1_402_348)
        assert tokens.ratio == 2.0


def test_tp16_in_one_rack_is_information_and_says_why_it_may_win() -> None:
    plan = FAULTS.plan("tp16_nvl72")
    assert finding(plan, "KV101").severity is Severity.INFO
    allowed = quantity(plan, "KV180", "allowed more an all-reduce")
    assert float(allowed.value) == pytest.approx(12.58e-6, rel=1e-3)
    step = gain(finding(plan, "KV180"), "decode.tpot")
    assert step.before.value < step.after.value


def test_twelve_ways_of_128_query_heads_are_an_error_and_nothing_is_planned() -> None:
    plan = FAULTS.plan("tp12")
    assert finding(plan, "KV102").severity is Severity.ERROR
    assert plan.values == {}
    # 8 KV heads do not divide over 12 ranks either; one fault is told once.
    assert codes(plan) == {"KV102"}


def test_a_copied_latent_shows_what_data_parallel_attention_would_give() -> None:
    plan = FAULTS.plan("mla_tp8")
    assert quantity(plan, "KV105", "copies").value == 8
    told = finding(plan, "KV105")
    assert told.alternative is not None
    assert told.alternative.text == "attention { dp = 8 }; experts { ep = 8 }"
    tokens, weights = gain(told, "kv.tokens"), gain(told, "memory.weights")
    # The documents print 6.26x, from 671.0 and 11.4 GB; exact counts give 6.257x.
    assert tokens.ratio == pytest.approx(6.257, abs=5e-4)
    assert round(tokens.ratio, 2) == 6.26
    assert (tokens.before.value, tokens.after.value) == (652_346, 4_081_832)
    # 9.99 GB: seven eighths of the attention weights.
    assert weights.after.value - weights.before.value == 9_986_853_632
    whole = gain(told, "kv.sequences")
    assert (whole.before.value, whole.after.value) == (159, 992)


def test_a_small_batch_of_a_latent_model_is_not_told_to_spread_its_attention() -> None:
    plan = FAULTS.plan("mla_tp8_batch1")
    cached = plan.value("kv.bytes_per_request").value / plan.value("kv.bytes_per_token").value
    assert cached == ASKED["diag-mla-tp8-batch1"]["inputs"]["total_cached_tokens"] == 4096
    assert "KV105" not in codes(plan)
    for told in plan.findings:
        assert "DP=" not in advice(told), told.code
        assert "dp =" not in advice(told), told.code


def test_six_requests_leave_two_of_eight_ranks_idle() -> None:
    plan = FAULTS.plan("dp8_six")
    idle = quantity(plan, "KV107", "idle ranks").value
    assert idle == ASKED["diag-dp8-six"]["quantities"]["idle_ranks"] == 2
    told = finding(plan, "KV107")
    assert told.alternative is not None
    assert told.alternative.text == "attention { dp = 4; tp = 2 }; experts { ep = 8 }"
    step = gain(told, "decode.tpot")
    assert step.after.value < step.before.value
    assert "81,210 tok" in told.flips


def test_a_latent_of_512_values_shows_what_its_rope_key_adds() -> None:
    plan = FAULTS.plan("latent_512")
    assert finding(plan, "KV113").severity is Severity.ERROR
    assert quantity(plan, "KV113", "without a rope key").value == 62_464
    assert quantity(plan, "KV113", "with one").value == 70_272


def test_weights_past_the_memory_are_never_told_to_compress_the_cache() -> None:
    plan = FAULTS.plan("one_gpu_int4_kv")
    assert plan.value("model.parameters").value == 70_553_706_496
    told = finding(plan, "KV141")
    assert told.severity is Severity.ERROR
    for one in plan.findings:
        said = advice(one).lower().replace("kv.tokens", "")
        assert not {"cache", "kv", "compress"} & set(said.replace("`", " ").split()), one.code
    fewest = told.alternative
    assert fewest is not None
    assert fewest.text == "tp = 2"
    assert gain(told, "memory.weights").after.value == 70_553_706_496


def test_copies_of_what_does_not_fit_are_told_to_cut_instead() -> None:
    plan = FAULTS.plan("dp_relief")
    told = finding(plan, "KV142")
    assert told.severity is Severity.ERROR
    assert quantity(plan, "KV142", "weights on a device").value == 100 * 10**9
    assert quantity(plan, "KV142", "usable less reserve").value == 72 * 10**9
    assert "KV141" not in codes(plan)
    assert "replicas" not in advice(told)
    assert told.alternative is not None
    assert told.alternative.text == "tp = 2"


def test_a_claim_under_tp16_is_told_to_divide_past_the_heads_which_tp8_in_two_stages_does() -> None:
    told = finding(FAULTS.plan("claim_32_2"), "KV146")
    assert told.severity is Severity.ERROR
    assert told.diagnostic.notes[:2] == (
        "it divides the cache by all 16 ranks, though each holds at least one whole head",
        "it is the figure of tp = 8; pp = 2",
    )
    assert "64,512 B/tok" in told.diagnostic.headline
    assert "32,256 B/tok" in told.diagnostic.headline


# --- findings that the cases ask beside the list ------------------------------------------------


def reserve_of(plan: Plan) -> Change:
    return gain(finding(plan, "KV143"), "kv.tokens")


def wider_ends_of(plan: Plan) -> Change:
    return gain(finding(plan, "KV144"), "kv.tokens")


@pytest.mark.parametrize(
    ("spec", "deployment", "change", "after"),
    [
        # 609,702 and 3,742,024 with the documents' rounded weights.
        ("deepseek_v3", "tp8", reserve_of, 609_655),
        ("deepseek_v3", "dp8", reserve_of, 3_740_304),
        ("llama_405b", "tp8", wider_ends_of, 299_835),
    ],
)
def test_what_was_left_unsaid_is_told_with_what_it_is_worth(
    spec: str, deployment: str, change: Callable[[Plan], Change], after: int
) -> None:
    assert change(Spec(spec).plan(deployment)).after.value == after


def test_wider_ends_of_the_405b_take_as_many_bytes_as_they_have_parameters() -> None:
    more = quantity(Spec("llama_405b").plan("tp8"), "KV144", "more a copy")
    assert more.value == 4_202_692_608


def test_mixed_units_show_how_far_apart_the_readings_are() -> None:
    plan = FAULTS.plan("gb_and_gib")
    apart = float(quantity(plan, "KV140", "units apart").value)
    assert apart == pytest.approx(ASKED["diag-gib"]["quantities"]["error"], abs=5e-5)
    assert finding(plan, "KV140").severity is Severity.ERROR


def test_a_format_that_the_device_has_no_arithmetic_for_is_named_with_the_device() -> None:
    told = finding(FAULTS.plan("nvfp4_on_hopper"), "KV161")
    assert "nvfp4" in told.diagnostic.headline
    assert "h100_sxm" in told.diagnostic.headline + told.diagnostic.primary.text


def test_short_outputs_in_two_pools_show_the_transfer_and_what_it_saves() -> None:
    plan = FAULTS.plan("short_outputs_apart")
    assert ASKED["diag-short-output-disagg"]["inputs"]["batch"] == "small"
    told = finding(plan, "KV170")
    assert told.severity is Severity.WARNING
    seen = float(quantity(plan, "KV170", "visible transfer").value)
    saved = float(quantity(plan, "KV170", "saved interference").value)
    assert seen > saved
    first = gain(told, "prefill.ttft")
    assert first.after.value < first.before.value
    assert "longer outputs" in told.flips


def test_four_bits_on_an_exact_link_are_an_error_with_the_cache_as_it_is_beside_it() -> None:
    plan = FAULTS.plan("int4_link")
    told = finding(plan, "KV162")
    assert told.severity is Severity.ERROR
    assert "int4" in told.diagnostic.headline
    size = gain(told, "transfer.bytes")
    assert size.ratio == 4.0
    assert "KV170" not in codes(plan)
