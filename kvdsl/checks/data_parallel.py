"""Rules on data-parallel attention: what it costs, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from kvdsl.checks.study import (
    Fact,
    Study,
    Suggestion,
    attention_bytes,
    break_even,
    cached_tokens,
    caches_latent,
    fewest_kv_heads,
    softmax_parts,
    whole,
)
from kvdsl.costs.estimate import Estimate
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import AttentionAxes, Degrees, WidthAxes
from kvdsl.rules import Rule, rule
from kvdsl.spec.engine import Engine
from kvdsl.spec.model import Gqa
from kvdsl.units import BYTES, Quantity, tidy

MODULES_OF = {
    "ffn": ("ffn", "router"),
    "shared_experts": ("shared_experts",),
    "vocab": ("embedding", "head"),
}
"""Modules that the blocks of a layout place."""


def _under_tp(study: Study) -> Estimate | None:
    """The same with attention cut by heads over the ranks of each stage, if it fits."""
    degrees = study.subject.degrees
    a = degrees.attention
    wide = AttentionAxes(1, a.cp, a.pcp, a.dp * a.tp, a.interleave)
    found = study.under(replace(degrees, attention=wide, name=""))
    return found if found is not None and found.fits and found.decode is not None else None


def _tp_instead(found: Estimate) -> Suggestion:
    a = found.subject.degrees.attention
    shows = ("decode.tpot", "kv.tokens", "memory.weights")
    return Suggestion(f"TP={a.tp} attention", found.subject.degrees.text(), found, shows)


@rule(
    "KV106",
    "costly-dp-attention",
    Severity.INFO,
    "costs",
    "DP attention reads more than it saves: {cached} cached, break-even at {even}",
    label="each DP rank reads {weights} of attention weights a step",
    notes=("all cached bytes ({bytes}) are fewer than one copy of the attention weights; under "
           "TP={tp} a token takes {other}, not {tpot}",),
    flips="cached tokens past {even}",
)  # fmt: skip
def costly_dp_attention(study: Study) -> Iterator[Fact]:
    """Under DP attention a small latent cache saves less reading than the weights cost.

    What it checks
        The model caches a latent, attention has DP > 1, the cached bytes of the workload are fewer
        than the attention weights, and a token would take less time with attention under TP.

    Why it matters
        Every DP rank reads all attention weights in each step. TP reads them once between all
        ranks, and copies of a small latent cost little.

    Example
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { attention { dp = 8 }; experts { ep = 8 } }
          budget   { reserve = 3 GB }
          workload { context = 1 ktok; concurrency = 16 req }
        }

    Instead
        Nothing: this is information. Attention under TP, if the load stays so small.
    """
    a, found = study.subject.degrees.attention, study.costs
    if not caches_latent(study) or a.dp == 1 or found.decode is None or not found.fits:
        return
    cached, even = cached_tokens(study), break_even(study)
    if cached.value >= even.value:
        return
    other = _under_tp(study)
    if other is None or other.number("decode.tpot") >= found.number("decode.tpot"):
        return
    weights = Quantity(tidy(Fraction(attention_bytes(study).value) / a.tp), BYTES)
    size = Quantity(cached.value * found.values["kv.bytes_per_token"].value, BYTES)
    yield Fact(
        study.subject.place("layout"),
        {
            "cached": cached,
            "even": whole(even),
            "bytes": size,
            "weights": weights,
            "tp": a.dp * a.tp,
            "tpot": found.values["decode.tpot"].quantity,
            "other": other.values["decode.tpot"].quantity,
        },
        (("cached", size), ("attention weights of a rank", weights), ("break-even", even)),
        _tp_instead(other),
    )


@rule(
    "KV121",
    "unsaid-placement",
    Severity.WARNING,
    "costs",
    "beside DP attention the layout does not say where {modules} lie",
    label="taken to be cut {size:ways}",
    notes=("copied by each DP rank they take {more} more on a GPU: the cache holds {after}, not "
           "{before}",),
    helps=("say so: {blocks}; or name the engine, which decides",),
    also=(Severity.INFO,),
)  # fmt: skip
def unsaid_placement(study: Study) -> Iterator[Fact]:
    """Beside DP attention, what is not said to be cut may be copied.

    What it checks
        A layout with DP attention writes a block for each module that could be copied by the DP
        ranks: `ffn`, `shared_experts` (goes with `ffn`) and `vocab`; or the engine says it. It is
        information where no engine is named, since then all of the plan is ideal.

    Why it matters
        Engines differ: some copy embeddings, dense layers or shared experts on each DP rank, some
        cut them over all. The capacity follows from it.

    Example
        engine house { family = vllm; version = "0.33.0" }
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          engine   = house
          layout   { attention { dp = 8 }; experts { ep = 8 } }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 256 req }
        }

    Instead
        Write the blocks.

        layout said {
          attention { dp = 8 }; experts { ep = 8 }; ffn { tp = 8 }; vocab { dp = 8 }
        }

        deployment better extends served { layout = said }
    """
    subject, found = study.subject, study.costs
    degrees, a = subject.degrees, subject.degrees.attention
    if a.dp == 1 or not found.fits:
        return
    there = {tensor.module for tensor in study.placed.tensors}
    blocks = [
        word
        for word, modules in MODULES_OF.items()
        if there & set(modules) and not _said(word, degrees, subject.engine)
    ]
    other = study.under(_copied(degrees, blocks)) if blocks else None
    if other is None:
        return
    more = other.values["memory.weights"].value - found.values["memory.weights"].value
    if more <= 0:
        return
    to_write = [b for b in blocks if b != "shared_experts" or "ffn" not in blocks]
    modules = [m.replace("_", " ") for b in blocks for m in MODULES_OF[b] if m in there]
    yield Fact(
        subject.place("layout"),
        {
            "modules": " and ".join((", ".join(modules[:-1]), modules[-1])).removeprefix(" and "),
            "blocks": "; ".join(f"`{b} {{ tp = {degrees.size} }}`" for b in to_write),
            "size": degrees.size,
            "more": Quantity(more, BYTES),
            "before": found.values["kv.tokens"].quantity,
            "after": other.values["kv.tokens"].quantity,
        },
        (("more on a GPU if copied", Quantity(more, BYTES)),),
        Suggestion("a copy on each DP rank", other.subject.degrees.text(), other,
                   ("kv.tokens", "memory.weights", "kv.sequences")),
        severity=Severity.INFO if subject.engine is None else None,
    )  # fmt: skip


def _copied(degrees: Degrees, blocks: Sequence[str]) -> Degrees:
    """The same with a copy of the blocks on each DP rank."""
    copied = WidthAxes(dp=degrees.attention.dp, tp=degrees.size // degrees.attention.dp)
    return replace(
        degrees,
        ffn=copied if "ffn" in blocks else degrees.ffn,
        shared=copied if "shared_experts" in blocks else degrees.shared,
        vocab=copied if "vocab" in blocks else degrees.vocab,
        name="",
    )


def _said(block: str, degrees: Degrees, engine: Engine | None) -> bool:
    """Whether the layout writes a block, or the engine says of all its modules how they lie."""
    if block in degrees.said or (block == "shared_experts" and "ffn" in degrees.said):
        return True
    return engine is not None and all(m in engine.origins for m in MODULES_OF[block])


@rule(
    "KV182",
    "needless-dp-attention",
    Severity.INFO,
    "costs",
    "DP attention gains nothing here: the cache's {heads:KV heads} still divide over TP={tp}",
    label="{copies:copies} of the attention weights, and one of the cache either way",
    notes=("under TP={tp} the cache holds {after}, not {before}, and a token takes {other}, not "
           "{tpot}",),
    flips="TP past the {heads:KV heads}, which copies the cache",
)  # fmt: skip
def needless_dp_attention(study: Study) -> Iterator[Fact]:
    """DP attention saves no copies where KV heads still divide over the ranks.

    What it checks
        All attention has KV heads, at least as many as ranks; DP > 1; and TP instead would hold
        as many tokens and take no longer for one.

    Why it matters
        DP attention is for caches that TP would copy: a latent, or fewer KV heads than ranks.
        Elsewhere it only copies the attention weights.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { attention { dp = 8 }; ffn { tp = 8 }; vocab { tp = 8 } }
          budget   { reserve = 3 GB }
          workload { context = 1 ktok; concurrency = 8 req }
        }

    Instead
        Nothing: this is information. Attention under TP, unless the engine does better with DP.
    """
    a, found, heads = study.subject.degrees.attention, study.costs, fewest_kv_heads(study)
    wide = a.dp * a.tp
    grouped = all(isinstance(part, Gqa) for _, part in softmax_parts(study))
    if heads is None or not grouped or a.dp == 1 or heads % wide or found.decode is None:
        return
    other = _under_tp(study)
    if other is None or not found.fits or other.number("decode.tpot") > found.number("decode.tpot"):
        return
    if other.values["kv.tokens"].value < found.values["kv.tokens"].value:
        return
    yield Fact(
        study.subject.place("layout"),
        {
            "heads": heads,
            "tp": wide,
            "copies": a.dp,
            "before": found.values["kv.tokens"].quantity,
            "after": other.values["kv.tokens"].quantity,
            "tpot": found.values["decode.tpot"].quantity,
            "other": other.values["decode.tpot"].quantity,
        },
        (("copies of the attention weights", Quantity(a.dp)),),
        _tp_instead(other),
    )


RULES: tuple[Rule, ...] = (
    costly_dp_attention,
    unsaid_placement,
    needless_dp_attention,
)
