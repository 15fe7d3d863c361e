"""What kvdsl gives for the numbers on formats, walls, a layer that reads its cache by sequence, and
prompts with a prefix in a cache."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from kvdsl.costs import carried, collectives
from kvdsl.costs.experts import gathered_over_sent, ranks_reached
from tests.known.published import (
    Answer,
    Key,
    Spec,
    answers,
    codes,
    given,
    made_by,
    quantity,
    rows,
    terms,
)

DEEPSEEK, SMALL = Spec("deepseek_v3"), Spec("llama_8b")
WALLS, HELIX = Spec("walls"), Spec("helix")


# --- units and formats -------------------------------------------------------------------------


def cached(deployment: str) -> Fraction:
    return SMALL.number(deployment, "kv.bytes_per_token")


def saved(deployment: str) -> Fraction:
    return 1 - cached(deployment) / cached("bf16")


UNITS = answers(
    "unit-mixing",
    spec={
        "gib_over_gb_minus_one": lambda: (
            SMALL.number("one_gib", "memory.kv") / SMALL.number("one_gb", "memory.kv") - 1
        ),
        "tokens_if_45_8_read_as_gib": lambda: DEEPSEEK.value("tp8_in_gib", "kv.tokens"),
    },
)

FORMATS = answers(
    "kv-formats",
    spec={
        "nvfp4_saving_nominal": lambda: saved("plain"),
        "nvfp4_saving_with_block_scales": lambda: saved("nvfp4"),
        "nvfp4_ratio_vs_bf16": lambda: cached("bf16") / cached("nvfp4"),
        "fp8_saving": lambda: saved("fp8"),
    },
)

CODE = answers(
    "splitzip-fixed-code",
    spec={"bf16_ratio_upper_bound": lambda: cached("bf16") / cached("coded")},
)


# --- walls -------------------------------------------------------------------------------------


def parameters_at_the_wall(deployment: str) -> Fraction:
    """Those of a model that leaves no byte and lacks none."""
    assert WALLS.number(deployment, "memory.kv") == 0
    return WALLS.number(deployment, "model.parameters")


COPIES = ("one_copy", "two_copies", "four_copies", "eight_copies")


def most_weights() -> Fraction:
    (every,) = {WALLS.number(name, "memory.weights") for name in COPIES}
    return every


def fits_somewhere() -> int:
    return int(any(not codes(WALLS.plan(name)) & {"KV141", "KV142"} for name in COPIES))


WALL = answers(
    "weight-wall-80gb",
    spec={
        "largest_params_that_fit": lambda: parameters_at_the_wall("at_the_wall"),
        "largest_params_if_80GiB": lambda: parameters_at_the_wall("in_gib"),
    },
)

RELIEF = answers(
    "dp-no-relief",
    spec={"weights_per_gpu_any_dp": most_weights},
    terms={"feasible_any_dp": fits_somewhere},
)


# --- one layer, cut by heads and by sequence ---------------------------------------------------


def weight_read(deployment: str) -> float:
    """Milliseconds of attention and feed-forward, without the ends of the model."""
    parts = ("attention", "ffn")
    return 1000 * sum(
        float(HELIX.value(deployment, f"decode.weight_read.{part}").value) for part in parts
    )


def exchanged(deployment: str) -> int:
    (row,) = rows(HELIX.plan(deployment), "all-to-all")
    return int(row.size.value)


def sent(deployment: str) -> Fraction:
    """Bytes of partial outputs that leave a GPU: all but its own part, its 4 B a head of softmax
    sums apart."""
    (row,) = rows(HELIX.plan(deployment), "all-to-all")
    payload = next(t for t in terms(row.term) if t.formula is collectives.payload)
    sums = payload.inputs[3].value
    return (Fraction(payload.value) - Fraction(sums)) * (row.ranks - 1) / row.ranks


LAYER = answers(
    "helix-roofline-405b-like",
    spec={
        "kv_read_ms_tpa1_kvp1": lambda: HELIX.value("tpa1", "decode.kv_read"),
        "kv_read_ms_tpa8_kvp1": lambda: HELIX.value("tpa8", "decode.kv_read"),
        "kv_read_ms_tpa16_kvp1": lambda: HELIX.value("tpa16", "decode.kv_read"),
        "kv_read_ms_tpa8_kvp8": lambda: HELIX.value("tpa8_kvp8", "decode.kv_read"),
        "weight_read_ms_tpa8_tpf8": lambda: weight_read("tpa8"),
        "weight_read_ms_tpa8_tpf64": lambda: weight_read("tpa8_kvp8"),
    },
    terms={
        "all_to_all_bytes_sent_per_gpu_tpa8_kvp8_bf16": lambda: sent("tpa8_kvp8"),
        "all_to_all_bytes_change_when_context_doubles": lambda: (
            exchanged("doubled") - exchanged("tpa8_kvp8")
        ),
    },
)


# --- prompts -----------------------------------------------------------------------------------


def pairs(deployment: str) -> Fraction:
    plan = SMALL.plan(deployment)
    return Fraction(made_by(plan, "prefill.ttft", carried.causal_pairs).value)


PAIRS = answers(
    "cp-prefill-pairs",
    terms={"pairs_P0_R8": lambda: pairs("cold"), "pairs_P6_R2": lambda: pairs("warm")},
)

# --- experts ------------------------------------------------------------------------------------


def reached(ranks: int) -> Fraction:
    of = given("ep-backend-volume")
    found: Fraction = ranks_reached(experts=of["routed_experts"], active=of["top_k"], ranks=ranks)
    return found


def told(name: str) -> Fraction | float:
    """What the finding on a backend that gathers shows, of 64 ranks."""
    return quantity(DEEPSEEK.plan("gathered_ep64"), "KV122", name).value


BACKENDS = answers(
    "ep-backend-volume",
    terms={
        "ranks_reached_ep64": lambda: told("ranks reached"),
        "allgather_over_all_to_all_ep64": lambda: told("gathered over sent"),
    },
    formula={
        "ranks_reached_ep8": lambda: reached(8),
        "ranks_reached_ep16": lambda: reached(16),
        "allgather_over_all_to_all_ep8": lambda: gathered_over_sent(ranks=8, reached=reached(8)),
    },
)

ANSWERS: Mapping[Key, Answer] = {
    **UNITS,
    **FORMATS,
    **CODE,
    **WALL,
    **RELIEF,
    **LAYER,
    **PAIRS,
    **BACKENDS,
}
