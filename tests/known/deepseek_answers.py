"""What kvdsl gives for the numbers on DeepSeek V3."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import sqrt

from kvdsl.costs import memory, passes, weights
from kvdsl.costs.cache import bytes_per_token_on_rank
from kvdsl.pipeline import ask
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
    found = [t for t in tensors(model) if t.module == "attention" and t.first == 0]
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
TOKEN = Fraction(given("mla-dsv3-bytes")["layers"] * (512 + 64) * 2)


def usable() -> Fraction:
    return Fraction(memory.usable_memory(Fraction(92, 100), ROUNDED["device_memory_bytes"]))  # type: ignore[call-arg]
