"""The exchanges of a step, counted and weighed by hand: which collectives an engine's layout needs,
over how many ranks, with how many bytes.

Payloads by the convention of NCCL's tests: the gathered size of an all-gather, the input of a
reduce-scatter, a rank's buffer of an all-to-all. Activations take two bytes.
Source of the forms: vLLM 0.33 (decode context parallelism, sequence-parallel experts, pipeline
sends), arXiv 2507.07120 (Helix), arXiv 2310.01889 (ring), arXiv 2508.15881 (TPLA).
"""

from __future__ import annotations

from functools import cache

import pytest

from kvdsl.pipeline import compile_text
from kvdsl.plan import Plan

BYTES = 2
BATCH, CONTEXT = 16, 8000
HIDDEN, LAYERS, DENSE, SPARSE = 7168, 61, 3, 58
HEADS, LATENT, ROPE = 128, 512, 64

SPEC = """\
kvspec 1
engine plain     { family = vllm; version = "0.33.0" }
engine dcp       extends plain { cp_weights = split; cp_exchange = ag_rs }
engine dcp_a2a   extends plain { cp_weights = split; cp_exchange = a2a }
engine overlaps  extends plain { cp_overlap = true }
engine scatters  extends plain { scattered_output = true }
engine gathers   extends plain { all_to_all = allgather_reducescatter }
engine copies    extends plain {
  ffn = attention; shared_experts = attention; embedding = attention; router = copy
}
engine residual  extends plain { stage_sends = hidden_residual }
engine residual_inner extends residual { remainder = inner }

layout tp8        { tp = 8; experts { ep = 8 } }
layout by_run     { attention { tp = 2; cp = 4 }; experts { ep = 8 } }
layout beside     { attention { tp = 2; cp = 4; overlap = true }; experts { ep = 8 } }
layout exact      { attention { tp = 8; latent = split }; experts { ep = 8 } }
layout tpla       { attention { tp = 8; latent = split; exact = false }; experts { ep = 8 } }
layout mixed      { attention { dp = 4; tp = 2 }; experts { ep = 8 } }
layout dp8        { attention { dp = 8 }; experts { ep = 8 } }
layout stages     { tp = 4; pp = 2; experts { ep = 4 } }
layout prompts    { attention { pcp = 4; tp = 2 }; experts { ep = 8 } }
layout ring       { attention { pcp = 4; tp = 2; prompt = ring }; experts { ep = 8 } }

deployment served {
  model    = models.deepseek_v3
  weights  = formats.fp8
  kv       = formats.bf16
  on       = 1 x nodes.hgx_h200
  engine   = plain
  time     = ideal
  layout   = tp8
  workload { context = 8000 tok; concurrency = 16 req }
}
"""


@cache
def plan(layout: str, engine: str = "plain", more: str = "") -> Plan:
    text = (
        f"{SPEC}deployment child extends served {{ layout = {layout}; engine = {engine} {more}}}\n"
    )
    made = compile_text(text, only="child")
    assert not [d for d in made.report.diagnostics if d.code < "KV100"]
    return made.plan("child")


def exchanged(
    found: Plan, module: str, phase: str = "decode"
) -> list[tuple[str, str, int, int, int]]:
    """Kind, axis, ranks, how often and bytes of a module's exchanges."""
    return [
        (r.kind, r.axis, r.ranks, r.count, int(r.size.value))
        for r in found.collectives
        if r.phase == phase and r.module == module
    ]


# --- attention ------------------------------------------------------------------------------------


def test_ranks_of_a_tp_group_that_cut_the_sequence_gather_queries_and_sums_and_scatter() -> None:
    heads = HEADS // 2  # of the two groups
    assert exchanged(plan("by_run", "dcp"), "attention") == [
        ("all-gather", "attention.cp", 4, LAYERS, BATCH * heads * (LATENT + ROPE) * BYTES),
        ("all-gather", "attention.cp", 4, LAYERS, BATCH * heads * 4 * 4),
        ("reduce-scatter", "attention.cp", 4, LAYERS, BATCH * heads * LATENT * BYTES),
        ("all-reduce", "attention.cp+tp", 8, LAYERS, BATCH * HIDDEN * BYTES),
    ]


def test_with_an_all_to_all_they_need_two_collectives_of_three() -> None:
    heads = HEADS // 2
    queries, outputs, _ = exchanged(plan("by_run", "dcp_a2a"), "attention")
    assert queries[0] == "all-gather"
    size = BATCH * heads * (LATENT * BYTES + 4)  # sums packed beside the outputs
    assert outputs == ("all-to-all", "attention.cp", 4, LAYERS, size)


