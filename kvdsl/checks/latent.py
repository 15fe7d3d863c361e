"""Rules on the latent cache: its copies, its split, its rope key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from kvdsl.checks.study import (
    CACHE_VALUES,
    Fact,
    Study,
    Suggestion,
    attention_bytes,
    break_even,
    cached_tokens,
    caches_latent,
    whole,
)
from kvdsl.costs.estimate import Estimate
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import AttentionAxes, attention_dp
from kvdsl.rules import Rule, rule
from kvdsl.spec.model import Mla, Moe
from kvdsl.units import BYTES, BYTES_PER_TOKEN, TIME, Quantity, tidy

SCORE_BYTES = 4
"""A score is reduced in fp32."""

PUBLISHED_ROPE = 64
"""Values of the rope key of DeepSeek V2, V3 and R1 (config.json, qk_rope_head_dim). Used for 'what
if' only."""


@rule(
    "KV181",
    "small-batch-latent",
    Severity.INFO,
    "costs",
    "TP attention is right for so small a batch: {cached} cached, break-even at {even}",
    label="the latent is copied {copies:times}, and cheap here",
    notes=("all cached bytes ({bytes}) are fewer than the attention weights ({weights}), which DP "
           "attention would read on every rank",),
    silences=("KV105",),
    flips="cached tokens past {even}",
)  # fmt: skip
def small_batch_latent(study: Study) -> Iterator[Fact]:
    """A latent cache smaller than the attention weights is better left under TP.

    What it checks
        The model caches a latent (MLA), attention has TP > 1, and the workload's cached bytes are
        fewer than the attention weights.

    Why it matters
        DP attention frees cache but makes every rank read all attention weights each step. It pays
        only when cached bytes exceed those weights, whatever the number of devices.

    Example
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 4096 tok; concurrency = 1 req }
        }

    Instead
        Nothing: this is information. It silences KV105.
    """
    attention = study.subject.degrees.attention
    if not caches_latent(study) or attention.tp == 1 or attention.cp > 1 or not study.costs.fits:
        return
    cached, even = cached_tokens(study), break_even(study)
    if cached.value >= even.value:
        return
    token = study.costs.values["kv.bytes_per_token"].value
    weights = attention_bytes(study)
    size = Quantity(cached.value * token, BYTES)
    yield Fact(
        study.subject.place("layout"),
        {
            "cached": cached,
            "even": whole(even),
            "copies": attention.tp,
            "bytes": size,
            "weights": weights,
        },
        (("cached", size), ("attention weights", weights), ("break-even", even)),
    )


@rule(
    "KV105",
    "copied-latent",
    Severity.WARNING,
    "costs",
    "TP={tp} keeps {copies:copies} of the latent cache",
    label="every one of {tp:ranks} holds all of it",
    notes=(
        "the latent is one for all heads: {per_gpu} a GPU, whatever TP is",
        "with the sequence cut over the same ranks (`{way}`) it holds {by_sequence} in one copy",
    ),
    flips="few cached tokens (break-even at {even}), or fewer requests than ranks",
)
def copied_latent(study: Study) -> Iterator[Fact]:
    """Tensor parallelism copies an MLA model's latent on every rank.

    What it checks
        The model caches a latent, attention has TP > 1, and the sequence is not split (cp). A mix
        of DP and TP is left alone where pure DP would have more ranks than requests.

    Why it matters
        All heads read the one latent, so every TP rank stores and reads all of it.

    Example
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 256 req }
        }

    Instead
        Data-parallel attention beside expert parallelism, or context parallelism.

        deployment better extends served {
          layout = { attention { dp = 8 }; experts { ep = 8 } }
        }
    """
    attention, found = study.subject.degrees.attention, study.costs
    if not caches_latent(study) or attention.tp == 1 or attention.cp > 1 or attention.latent_split:
        return
    asked = found.load.asked.value if found.load is not None else 0
    if attention.dp > 1 and asked < study.subject.degrees.holders * attention.tp:
        return
    per_gpu = found.values["kv.bytes_per_token_per_gpu"].quantity
    copies = found.values["kv.copies"].quantity
    other = _by_sequence(study)
    yield Fact(
        study.subject.place("layout"),
        {
            "tp": attention.tp,
            "copies": copies,
            "per_gpu": per_gpu,
            "even": whole(break_even(study)),
            "way": other.text if other is not None else "",
            "by_sequence": other.estimate.values["kv.tokens"].quantity if other is not None else "",
        },
        (("copies", copies), ("bytes a token a GPU", per_gpu)),
        _data_parallel(study),
    )


def _data_parallel(study: Study) -> Suggestion | None:
    degrees = study.subject.degrees
    experts = [p.experts for p in study.subject.model.parts.values() if isinstance(p, Moe)]
    other = attention_dp(degrees.size, degrees.size, degrees.pp, degrees.replicas)
    title = f"DP={degrees.size} attention"
    if experts and all(e % degrees.size == 0 for e in experts):
        title += f" with EP={degrees.size}"
    else:
        other = replace(other, experts=degrees.experts)
    found = study.under(replace(other, order=degrees.order, stage_layers=degrees.stage_layers))
    if found is None or not found.fits:
        return None
    return Suggestion(title, other.text(), found, (*CACHE_VALUES, "kv.sequences", "decode.tpot"))


