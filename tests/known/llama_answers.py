"""What kvdsl gives for the numbers on Llama 3.1 405B and Llama 3.3 70B."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from kvdsl.costs import attention, cache, memory, weights
from kvdsl.plan import Plan
from kvdsl.units import Quantity
from tests.known.published import Answer, Key, Spec, answers, given, made_by, quantity, rows

LLAMA = Spec("llama_405b")
value, number = LLAMA.value, LLAMA.number

LAYERS = given("model-405b-params")["layers"]


def parameters(group: str) -> Fraction:
    return number("tp8", f"model.parameters.{group}")


PARAMETERS = answers(
    "model-405b-params",
    spec={
        "attention_params_per_layer": lambda: parameters("attention") / LAYERS,
        "mlp_params_per_layer": lambda: parameters("ffn") / LAYERS,
        "total_params": lambda: value("tp8", "model.parameters"),
        "embedding_plus_head_params": lambda: parameters("embedding") + parameters("head"),
    },
)


# --- bytes a token -----------------------------------------------------------------------------


def kv_heads_on_a_rank(plan: Plan) -> Fraction:
    """Bytes of the keys on a rank over those of one head in all layers."""
    keys = made_by(plan, "kv.bytes_per_token_per_gpu", cache.bytes_per_token_on_rank)
    layers, _, _, head, _ = (Fraction(t.value) for t in keys.inputs)
    return Fraction(keys.value) / (layers * head)


BYTES = answers(
    "gqa-405b-bytes",
    spec={
        "kv_bytes_per_token_logical": lambda: value("tp16", "kv.bytes_per_token"),
        "kv_bytes_per_token_per_rank_tp8": lambda: value("tp8", "kv.bytes_per_token_per_gpu"),
        "kv_bytes_per_token_per_rank_tp16": lambda: value("tp16", "kv.bytes_per_token_per_gpu"),
        "copies_of_each_head_tp16": lambda: value("tp16", "kv.copies"),
        "copies_of_each_head_tp8": lambda: value("tp8", "kv.copies"),
    },
    terms={
        "kv_heads_per_rank_tp16": lambda: kv_heads_on_a_rank(LLAMA.plan("tp16")),
        "query_heads_per_rank_tp16": lambda: (
            made_by(LLAMA.plan("tp16"), "decode.tpot", attention.attention_work).inputs[2].value
        ),
        "cluster_bytes_per_token_tp16": lambda: quantity(
            LLAMA.plan("tp16"), "KV101", "bytes a token, all ranks"
        ),
        "replication_factor_tp16": lambda: quantity(LLAMA.plan("tp16"), "KV101", "copies"),
    },
)

SMALL_BYTES = answers(
    "gqa-70b-bytes",
    spec={
        "kv_bytes_per_token_logical": lambda: value("small_tp8", "kv.bytes_per_token"),
        "kv_bytes_per_token_per_rank_tp8": lambda: value("small_tp8", "kv.bytes_per_token_per_gpu"),
        "kv_bytes_per_token_per_rank_tp16": lambda: value(
            "small_tp16", "kv.bytes_per_token_per_gpu"
        ),
    },
)


# --- capacity ----------------------------------------------------------------------------------


def unrounded(deployment: str, holders: int = 1) -> Fraction:
    """Tokens before the floor: ratios are of these."""
    room = number(deployment, "memory.kv")
    return holders * room / number(deployment, "kv.bytes_per_token_per_gpu")


def sixteenth() -> Fraction:
    """Tokens of TP=8 x PP=2 before the floor, as the document cuts the weights: all of them 16
    ways. A plan puts the final norm on the last stage, 1,024 B a GPU more there, which no whole
    token notices."""
    held = weights.bytes_on_rank(
        stored_bytes=number("tp8", "model.parameters"), held=Fraction(1, 16)
    )
    room = memory.room_for_cache(
        usable=Fraction(92, 100) * 80 * 10**9, reserve=3 * 10**9, held_weights=held
    )
    return Fraction(room) / number("tp8_pp2", "kv.bytes_per_token_per_gpu")


CAPACITY = answers(
    "gqa-405b-capacity-16xh100",
    spec={
        "weights_per_gpu_tp8": lambda: value("tp8", "memory.weights"),
        "kv_per_gpu_tp8": lambda: value("tp8", "memory.kv"),
        "tokens_tp8": lambda: value("tp8", "kv.tokens"),
        # The document prints 615,957: the floor of twice the unrounded 307,978.77. A token lies in
        # one replica or the other, so the plan gives 2 x 307,978 = 615,956.
        "tokens_two_tp8_replicas_sum_of_floors": lambda: value("two_tp8", "kv.tokens"),
        "weights_per_gpu_tp16": lambda: value("tp16", "memory.weights"),
        "kv_per_gpu_tp16": lambda: value("tp16", "memory.kv"),
        "tokens_tp16": lambda: value("tp16", "kv.tokens"),
        "kv_bytes_per_token_per_gpu_tp8pp2": lambda: value("tp8_pp2", "kv.bytes_per_token_per_gpu"),
        "tokens_tp8pp2": lambda: value("tp8_pp2", "kv.tokens"),
        "weights_freed_tp16_vs_tp8": lambda: (
            number("tp8", "memory.weights") - number("tp16", "memory.weights")
        ),
        "ratio_tp16_over_two_replicas": lambda: unrounded("tp16") / unrounded("two_tp8", 2),
        "ratio_tp8pp2_over_tp16": lambda: (
            number("tp8_pp2", "kv.tokens") / number("tp16", "kv.tokens")
        ),
    },
    terms={"budget_per_gpu": lambda: LLAMA.plan("tp8").memory[0].usable},
    formula={"ratio_tp8pp2_over_two_replicas": lambda: sixteenth() / unrounded("two_tp8", 2)},
)

SENSITIVITY = answers(
    "gqa-405b-sensitivity",
    spec={
        "tokens_tp8_no_reserve": lambda: value("tp8_no_reserve", "kv.tokens"),
        "tokens_tp8_bf16_embeddings": lambda: value("tp8_wide_ends", "kv.tokens"),
        "tokens_tp8_if_80GiB": lambda: value("tp8_in_gib", "kv.tokens"),
    },
)


# --- collectives and time ----------------------------------------------------------------------


def layer_all_reduces(deployment: str) -> int:
    """All-reduces of a decode step; the vocabulary's one is apart."""
    layers = ("attention", "ffn")
    return sum(r.count for r in rows(LLAMA.plan(deployment), "all-reduce") if r.module in layers)


