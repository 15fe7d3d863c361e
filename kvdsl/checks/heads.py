"""Rules on heads: how they divide over ranks, and where they are copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.checks.refusals import POLICY_NOTE, policy
from kvdsl.checks.splits import Splits, listed, splits, widths
from kvdsl.checks.study import (
    CACHE_VALUES,
    Fact,
    Study,
    Suggestion,
    fewest_kv_heads,
    softmax_parts,
    told_apart,
)
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import ExpertAxes, uniform
from kvdsl.rules import Rule, rule
from kvdsl.spec.model import Gqa, Moe
from kvdsl.units import BYTES_PER_TOKEN, TIME, Quantity, shown


@rule(
    "KV102",
    "uneven-query-heads",
    Severity.ERROR,
    "subject",
    "{heads:query heads} cannot be split over TP={tp}",
    label="attention is cut {tp:ways}",
    notes=(
        "{heads} / {tp} is not whole, and a head cannot be cut",
        "the same {devices:devices}: {splits}",
    ),
    helps=(
        "TP of {legal} divides {all}",
        "nothing joins the devices of {unjoined}, so none of them goes past one: give it a "
        "`scale_up`, or a `host` with its `link`",
    ),
    silences=("KV103", "KV221"),
)
def uneven_query_heads(study: Study) -> Iterator[Fact]:
    """Query heads divide over the tensor-parallel ranks.

    What it checks
        The attention TP of the layout divides the query heads of every attention part. The help
        lists TP that divide everything: KV heads, and with an engine also feed-forward, vocabulary
        and weight blocks. Each of them is tried with the other devices as stages and as replicas.

    Why it matters
        A rank owns whole query heads. Every engine refuses to start where they do not divide.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 6 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        Take a divisor of the head count, or put the spare devices into another stage (`pp`) or
        replica.

        deployment better extends served { layout = { tp = 4; replicas = 2 } }
    """
    tp = study.subject.degrees.attention.tp
    uneven = [part.query_heads for _, part in softmax_parts(study) if part.query_heads % tp]
    if not uneven:
        return
    legal = () if study.closed else widths(study)
    ways = splits(study, legal)
    for heads in dict.fromkeys(uneven):
        yield _undivided(study, heads, legal, ways)


def _unjoined(study: Study) -> str:
    """A node whose devices have no link to each other: only TP of 1 stands on it."""
    topology = study.subject.topology
    if topology.devices < 2:
        return ""
    reach = topology.reach((0, 1))
    return reach.title if reach.join is None and reach.kind == "node" else ""


def _undivided(study: Study, heads: int, legal: tuple[int, ...], ways: Splits) -> Fact:
    """Heads that TP does not divide, query or KV heads, and what would."""
    tp, engine = study.subject.degrees.attention.tp, study.subject.engine
    return Fact(
        study.subject.place("layout"),
        {
            "heads": heads,
            "tp": tp,
            "devices": study.subject.degrees.devices,
            "splits": ways.text,
            "legal": listed(legal),
            "unjoined": _unjoined(study),
            "all": "heads" if engine is None else "heads, feed-forward and vocabulary",
        },
        (("heads", Quantity(heads)), ("TP", Quantity(tp))),
        ways.best,
    )


@rule(
    "KV103",
    "uneven-kv-heads",
    Severity.ERROR,
    "subject",
    "{heads:KV heads} and TP={tp} do not divide one another",
    label="attention is cut {tp:ways}",
    notes=(
        "neither {heads} / {tp} nor {tp} / {heads} is whole: some ranks would hold more",
        "the same {devices:devices}: {splits}",
    ),
    helps=(
        "TP of {legal} divides {all}",
        "nothing joins the devices of {unjoined}, so none of them goes past one: give it a "
        "`scale_up`, or a `host` with its `link`",
    ),
)
def uneven_kv_heads(study: Study) -> Iterator[Fact]:
    """KV heads divide over the ranks, or the ranks over the KV heads.

    What it checks
        TP divides the KV heads (each rank holds several) or the KV heads divide TP (each is
        copied equally often).

    Why it matters
        Otherwise ranks hold unequal caches; engines refuse to start.

    Example
        model odd {
          hidden = 3072; vocab = 32_000
          attention a = gqa { query_heads = 24; kv_heads = 6; head_dim = 128 }
          ffn f = gated { intermediate = 8192 }
          stack { 28 x layer { a; f } }
        }
        deployment served {
          model    = odd
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 4 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        Take a TP that divides the KV heads, or a multiple of them.

        deployment better extends served { layout = { tp = 2; replicas = 4 } }
    """
    tp = study.subject.degrees.attention.tp
    parts = [part for _, part in softmax_parts(study) if isinstance(part, Gqa)]
    uneven = [p.kv_heads for p in parts if p.kv_heads % tp and tp % p.kv_heads]
    if not uneven:
        return
    legal = () if study.closed else widths(study)
    ways = splits(study, legal)
    for heads in dict.fromkeys(uneven):
        yield _undivided(study, heads, legal, ways)


@rule(
    "KV101",
    "replicated-kv-heads",
    Severity.WARNING,
    "costs",
    "TP={tp} is past the {heads:KV heads}, so each is stored {copies:times}",
    label="{tp:ranks} share {heads:KV heads}",
    notes=(
        "a rank holds at least one KV head: from TP={heads} on the cache of a GPU stops shrinking, "
        "at {per_gpu}",
        "one copy is {logical}; the {tp:ranks} together hold {cluster}",
        "{stored}",
        "the same {devices:devices}: {ways}",
    ),
    flips="inside one fast domain, at low concurrency and with short contexts, TP may still win on "
    "time (KV180)",
    also=(Severity.INFO,),
)
def replicated_kv_heads(study: Study) -> Iterator[Fact]:
    """TP past the KV-head count replicates the cache.

    What it checks
        The attention TP is at most the number of KV heads (context parallelism counts against the
        copies).

    Why it matters
        A rank cannot hold a part of a KV head. Past TP = KV heads the cache per GPU stops
        shrinking and every further rank stores a copy. The weights it frees are spent on them.
        Engines that store no copies refuse (`kv_copies`, KV222), or fail at the first request.

    Example
        deployment served {
          model    = models.qwen3_30b_a3b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 32 ktok; concurrency = 64 req }
        }

    Instead
        TP = KV heads, and the other devices as pipeline stages; or context parallelism inside the
        TP group; or data-parallel attention.

        deployment better extends served { layout = { tp = 4; pp = 2 } }
    """
    heads = fewest_kv_heads(study)
    degrees, found = study.subject.degrees, study.costs
    tp = degrees.attention.tp
    if heads is None or tp <= heads:
        return
    logical = found.values["kv.bytes_per_token"].quantity
    per_gpu = found.values["kv.bytes_per_token_per_gpu"].quantity
    copies = found.values["kv.copies"].quantity
    cluster = Quantity(logical.value * copies.value, BYTES_PER_TOKEN)
    ways = _in_one_copy(study, heads)
    engine = study.subject.engine
    stored = POLICY_NOTE.format_map(policy(engine, "kv_copies")) if engine else STORED
    yield Fact(
        study.subject.place("layout"),
        {
            "tp": tp,
            "heads": heads,
            "copies": tp // heads,
            "per_gpu": per_gpu,
            "logical": logical,
            "cluster": cluster,
            "stored": stored,
            "devices": degrees.devices,
            "ways": "; ".join(_said(way) for way in ways[1:]),
        },
        (
            ("copies", copies),
            ("bytes a token a GPU", per_gpu),
            ("bytes a token, one copy", logical),
            ("bytes a token, all ranks", cluster),
        ),
        ways[0] if ways else None,
    )


STORED = (
    "vLLM, SGLang and TensorRT-LLM store the copies; transformers' own TP fails at the first "
    "request (huggingface/transformers#48307)"
)
"""Which engines do what, where the deployment names none."""


def _said(way: Suggestion) -> str:
    held = shown(way.estimate.values["kv.tokens"].quantity)
    return f"{held} as `{way.text}`"


def _in_one_copy(study: Study, heads: int) -> list[Suggestion]:
    """The same devices with fewer copies of each KV head: TP = KV heads beside stages, ranks that
    own requests, ranks that own runs of the sequence. Each holds more than the plan. A single KV
    head would leave stages of one device each: that comes last."""
    found = [_staged(study, heads), *_by_rank(study, heads)]
    if heads == 1:
        found = found[1:] + found[:1]
    most = study.costs.values["kv.tokens"].value
    return [one for one in found if one and one.estimate.values["kv.tokens"].value > most]


def _staged(study: Study, heads: int) -> Suggestion | None:
    """TP = KV heads with the rest of the devices as stages."""
    degrees = study.subject.degrees
    if degrees != replace(uniform(degrees.size, degrees.pp, degrees.replicas), name=degrees.name,
                          order=degrees.order, stage_layers=degrees.stage_layers):  # fmt: skip
        return None
    if degrees.size % heads:
        return None
    other = uniform(heads, degrees.pp * degrees.size // heads, degrees.replicas)
    if other.pp > study.subject.model.layers:
        return None
    found = study.under(other)
    if found is None or not found.fits:
        return None
    return Suggestion(f"TP={heads} x PP={other.pp}", other.text(), found,
                      (*CACHE_VALUES, "decode.tpot"))  # fmt: skip


def _by_rank(study: Study, heads: int) -> Iterator[Suggestion | None]:
    """Attention over the same ranks: requests on dp (beside experts), the sequence on cp."""
    degrees = study.subject.degrees
    a = degrees.attention
    if a.tp % heads:
        return
    more, e = a.tp // heads, degrees.experts
    by_run = ("CP", a.cp * more, replace(a, tp=heads, cp=a.cp * more), e)
    by_request = ("DP", a.dp * more, replace(a, tp=heads, dp=a.dp * more),
                  ExpertAxes(ep=e.size, redundant=e.redundant))  # fmt: skip
    sparse = any(isinstance(p, Moe) for p in study.subject.model.parts.values())
    for word, ranks, axes, experts in (by_request, by_run) if sparse else (by_run,):
        found = study.under(replace(degrees, attention=axes, experts=experts, name=""))
        if found is not None and found.fits:
            name = f"{word}={ranks} attention" if heads == 1 else f"TP={heads} x {word}={ranks}"
            yield Suggestion(name, found.subject.degrees.text(), found,
                             (*CACHE_VALUES, "kv.sequences", "decode.tpot"))  # fmt: skip


@rule(
    "KV180",
    "tp-wins-on-time",
    Severity.INFO,
    "costs",
    "at {requests} in flight TP={tp} may win on time: {tpot} a token against {other} as TP={heads} "
    "x PP={pp}",
    label="all {tp:ranks} lie in one fast domain",
    notes=(
        "TP={tp} reads fewer weight bytes a step; it wins while each of its {count:all-reduces} "
        "costs less than {allowed} more than at TP={heads}",
        "the cache does not bind here: {asked} asked, {fits} fit",
    ),
    softens=("KV101",),
    flips="more requests or longer contexts until the cache binds",
)
def tp_wins_on_time(study: Study) -> Iterator[Fact]:
    """Inside one fast domain TP past the KV heads can be the faster layout.

    What it checks
        TP is past the KV heads, its group stays in one scale-up domain, the workload fits, and a
        token takes less time than under TP = KV heads with pipeline stages.

    Why it matters
        The advice of KV101 is about capacity. Where the cache does not bind, latency decides.

    Example
        deployment served {
          model    = models.llama_3_1_405b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = racks.gb200_nvl72.devices[0..15]
          layout   { tp = 16 }
          budget   { reserve = 3 GB }
          workload { context = 2 ktok; concurrency = 1 req }
        }

    Instead
        Nothing: this is information. Keep TP if time a token is what counts.
    """
    heads, found = fewest_kv_heads(study), study.costs
    degrees = study.subject.degrees
    tp = degrees.attention.tp
    group = study.placed.widest("attention.tp", 0)
    if heads is None or tp <= heads or group is None or not group.reach.fast:
        return
    if found.load is None or found.crowded or not found.fits:
        return
    other = _staged(study, heads)
    if other is None or other.estimate.number("decode.tpot") <= found.number("decode.tpot"):
        return
    if not told_apart(*(e.values["decode.tpot"].quantity for e in (found, other.estimate))):
        return
    count = sum(
        e.count for e in study.placed.exchanges
        if e.kind == "all_reduce" and e.module != "embedding"
    )  # fmt: skip
    saved = other.estimate.number("decode.weight_read") - found.number("decode.weight_read")
    yield Fact(
        study.subject.place("layout"),
        {
            "requests": found.load.asked.quantity,
            "tp": tp,
            "heads": heads,
            "pp": other.estimate.subject.degrees.pp,
            "tpot": found.values["decode.tpot"].quantity,
            "other": other.estimate.values["decode.tpot"].quantity,
            "count": count,
            "allowed": Quantity(saved / count, TIME),
            "asked": found.load.asked.quantity,
            "fits": found.values["kv.sequences"].quantity,
        },
        (("allowed more an all-reduce", Quantity(saved / count, TIME)),),
        other,
    )


RULES: tuple[Rule, ...] = (
    uneven_query_heads,
    uneven_kv_heads,
    replicated_kv_heads,
    tp_wins_on_time,
)
