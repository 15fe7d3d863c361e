"""What kvdsl gives for the numbers on DeepSeek V3."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import sqrt

from kvdsl.costs import memory, roofline, weights
from kvdsl.costs.cache import bytes_per_token_on_rank
from kvdsl.placement.tensors import tensors
from kvdsl.project.loader import load_text
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.model import Model
from kvdsl.units import REQUESTS, TOKENS, Quantity
from tests.known.published import Answer, Ask, Key, Spec, answers, given, made_by, quantity, rows

DEEPSEEK = Spec("deepseek_v3")
value, number = DEEPSEEK.value, DEEPSEEK.number

SHAPE = given("model-dsv3-params")
MOE_LAYERS = SHAPE["layers"] - SHAPE["dense_layers"]


# --- parameters --------------------------------------------------------------------------------


def parameters(group: str) -> Fraction:
    return number("tp8", f"model.parameters.{group}")


def share(*groups: str) -> Fraction:
    return sum(map(parameters, groups), Fraction(0)) / number("tp8", "model.parameters")


@cache
def matrices_of_attention() -> int:
    """Parameters of one layer's attention without its two latent norms."""
    model, _ = Resolver(load_text("kvspec 1\n")).declaration("models.deepseek_v3")
    assert isinstance(model, Model)
    found = [t for t in tensors(model) if t.module == "attention" and t.depths.first == 0]
    return sum(t.parameters for t in found if t.rows > 1)


PARAMETERS = answers(
    "model-dsv3-params",
    spec={
        "attention_params_per_layer_with_latent_norms": lambda: (
            parameters("attention") / SHAPE["layers"]
        ),
        "attention_params_all_layers": lambda: parameters("attention"),
        "dense_mlp_params_three_layers": lambda: parameters("ffn"),
        "dense_share": lambda: share("ffn"),
        "routed_plus_shared_plus_router_share": lambda: share(
            "routed_experts", "shared_experts", "router"
        ),
        "routed_only_share": lambda: share("routed_experts"),
        "expert_params": lambda: (
            parameters("routed_experts") / MOE_LAYERS / SHAPE["routed_experts"]
        ),
        "shared_expert_params_all_layers": lambda: parameters("shared_experts"),
        "router_params": lambda: parameters("router"),
        "embedding_plus_head_params": lambda: parameters("embedding") + parameters("head"),
        "total_params": lambda: value("tp8", "model.parameters"),
    },
    formula={"attention_params_per_layer_linear": matrices_of_attention},
)


# --- bytes a token -----------------------------------------------------------------------------


def scores() -> Fraction:
    """Bytes that an exact split of the latent reduces, a cached token and layer."""
    plan = DEEPSEEK.plan("tp8_split")
    cached = number("tp8_split", "workload.concurrency") * number("tp8_split", "workload.context")
    step = quantity(plan, "KV112", "scores a step")
    return Fraction(step.value) / cached / int(SHAPE["layers"])


BYTES = answers(
    "mla-dsv3-bytes",
    spec={
        "kv_bytes_per_token": lambda: value("tp8", "kv.bytes_per_token"),
        "kv_bytes_per_token_per_rank_tp8": lambda: value("tp8", "kv.bytes_per_token_per_gpu"),
        "copies_tp8": lambda: value("tp8", "kv.copies"),
        "gqa_70b_tp8_per_rank": lambda: value("llama_70b", "kv.bytes_per_token_per_gpu"),
        "ratio_mla_over_gqa70b_tp8": lambda: (
            number("tp8", "kv.bytes_per_token_per_gpu")
            / number("llama_70b", "kv.bytes_per_token_per_gpu")
        ),
    },
    terms={"score_bytes_per_token_layer_fp32_128_heads": scores},
    formula={
        # What the document refuses: 576 columns as if they were heads. No layout gives it: a
        # latent that is split still has its rope key on every rank.
        "latent_dims_per_rank_if_split_8": lambda: bytes_per_token_on_rank(
            layers=1,
            heads=SHAPE["kv_lora_rank"] + SHAPE["qk_rope_dim"],
            ways=8,
            bytes_a_head=1,
            sequence_ways=1,
        ),
    },
)


# --- capacity from the document's rounded 671.0 and 11.4 GB -------------------------------------


