"""What can be asked of a plan: names, dimensions, meanings. One list for require, expect, show,
explain and JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvdsl import units
from kvdsl.spec.formats import MODULES
from kvdsl.units import Dimension


@dataclass(frozen=True, slots=True)
class Term:
    name: str
    dimension: Dimension
    meaning: str


_TERMS = (
    Term("kv.bytes_per_token", units.BYTES_PER_TOKEN, "one copy, all layers, windows not yet full"),
    Term("kv.bytes_per_token_per_gpu", units.BYTES_PER_TOKEN, "on the fullest device"),
    Term(
        "kv.bytes_per_token_unbounded",
        units.BYTES_PER_TOKEN,
        "of parts that keep each token without bound; entries for many tokens apart",
    ),
    Term("kv.bytes_per_request", units.BYTES, "one copy at the workload's length, without states"),
    Term("state.bytes_per_request", units.BYTES, "one copy of the states of fixed size"),
    Term("kv.copies", units.NONE, "devices that hold each byte of a request's cache (the mean)"),
    Term("kv.tokens", units.TOKENS, "capacity: floored in each rank or replica, then summed"),
    Term("kv.tokens_per_rank", units.TOKENS, "capacity of the smallest rank or replica"),
    Term("kv.sequences", units.REQUESTS, "the same in whole requests"),
    Term("kv.running", units.REQUESTS, "that run at once: more, if given pages as they grow"),
    Term("kv.printed", units.TOKENS, "that one engine process prints at start-up"),
    Term("kv.pages", units.NONE, "of an engine's cache on each rank, those never used included"),
    Term("kv.break_even", units.TOKENS, "cached tokens that weigh as much as attention's weights"),
    Term("memory.weights", units.BYTES, "of the fullest device"),
    Term("memory.kv", units.BYTES, "room for the cache on the fullest device"),
    Term("memory.reserve", units.BYTES, "of the fullest device"),
    Term("memory.free", units.BYTES, "what the workload leaves of the cache's room there"),
    Term("model.parameters", units.NONE, "as a checkpoint stores them"),
    Term("model.active_parameters", units.NONE, "that a token meets"),
    Term("decode.tpot", units.TIME, "a token's way through all stages, each at its slowest rank"),
    Term("decode.kv_read", units.TIME, "of it: the cache read, slowest rank"),
    Term("decode.kv_read_mean", units.TIME, "the cache read, mean over ranks"),
    Term("decode.weight_read", units.TIME, "of it: weights read, slowest rank"),
    Term("decode.collectives", units.TIME, "of it: collectives and sends"),
    Term("decode.vectors", units.TIME, "of it: hidden vectors read and written (fitted)"),
    Term("decode.launches", units.TIME, "of it: launches of kernels (fitted)"),
    Term("decode.prompts", units.TIME, "of it: waiting while the same devices prefill others"),
    Term("decode.tpot_low", units.TIME, "nine of ten measurements lie above (fitted)"),
    Term("decode.tpot_high", units.TIME, "nine of ten measurements lie below (fitted)"),
    Term("decode.throughput", units.TOKEN_RATE, "of the deployment"),
    Term(
        "prefill.throughput",
        units.TOKEN_RATE,
        "of the deployment; beside decode, in the chunks that its load fills (fitted)",
    ),
    Term("prefill.ttft", units.TIME, "mean, with queue and visible transfer"),
    Term("prefill.ttft_low", units.TIME, "nine of ten measurements lie above (fitted)"),
    Term("prefill.ttft_high", units.TIME, "nine of ten measurements lie below (fitted)"),
    Term("transfer.bytes", units.BYTES, "of one request, every receiving device with its part"),
    Term("transfer.time", units.TIME, "the visible time of one request"),
    Term("transfer.whole", units.TIME, "the same with what prefill hides"),
    Term("transfer.rate", units.BYTE_RATE, "that the workload asks of what joins the pools"),
    Term("transfer.bandwidth", units.BYTE_RATE, "that it has, over all lanes of all requests"),
    Term("balance.prefill", units.NONE, "how busy the pools that prefill are; 1 is all they can"),
    Term("balance.decode", units.NONE, "how busy those that decode are, at a full cache"),
    Term("balance.ratio", units.NONE, "devices that prefill for one that decodes"),
    Term("balance.even", units.NONE, "the same if both were as busy"),
    Term("cost.per_hour", units.MONEY_RATE, "of the deployment"),
    Term("cost.per_mtok", units.MONEY_PER_TOKEN, "a token of output (printed for a Mtok)"),
    Term("gpus", units.NONE, "devices that hold a rank"),
    Term("power", units.POWER, "of what holds a rank: devices, or nodes that say their own"),
    *(
        Term(f"decode.weight_read.{module}", units.TIME, f"of it: {module} read")
        for module in MODULES
        if module not in ("mtp", "indexer")
    ),
)

VOCABULARY: Mapping[str, Term] = MappingProxyType({term.name: term for term in _TERMS})

BETTER: Mapping[str, bool] = MappingProxyType(
    {
        **dict.fromkeys(("kv.tokens", "kv.sequences", "kv.running", "memory.kv"), True),
        "decode.throughput": True,
        **dict.fromkeys(("kv.copies", "kv.bytes_per_token_per_gpu", "memory.weights"), False),
        **dict.fromkeys(("decode.tpot", "decode.kv_read", "decode.weight_read"), False),
        **dict.fromkeys(("decode.collectives", "prefill.ttft", "cost.per_mtok", "gpus"), False),
    }
)
"""Whether more of a value is better; what is not here has no better side."""

_TIER = (
    ("tokens", units.TOKENS, "held by a tier"),
    ("load_time", units.TIME, "one request brought back; in place: read once"),
    ("fetch_time", units.TIME, "what a prompt finds brought back: the visible time"),
    ("recompute_time", units.TIME, "the same computed anew"),
    ("break_even", units.TOKENS, "the shortest prefix that is fetched faster than computed"),
    ("share", units.NONE, "of the prefixes that the workload uses again"),
    ("read_rate", units.BYTE_RATE, "that the workload asks"),
    ("read_bandwidth", units.BYTE_RATE, "that it has, all units and paths"),
    ("write_rate", units.BYTE_RATE, "that the workload asks: what is stored or evicted into it"),
    ("write_bandwidth", units.BYTE_RATE, "that it has"),
)

TIER_VALUES = tuple(word for word, _, _ in _TIER)
"""What a tier answers, by the last word of its name."""

PATTERNS = tuple(
    (re.compile(rf"tier\.\w+\.{word}"), Term(f"tier.NAME.{word}", dimension, meaning))
    for word, dimension, meaning in _TIER
)

FLEET: Mapping[str, Term] = MappingProxyType(
    {
        term.name: term
        for term in (
            Term("gpus", units.NONE, "of all deployments"),
            Term("power", units.POWER, "of their hardware, each unit once"),
            Term("cost.per_hour", units.MONEY_RATE, "the same"),
            Term("cost.per_year", units.MONEY, "the same for 8,760 hours"),
            Term("decode.throughput", units.TOKEN_RATE, "where all serve one model"),
        )
    }
)
"""What a fleet answers of all its deployments, beside `deployments.NAME.VALUE`."""

INPUTS: Mapping[str, Dimension] = MappingProxyType(
    {
        "workload.prompt": units.TOKENS,
        "workload.output": units.TOKENS,
        "workload.context": units.TOKENS,
        "workload.concurrency": units.REQUESTS,
        "workload.rate": units.REQUEST_RATE,
        "workload.prefix_hits": units.NONE,
        "workload.prefix_common": units.TOKENS,
        "workload.reuse": units.TIME,
        "budget.utilization": units.NONE,
        "budget.reserve": units.BYTES,
        "budget.kv": units.BYTES,
        "replicas": units.NONE,
        "layout.tp": units.NONE,
        "layout.pp": units.NONE,
        "layout.replicas": units.NONE,
        **{f"layout.attention.{axis}": units.NONE for axis in ("dp", "cp", "pcp", "tp")},
        **{
            f"layout.{block}.{axis}": units.NONE
            for block in ("ffn", "shared_experts", "vocab")
            for axis in ("dp", "tp")
        },
        **{f"layout.experts.{axis}": units.NONE for axis in ("ep", "tp", "redundant")},
    }
)
"""Inputs of a plan, asked by their path."""

_INPUT_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "workload.prompt": "tokens of prompt",
        "workload.output": "tokens of output",
        "workload.context": "tokens of context",
        "workload.concurrency": "requests in flight",
        "workload.rate": "requests arriving",
        "workload.prefix_hits": "part of prompts found in a cache",
        "workload.prefix_common": "tokens of a common prefix",
        "workload.reuse": "time in which a prefix is asked again",
        "budget.utilization": "part of memory that may be used",
        "budget.reserve": "reserve on a GPU",
        "budget.kv": "cache on a GPU",
        "replicas": "replicas",
        "layout.replicas": "replicas",
        "layout.experts.redundant": "redundant experts",
    }
)


def input_words(path: str) -> str:
    """An input in the field's words: `requests in flight`, `TP`, `attention DP`."""
    *above, last = path.split(".")
    if path in _INPUT_WORDS:
        return _INPUT_WORDS[path]
    if above[:1] == ["pools"] and len(above) > 1:
        return f"{input_words('.'.join((*above[2:], last)))} of pool {above[1]}"
    if above[:1] == ["layout"]:
        return " ".join((*(block.replace("_", " ") for block in above[1:]), last.upper()))
    return path


def asked(name: str) -> Dimension | None:
    """The dimension of a name of the vocabulary or of an input; None if it is neither."""
    if name in VOCABULARY:
        return VOCABULARY[name].dimension
    if name in INPUTS:
        return INPUTS[name]
    for pattern, term in PATTERNS:
        if pattern.fullmatch(name):
            return term.dimension
    pool = re.fullmatch(r"pools\.\w+\.(.+)", name)
    return asked(pool[1]) if pool and not pool[1].startswith("pools.") else None