def test_ranks_that_copy_the_query_weights_need_the_outputs_alone_at_any_length() -> None:
    (outputs, _) = exchanged(plan("by_run"), "attention")
    assert outputs[0] == "all-to-all"
    longer = plan("by_run", "plain", "; workload { context = 16 ktok; concurrency = 16 req } ")
    assert exchanged(longer, "attention")[0] == outputs


def test_an_exact_split_of_the_latent_reduces_every_score_and_an_approximate_one_none() -> None:
    scores = ("all-reduce", "attention.tp", 8, LAYERS, BATCH * CONTEXT * HEADS * 4)
    outputs = ("all-reduce", "attention.tp", 8, LAYERS, BATCH * HIDDEN * BYTES)
    assert exchanged(plan("exact"), "attention") == [scores, outputs]
    assert exchanged(plan("tpla"), "attention") == [outputs]
    assert exchanged(plan("exact"), "attention", "prefill") == exchanged(
        plan("tpla"), "attention", "prefill"
    )


def test_the_reduction_of_scores_grows_with_the_context() -> None:
    near, far = (
        plan("exact", "plain", f"; workload {{ context = {n} tok; concurrency = 16 req }} ")
        for n in (4000, 8000)
    )
    one, two = (exchanged(p, "attention")[0][-1] for p in (near, far))
    assert two == 2 * one


def test_an_exchange_beside_attention_is_seen_in_part() -> None:
    def seen(layout: str, requests: int) -> float:
        more = f"; workload {{ context = 8000 tok; concurrency = {requests} req }} "
        rows = plan(layout, "overlaps", more).collectives
        (row,) = (r for r in rows if r.kind == "all-to-all")
        return float(row.all.value)

    assert 0 < seen("beside", 256) < seen("by_run", 256)
    # A single request has no other to hide behind.
    assert seen("beside", 1) == seen("by_run", 1)


def test_a_prefill_gathers_what_was_found_over_the_runs_and_nothing_else() -> None:
    cold = exchanged(plan("by_run", "dcp"), "attention", "prefill")
    assert [row[0] for row in cold] == ["all-reduce"]
    prompts = "prompt = 8000 tok; output = 100 tok; concurrency = 16 req; prefix_hits = 50 %"
    warm = plan("by_run", "dcp", f"; workload = {{ {prompts} }} ")
    gathered = exchanged(warm, "attention", "prefill")[0]
    assert gathered == (
        "all-gather", "attention.cp", 4, LAYERS, 4000 * (LATENT + ROPE) * BYTES,
    )  # fmt: skip


# --- prompts over ranks ---------------------------------------------------------------------------


