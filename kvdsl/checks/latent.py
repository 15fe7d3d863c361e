"""Rules on the latent cache and on data-parallel attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.checks.study import CACHE_VALUES, Fact, Study, Suggestion, softmax_parts
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import AttentionAxes, Degrees, attention_dp
from kvdsl.rules import Rule, rule
from kvdsl.spec.model import Mla, Moe
from kvdsl.units import BYTES, NONE, REQUESTS, TOKENS, Quantity


def _attention_bytes(study: Study) -> Quantity:
    """Bytes of all attention weights, one copy."""
    stored = 0
    for stage in study.placed.stages:
        for book in study.costs.ledgers:
            if book.rank.stage == stage.number:
                modules = dict(book.modules)
                held = [s.held for s in stage.shards if s.tensor.module == "attention"]
                if "attention" in modules and held:
                    stored += int(modules["attention"].value / held[0])
                break
    return Quantity(stored, BYTES)


def _cached_tokens(study: Study) -> Quantity:
    load = study.costs.load
    if load is None:
        return Quantity(0, TOKENS)
    return Quantity(load.served.value * load.context.value, TOKENS)


def _break_even(study: Study) -> Quantity:
    token = study.costs.values["kv.bytes_per_token"].value
    return Quantity(_attention_bytes(study).value / float(token), TOKENS)


def _is_mla(study: Study) -> bool:
    parts = softmax_parts(study)
    return bool(parts) and all(isinstance(part, Mla) for _, part in parts)


@rule(
    "KV181",
    "small-batch-latent",
    Severity.INFO,
    "costs",
    "TP attention is right for so small a batch: {cached} cached, break-even at {even}",
    label="the latent is copied {copies} times, and cheap here",
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
    if not _is_mla(study) or attention.tp == 1 or attention.cp > 1 or not study.costs.fits:
        return
    cached, even = _cached_tokens(study), _break_even(study)
    if cached.value >= even.value:
        return
    token = study.costs.values["kv.bytes_per_token"].value
    weights = _attention_bytes(study)
    size = Quantity(cached.value * token, BYTES)
    yield Fact(
        study.subject.place("layout"),
        {
            "cached": cached,
            "even": even,
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
    "TP={tp} keeps {copies} copies of the latent cache",
    label="every one of {tp} ranks holds all of it",
    notes=("the latent is one for all heads: {per_gpu} a GPU, whatever TP is",),
    flips="few cached tokens (break-even at {even}), or fewer requests than ranks",
)
def copied_latent(study: Study) -> Iterator[Fact]:
    """Tensor parallelism copies an MLA model's latent on every rank.

    What it checks
        The model caches a latent, attention has TP > 1, and the sequence is not split (cp).

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

        deployment better extends served { layout = { attention { dp = 8 }; experts { ep = 8 } } }
    """
    attention, found = study.subject.degrees.attention, study.costs
    if not _is_mla(study) or attention.tp == 1 or attention.cp > 1 or attention.latent_split:
        return
    per_gpu = found.values["kv.bytes_per_token_per_gpu"].quantity
    copies = found.values["kv.copies"].quantity
    yield Fact(
        study.subject.place("layout"),
        {
            "tp": attention.tp,
            "copies": copies,
            "per_gpu": per_gpu,
            "even": _break_even(study),
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
    "KV107",
    "idle-dp-ranks",
    Severity.WARNING,
    "costs",
    "{requests} over {ranks} DP ranks leave {idle} without a request",
    label="each DP rank owns whole requests",
    notes=("an idle rank still reads its weights and joins every exchange: all {ranks} wait for "
           "the fullest",),
    flips="contexts past {limit} a request, where two on one narrower rank read more than idle "
    "ranks cost",
)  # fmt: skip
def idle_dp_ranks(study: Study) -> Iterator[Fact]:
    """Fewer requests than DP ranks leave ranks idle in lockstep.

    What it checks
        The workload has at least as many requests in flight as the layout has DP ranks.

    Why it matters
        DP ranks step together, for the experts' exchange. An empty rank saves nothing.

    Example
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { attention { dp = 8 }; experts { ep = 8 } }
          budget   { reserve = 3 GB }
          workload { context = 32 ktok; concurrency = 6 req }
        }

    Instead
        Fewer, wider DP ranks (`attention { dp = 4; tp = 2 }`), or context parallelism.

        deployment better extends served { layout = { attention { cp = 8 }; experts { ep = 8 } } }
    """
    found, degrees = study.costs, study.subject.degrees
    if degrees.attention.dp == 1 or found.load is None:
        return
    asked = int(found.load.asked.value)
    ranks = degrees.holders
    if asked >= ranks:
        return
    token = found.values["kv.bytes_per_token"].value
    limit = Quantity(_attention_bytes(study).value / (2 * float(token)), TOKENS)
    yield Fact(
        study.subject.place("layout"),
        {
            "requests": Quantity(asked, REQUESTS),
            "ranks": ranks,
            "idle": ranks - asked,
            "limit": limit,
        },
        (("idle ranks", Quantity(ranks - asked)), ("DP ranks", Quantity(ranks, NONE))),
        _narrower(study, degrees),
    )


def _narrower(study: Study, degrees: Degrees) -> Suggestion | None:
    a = degrees.attention
    if a.dp % 2:
        return None
    other = replace(
        degrees,
        attention=AttentionAxes(a.dp // 2, a.cp, a.pcp, a.tp * 2, a.interleave),
        name="",
    )
    found = study.under(other)
    if found is None or not found.fits:
        return None
    title = f"DP={a.dp // 2} x TP={a.tp * 2} attention"
    return Suggestion(title, other.text(), found, ("decode.tpot", "kv.tokens", "memory.weights"))


RULES: tuple[Rule, ...] = (small_batch_latent, copied_latent, idle_dp_ranks)