@rule(
    "KV112",
    "exact-latent-split",
    Severity.WARNING,
    "costs",
    "an exact split of the latent reduces every score: {bytes} a step on each rank",
    label="{tp:ranks} hold a part of every key",
    notes=("{each} of scores a cached token and layer, against {record} of latent; it grows with "
           "the context, and takes {time} of {tpot}",),
    helps=("with `exact = false` each rank takes its own softmax, an approximation; `cp` cuts the "
           "sequence and stays exact",),
)  # fmt: skip
def exact_latent_split(study: Study) -> Iterator[Fact]:
    """A latent that is split by columns and exact has every score reduced over the ranks.

    What it checks
        `latent = split` with `exact = true` and TP > 1, in a model that caches a latent.

    Why it matters
        Each rank sees a part of every key, so that scores are partial sums. They have to be added
        up before the softmax, for each head and each cached token: 512 B a token and layer at 128
        heads, beside 1,152 B of latent. That is why documents on MLA say that the latent cannot
        be split. Others say that one all-reduce behind attention is enough, and both are right:
        TPLA (arXiv 2508.15881) lets each rank take a softmax of its own slice, which is another
        result. `exact = false` says that an approximation is wanted; then no score is exchanged,
        a rank keeps kv_rank / tp + rope_dim values (320 of 576 at tp = 2, at most 1.8x less), and
        quality has to be measured.

    Example
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   {
            attention { tp = 2; latent = split }; experts { tp = 2 }; replicas = 4
          }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 64 req }
        }

    Instead
        Context parallelism, or an approximation that is said to be one.

        layout by_tokens { attention { cp = 2 }; experts { ep = 2 }; replicas = 4 }

        deployment better extends served { layout = by_tokens }
    """
    a, found = study.subject.degrees.attention, study.costs
    parts = [p for p in study.subject.model.parts.values() if isinstance(p, Mla)]
    if not parts or not a.latent_split or not a.exact or a.tp == 1 or found.load is None:
        return
    heads = max(part.query_heads for part in parts)
    each = heads * SCORE_BYTES
    layers = sum(part.layers for part in study.placed.parts if part.form == "mla")
    tokens = Fraction(found.load.batch.value) * Fraction(found.load.context.value)
    record = Fraction(found.values["kv.bytes_per_token"].value) / layers
    size = Quantity(tidy(layers * tokens * each), BYTES)
    yield Fact(
        study.subject.place("layout"),
        {
            "tp": a.tp,
            "bytes": size,
            "each": Quantity(each, BYTES),
            "record": Quantity(tidy(record), BYTES),
            "time": Quantity(_score_time(found), TIME),
            "tpot": found.values["decode.tpot"].quantity,
        },
        (("scores a step", size), ("all-reduces of scores", Quantity(_score_time(found), TIME))),
        _by_sequence(study),
    )


def _score_time(found: Estimate) -> float:
    """Seconds of a step in which scores are reduced."""
    exchanged = found.decode.exchanges if found.decode is not None else ()
    return float(sum(float(c.all.value) for c in exchanged if c.exchange.each_pair))


def _by_sequence(study: Study) -> Suggestion | None:
    degrees = study.subject.degrees
    a = degrees.attention
    other = replace(degrees, attention=AttentionAxes(a.dp, a.cp * a.tp, a.pcp), name="")
    found = study.under(other)
    if found is None or not found.fits:
        return None
    title = f"the sequence cut (cp = {a.cp * a.tp})"
    return Suggestion(title, other.text(), found, (*CACHE_VALUES, "decode.tpot"))


@rule(
    "KV113",
    "missing-rope-key",
    Severity.ERROR,
    "costs",
    "`{part}` caches a latent of {latent:values} and no rope key",
    label="the cache counts {size} a token",
    notes=("a rope key of {rope:values}, as DeepSeek publishes, adds {more}: the cache holds "
           "{after}, not {before}",),
    helps=("give `rope_dim`; if the model has no positions in its keys, allow this finding",),
)  # fmt: skip
def missing_rope_key(study: Study) -> Iterator[Fact]:
    """A latent cache keeps the rope key beside the latent.

    What it checks
        Every `mla` part has a `rope_dim` above 0.

    Why it matters
        Positions cannot be folded into the latent, so a key with them is cached once for all
        heads. Without it DeepSeek V3 is counted with 512 values instead of 576, 11.1 % too few.

    Example
        model short extends models.deepseek_v2_lite {
          attention latent { rope_dim = 0 }
        }
        deployment served {
          model    = short
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { attention { dp = 8 }; experts { ep = 8 } }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 256 req }
        }

    Instead
        The `qk_rope_head_dim` of the model's config.json.

        deployment better extends served { model = models.deepseek_v2_lite }
    """
    model, found = study.subject.model, study.costs
    for name, part in model.parts.items():
        if not isinstance(part, Mla) or part.rope_dim:
            continue
        keyed = part.model_copy(update={"rope_dim": PUBLISHED_ROPE})
        parts = {**model.parts, name: keyed}
        changed = replace(study.subject, model=model.model_copy(update={"parts": parts}))
        other = study.room_of(changed)
        size, key = found.values["kv.bytes_per_token"], other.values["kv.bytes_per_token"]
        yield Fact(
            part.at or study.subject.place("model"),
            {
                "part": name,
                "latent": part.kv_rank,
                "size": size.quantity,
                "rope": PUBLISHED_ROPE,
                "more": Quantity(key.value - size.value, BYTES_PER_TOKEN),
                "before": found.values["kv.tokens"].quantity,
                "after": other.values["kv.tokens"].quantity,
            },
            (("without a rope key", size.quantity), ("with one", key.quantity)),
        )


RULES: tuple[Rule, ...] = (
    small_batch_latent,
    copied_latent,
    exact_latent_split,
    missing_rope_key,
)