def test_a_prompt_over_ranks_gathers_keys_and_values_or_passes_them_round() -> None:
    width = (LATENT + ROPE) * BYTES
    gathered = exchanged(plan("prompts"), "attention", "prefill")[0]
    assert gathered == ("all-gather", "attention.pcp", 4, LAYERS, CONTEXT * width)
    passed = exchanged(plan("ring"), "attention", "prefill")[0]
    assert passed == ("send", "attention.pcp", 4, 3 * LAYERS, CONTEXT // 4 * width)
    # Decode has the whole cache on each rank, and nothing to gather.
    assert [row[0] for row in exchanged(plan("prompts"), "attention")] == ["all-reduce"]


def test_parts_of_a_prompt_meet_where_a_module_lies_over_all_ranks() -> None:
    part = CONTEXT // 4 * HIDDEN * BYTES
    into, out, rest = exchanged(plan("prompts"), "ffn", "prefill")
    assert into == ("all-gather", "attention.pcp", 4, DENSE, 4 * part)
    assert out == ("reduce-scatter", "attention.pcp", 4, DENSE, 4 * part)
    assert rest == ("all-reduce", "attention.tp", 2, DENSE, part)
    dispatch = exchanged(plan("prompts"), "routed experts", "prefill")[0]
    assert dispatch == ("all-to-all", "experts.ep", 8, SPARSE, part * 8 // 2)


def test_parts_of_a_prompt_pass_a_module_that_each_has_a_copy_of_without_meeting() -> None:
    # vLLM, prefill context parallelism: weights beside experts are cut over TP alone, so that the
    # ranks of a prompt have copies; each works on its part (vllm-project/vllm#25749, #46570).
    part = CONTEXT // 4 * HIDDEN * BYTES
    found = plan("prompts", "copies")
    for module, layers in (("ffn", DENSE), ("shared experts", SPARSE), ("embedding", 1)):
        assert exchanged(found, module, "prefill") == [
            ("all-reduce", "attention.tp", 2, layers, part)
        ]
    # Experts lie over all ranks, and are met as before; so is the cache.
    for module in ("routed experts", "attention"):
        met = exchanged(found, module, "prefill")
        assert met == exchanged(plan("prompts"), module, "prefill")


def test_copies_for_parts_of_a_prompt_cost_memory_and_no_work() -> None:
    def of(found: Plan) -> dict[str, float]:
        (step,) = (s for s in found.steps if s.phase == "prefill")
        return {s.label: float(s.quantity.value) for s in step.segments if s.group == "compute"}

    plain, copied = plan("prompts"), plan("prompts", "copies")
    assert of(copied)["ffn"] == pytest.approx(of(plain)["ffn"])
    assert float(copied.value("memory.weights").value) > float(plain.value("memory.weights").value)


def test_cutting_a_prompt_leaves_the_work_and_shares_it_out() -> None:
    def computed(layout: str) -> dict[str, float]:
        (step,) = (s for s in plan(layout).steps if s.phase == "prefill")
        return {s.label: float(s.quantity.value) for s in step.segments if s.group == "compute"}

    alone, cut = computed("tp8"), computed("prompts")
    assert cut["routed experts"] == pytest.approx(alone["routed experts"])
    assert cut["attention"] == pytest.approx(alone["attention"])


# --- experts, stages, vocabulary ------------------------------------------------------------------


def test_dp_ranks_gather_tokens_for_a_module_over_all_of_them() -> None:
    each = BATCH // 8
    size = 8 * each * HIDDEN * BYTES
    assert exchanged(plan("dp8"), "ffn") == [
        ("all-gather", "attention.dp", 8, DENSE, size),
        ("reduce-scatter", "attention.dp", 8, DENSE, size),
    ]
    sent = each * 8 * HIDDEN * BYTES
    assert exchanged(plan("dp8"), "routed experts") == [
        ("all-to-all", "experts.ep", 8, SPARSE, sent),
        ("all-to-all", "experts.ep", 8, SPARSE, sent),
    ]


def test_a_backend_that_gathers_brings_every_token_to_every_rank() -> None:
    size = BATCH * HIDDEN * BYTES
    assert exchanged(plan("dp8", "gathers"), "routed experts") == [
        ("all-gather", "experts.ep", 8, SPARSE, size),
        ("reduce-scatter", "experts.ep", 8, SPARSE, size),
    ]


def test_sums_that_stay_scattered_save_the_gathering_half_of_a_reduction() -> None:
    size = BATCH // 4 * HIDDEN * BYTES
    assert exchanged(plan("mixed"), "attention") == [
        ("all-reduce", "attention.tp", 2, LAYERS, size)
    ]
    assert exchanged(plan("mixed", "scatters"), "attention") == [
        ("all-reduce", "attention.tp", 2, DENSE, size),
        ("reduce-scatter", "attention.tp", 2, SPARSE, size),
    ]
    for engine in ("plain", "scatters"):
        *_, gathered = [
            e for e in exchanged(plan("mixed", engine), "routed experts") if e[0] == "all-gather"
        ]
        assert gathered == ("all-gather", "attention.tp", 2, SPARSE, size)


def test_a_stage_sends_the_hidden_state_or_slices_of_it_with_the_residual() -> None:
    half = BATCH // 2  # two micro-batches
    whole = half * HIDDEN * BYTES
    assert exchanged(plan("stages"), "stage") == [("send", "pp", 2, 1, whole)]
    assert exchanged(plan("stages", "residual"), "stage") == [
        ("send", "pp", 2, 1, 2 * whole // 4),
        ("all-gather", "attention.tp", 4, 1, 2 * whole),
    ]


def test_tp_needs_two_reductions_a_layer_and_two_collectives_of_the_vocabulary() -> None:
    found = plan("tp8")
    size = BATCH * HIDDEN * BYTES
    assert exchanged(found, "embedding") == [("all-reduce", "vocab.tp", 8, 1, size)]
    assert exchanged(found, "head") == [("all-gather", "vocab.tp", 8, 1, BATCH * 129_280 * BYTES)]
    reductions = [r for r in found.collectives if r.phase == "decode" and r.kind == "all-reduce"]
    assert sum(r.count for r in reductions) == 2 * LAYERS + 1


# --- weights of the output projection -------------------------------------------------------------


def test_an_output_projection_over_all_ranks_is_read_once_between_them() -> None:
    def read(layout: str) -> float:
        return float(plan(layout).value("decode.weight_read.attention").value)

    split = "{ attention { tp = 2; cp = 4; output = split }; experts { ep = 8 } }"
    columns = HEADS * 128
    saved = LAYERS * HIDDEN * columns / 2 * (1 - 1 / 4) / 4.8e12
    assert read("by_run") - read(split) == pytest.approx(saved)