ROUNDED = given("mla-dsv3-capacity-8xh200")
RANKS = 8
LENGTH = int(ROUNDED["context"])
TOKEN = SHAPE["layers"] * (SHAPE["kv_lora_rank"] + SHAPE["qk_rope_dim"]) * 2


def usable() -> Fraction:
    return Fraction(
        memory.usable_memory(utilization=Fraction(92, 100), memory=ROUNDED["device_memory_bytes"])
    )


def held(attention_ways: int) -> Fraction:
    """Weights on a device: attention cut so many ways, all else over the node."""
    attention, rest = ROUNDED["attention_weight_bytes"], ROUNDED["weights_bytes"]
    rest -= attention
    cut = weights.bytes_on_rank(stored_bytes=attention, held=Fraction(1, attention_ways))
    return Fraction(cut + weights.bytes_on_rank(stored_bytes=rest, held=Fraction(1, RANKS)))


def room(attention_ways: int, reserve: int = 0) -> Fraction:
    return Fraction(
        memory.room_for_cache(usable=usable(), reserve=reserve, held_weights=held(attention_ways))
    )


def tokens(where: Fraction, holders: int = 1) -> Quantity:
    each = memory.tokens_that_fit(room=where, bytes_a_token=TOKEN)
    return Quantity(memory.tokens_of_holders(holders=holders, tokens=each), TOKENS)


def requests(where: Fraction, holders: int = 1) -> Quantity:
    each = memory.requests_that_fit(room=where, bytes_a_request=TOKEN * LENGTH)
    return Quantity(memory.requests_of_holders(holders=holders, requests=each), REQUESTS)


def experts_on_a_rank() -> Fraction:
    """Bytes of routed experts on a rank over those of one expert in all layers."""
    read = made_by(DEEPSEEK.plan("dp8"), "decode.weight_read.routed_experts", roofline.read_time)
    stored = read.inputs[0].inputs[0]  # of which tokens hit a share
    one = parameters("routed_experts") / int(SHAPE["routed_experts"])
    return Fraction(stored.value) / one


CAPACITY = answers(
    "mla-dsv3-capacity-8xh200",
    terms={
        "usable_per_gpu": lambda: DEEPSEEK.plan("tp8").memory[0].usable,
        "experts_per_gpu_ep8": experts_on_a_rank,
    },
    formula={
        "weights_per_gpu_tp8": lambda: held(8),
        "kv_per_gpu_tp8": lambda: room(8),
        "tokens_tp8": lambda: tokens(room(8)),
        "weights_per_gpu_dp8_ep8": lambda: held(1),
        "kv_per_gpu_dp8_ep8": lambda: room(1),
        "tokens_dp8_ep8": lambda: tokens(room(1), RANKS),
        "ratio": lambda: RANKS * room(1) / room(8),
        "sequences_tp8_at_4096": lambda: requests(room(8)),
        # 996 pools the bytes of eight ranks; a request lies in one of them, so a plan says 992.
        "sequences_dp8_pooled_floor_at_4096": lambda: requests(RANKS * room(1)),
        "sequences_dp8_whole_per_rank_at_4096": lambda: requests(room(1), RANKS),
        "extra_attention_weights_per_gpu": lambda: held(1) - held(8),
        # As if each of eight ranks held an eighth of the latent.
        "wrong_tokens_if_latent_divided_by_tp": lambda: tokens(RANKS * room(8)),
    },
)

RESERVE = 3 * 10**9

WITH_RESERVE = answers(
    "mla-dsv3-capacity-reserve",
    formula={
        "tokens_tp8": lambda: tokens(room(8, RESERVE)),
        "tokens_dp8_ep8": lambda: tokens(room(1, RESERVE), RANKS),
        "ratio": lambda: RANKS * room(1, RESERVE) / room(8, RESERVE),
    },
)


# --- bytes and time of a decode step -----------------------------------------------------------


def read(deployment: str, name: str) -> Fraction:
    """Bytes behind a time of reading."""
    size = made_by(DEEPSEEK.plan(deployment), name, roofline.read_time).inputs[0]
    return Fraction(size.value)


ATTENTION = "decode.weight_read.attention"