def largest(deployment: str, kind: str) -> Quantity:
    return max((r.size for r in rows(LLAMA.plan(deployment), kind)), key=lambda size: size.value)


COLLECTIVES = answers(
    "gqa-405b-collectives",
    terms={
        "all_reduces_per_step": lambda: layer_all_reduces("tp16"),
        "payload_bytes_per_sequence_per_all_reduce": lambda: largest("tp16", "all-reduce"),
        "pp2_point_to_point_bytes_per_sequence_per_step": lambda: largest("tp8_pp2", "send"),
        "inter_node_all_reduces_tp16": lambda: quantity(
            LLAMA.plan("tp16"), "KV104", "all-reduces across"
        ),
        "inter_node_all_reduces_tp8pp2": lambda: sum(
            r.count for r in rows(LLAMA.plan("tp8_pp2"), "all-reduce") if not r.fast
        ),
    },
)

REVERSAL = answers(
    "gqa-405b-reversal",
    spec={
        "weight_read_ms_tp8": lambda: value("tp8", "decode.weight_read"),
        "weight_read_ms_tp16": lambda: value("tp16", "decode.weight_read"),
        "weight_read_ms_tp8pp2_serial_two_stages": lambda: value("tp8_pp2", "decode.weight_read"),
    },
    terms={
        "break_even_extra_us_per_all_reduce": lambda: quantity(
            LLAMA.plan("one_domain"), "KV180", "allowed more an all-reduce"
        ),
    },
)

ANSWERS: Mapping[Key, Answer] = {
    **PARAMETERS,
    **BYTES,
    **SMALL_BYTES,
    **CAPACITY,
    **SENSITIVITY,
    **COLLECTIVES,
    **REVERSAL,
}
