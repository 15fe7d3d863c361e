"""Exchanges of attention: over ranks that hold runs of a sequence, parts of a prompt, or columns of
a latent, and the sum over heads behind the output projection.

Comes in: a part, degrees, the engine's policy. Goes out: exchanges of one layer.
Source: arXiv 2507.07120 (Helix: one all-to-all on the head axis, its size the same at every
length); vLLM, context parallel deployment (`ag_rs`, `a2a`); arXiv 2310.01889 (ring attention);
arXiv 2508.15881 (TPLA).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from kvdsl.placement.degrees import Degrees
from kvdsl.placement.exchange import Exchange, Owners, one
from kvdsl.spec.engine import Engine
from kvdsl.spec.model import Gqa, Mla, Model

SCORE_BYTES = 4
"""Scores and softmax sums are added up in fp32."""


def attention(
    degrees: Degrees, engine: Engine | None, part: Gqa | Mla, own: Owners
) -> Iterator[Exchange]:
    """Exchanges of one softmax layer, its output's sum apart."""
    a = degrees.attention
    if a.cp > 1 and own.phase != "prefill":
        for made in _by_sequence(degrees, engine, part):
            yield replace(made, phase="decode")
    if a.cp > 1 and own.phase != "decode":
        yield _of_found(degrees, part)
    if a.pcp > 1 and own.phase == "prefill":
        yield _of_prompt(degrees, part)
    if isinstance(part, Mla) and a.latent_split and a.exact and a.tp > 1 and own.phase != "prefill":
        scores = one(
            "all_reduce",
            "attention",
            "attention.tp",
            0,
            0,
            "scores",
            "each rank has scored a part of every key, and the softmax needs whole scores",
        )
        yield replace(scores, each_pair=part.query_heads * SCORE_BYTES, phase="decode")


def output_sum(model: Model, degrees: Degrees, scattered: int, layers: int) -> Iterator[Exchange]:
    """The sum behind the output projection, in `layers` layers; in `scattered` of them each rank
    keeps the sums of its part of the tokens alone."""
    a = degrees.attention
    axes = [axis for axis, size in (("cp", a.cp), ("tp", a.tp)) if size > 1]
    if not axes:
        return
    for kind, count, why in (
        ("all_reduce", layers - scattered, "the output projection contracts over split heads"),
        ("reduce_scatter", scattered, "each rank sends its part of the tokens to experts"),
    ):
        made = one(
            kind, "attention", "attention." + "+".join(axes), 1, model.hidden, "hidden state", why
        )
        yield replace(made, count=count)


def _by_sequence(degrees: Degrees, engine: Engine | None, part: Gqa | Mla) -> Iterator[Exchange]:
    """Partial outputs of ranks that hold runs of one sequence.

    Where the query's weights are cut over cp too (DCP on the ranks of a TP group), each rank first
    needs the queries of all of them."""
    a = degrees.attention
    heads = Fraction(part.query_heads, a.tp)
    if isinstance(part, Mla):
        asked, given = part.kv_rank + part.rope_dim, part.kv_rank
    else:
        asked, given = part.head_dim, part.value_width
    if engine is not None and engine.cp_weights == "split":
        yield one(
            "all_gather",
            "attention",
            "attention.cp",
            1,
            heads * asked,
            "queries",
            "every rank of the sequence asks its run for all heads of the group",
        )
    sums = int(-(-heads // 1)) * SCORE_BYTES
    why = "each rank has seen its run of the sequence only"
    if engine is not None and engine.cp_exchange == "ag_rs":
        # Each rank brings a sum for every head, so that as many times as there are ranks come.
        yield one("all_gather", "attention", "attention.cp", 0, 0, "softmax sums", why, sums * a.cp)
        yield one(
            "reduce_scatter",
            "attention",
            "attention.cp",
            1,
            heads * given,
            "partial outputs",
            why,
        )
        return
    made = one(
        "all_to_all",
        "attention",
        "attention.cp",
        1,
        heads * given,
        "partial outputs",
        why,
        extra=sums,
    )
    yield replace(made, hides="requests" if a.overlap else "")


def _of_found(degrees: Degrees, part: Gqa | Mla) -> Exchange:
    """What a cache has of a prompt lies on all ranks of the sequence, a run on each. New tokens are
    on every one of them, which scores its own heads."""
    a = degrees.attention
    why = "each rank has a run of what was found in the cache"
    width = prompt_width(part, a.tp)
    made = one("all_gather", "attention", "attention.cp", 1, width, "keys and values found", why)
    return replace(made, phase="prefill", of_found=True)


def _of_prompt(degrees: Degrees, part: Gqa | Mla) -> Exchange:
    """Keys and values of a prompt that is cut over ranks: gathered at once, or passed round."""
    a = degrees.attention
    width = Fraction(prompt_width(part, a.tp))
    if a.ring:
        why = "the block of keys and values goes on to the next rank"
        made = one("send", "attention", "attention.pcp", 1, width, "keys and values", why)
        return replace(made, count=a.pcp - 1, hides="blocks", phase="prefill")
    why = "each rank scores its part of the prompt against all of it"
    made = one("all_gather", "attention", "attention.pcp", a.pcp, width, "keys and values", why)
    return replace(made, phase="prefill")


def prompt_width(part: Gqa | Mla, tp: int) -> Fraction:
    """Values of a token and layer that another rank needs of it: keys and values of the heads on a
    rank, or the latent with its rope key."""
    if isinstance(part, Mla):
        return Fraction(part.kv_rank + part.rope_dim)
    each = part.head_dim + (0 if part.value == "same" else part.value_width)
    return max(Fraction(1), Fraction(part.kv_heads, tp)) * each