BANDWIDTH = answers(
    "mla-dsv3-bandwidth",
    spec={
        "kv_read_ms_tp8": lambda: value("tp8", "decode.kv_read"),
        "kv_read_ms_dp8_mean": lambda: value("dp8", "decode.kv_read_mean"),
        "kv_read_ms_dp8_busiest_rank_20_sequences": lambda: value("dp8", "decode.kv_read"),
        "attention_weight_read_ms_dp8": lambda: value("dp8", ATTENTION),
        "attention_weight_read_ms_tp8": lambda: value("tp8", ATTENTION),
        "extra_weight_read_ms": lambda: (
            (float(value("dp8", ATTENTION).value) - float(value("tp8", ATTENTION).value)) * 1000
        ),
    },
    terms={
        "kv_read_per_gpu_tp8": lambda: read("tp8", "decode.kv_read"),
        "kv_read_per_gpu_dp8_mean": lambda: read("dp8", "decode.kv_read_mean"),
        "attention_weight_read_bytes_tp8": lambda: read("tp8", ATTENTION),
        "break_even_cached_tokens": lambda: quantity(
            DEEPSEEK.plan("tp8_small"), "KV181", "break-even"
        ),
        "break_even_sequences_at_4096": lambda: (
            float(quantity(DEEPSEEK.plan("tp8_small"), "KV181", "break-even").value) / LENGTH
        ),
    },
)


# --- attention TP within DP --------------------------------------------------------------------


def read_in_all(deployment: str) -> Fraction:
    """Attention weights and the mean cache that a rank reads in a step."""
    return read(deployment, ATTENTION) + read(deployment, "decode.kv_read_mean")


def best_ways() -> float:
    """The root of N T k / A: bytes read, A d / N + T k / d, are fewest there."""
    cached, attention = read("tp8", "decode.kv_read"), parameters("attention")
    return sqrt(RANKS * cached / attention)


def crossing() -> Fraction:
    """The context at which six users read as much under DP=4 x TP=2 as under DP=8."""
    narrow, wide = "six_on_dp8", "six_on_dp4_tp2"
    saved = read(narrow, ATTENTION) - read(wide, ATTENTION)
    more = read(wide, "decode.kv_read") - read(narrow, "decode.kv_read")
    return saved / (more / LENGTH)


def _mixed() -> tuple[dict[str, Ask], dict[str, Ask]]:
    spec: dict[str, Ask] = {}
    behind: dict[str, Ask] = {}
    for layout, deployment in (
        ("dp1_tp8", "tp8"),
        ("dp2_tp4", "dp2_tp4"),
        ("dp4_tp2", "dp4_tp2"),
        ("dp8_tp1", "dp8"),
    ):
        for published, name in (
            (f"weights_per_gpu_{layout}", "memory.weights"),
            (f"tokens_{layout}", "kv.tokens"),
            (f"sequences_{layout}_at_4096", "kv.sequences"),
        ):
            spec[published] = lambda d=deployment, n=name: value(d, n)  # type: ignore[misc]
        behind[f"read_per_gpu_{layout}_at_159x4096"] = lambda d=deployment: read_in_all(d)  # type: ignore[misc]
    return spec, behind


_SPEC, _TERMS = _mixed()

MIXED = answers(
    "mla-dsv3-mixed-layouts",
    spec=_SPEC,
    terms={
        **_TERMS,
        "best_real_valued_dp": best_ways,
        "six_users_context_where_dp4tp2_stops_winning": crossing,
    },
)

IDLE = answers(
    "mla-dsv3-idle-ranks",
    terms={
        "idle_ranks": lambda: quantity(DEEPSEEK.plan("six_on_dp8"), "KV107", "idle ranks"),
        "ranks_in_every_all_to_all": lambda: min(
            r.ranks for r in rows(DEEPSEEK.plan("six_on_dp8"), "all-to-all")
        ),
    },
)

PLACEMENT = answers(
    "mla-dsv3-nonattention-placement",
    spec={
        "extra_weights_per_gpu_if_replicated": lambda: (
            number("dp8_copies", "memory.weights") - number("dp8", "memory.weights")
        ),
        "tokens_if_replicated": lambda: value("dp8_copies", "kv.tokens"),
    },
    terms={
        "dense_mlp_replication_cost_per_gpu": lambda: (
            read("dp8_dense_mlp", "decode.weight_read.ffn") - read("dp8", "decode.weight_read.ffn")
        ),
    },
)

ANSWERS: Mapping[Key, Answer] = {
    **PARAMETERS,
    **BYTES,
    **CAPACITY,
    **WITH_RESERVE,
    **BANDWIDTH,
    **MIXED,
    **IDLE,
    **PLACEMENT,
}
