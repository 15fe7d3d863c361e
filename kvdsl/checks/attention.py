"""Rules on attention: heads over ranks, copies of the cache, DP ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.checks.study import Fact, Study, Suggestion
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import AttentionAxes, Degrees, attention_dp, uniform
from kvdsl.rules import Rule, rule
from kvdsl.spec.model import Gqa, Mla, Moe, Softmax
from kvdsl.units import BYTES, BYTES_PER_TOKEN, NONE, REQUESTS, TIME, TOKENS, Quantity

_KV = ("kv.tokens", "kv.bytes_per_token_per_gpu", "kv.copies", "memory.weights")


def _softmax(study: Study) -> list[tuple[str, Softmax]]:
    parts = study.subject.model.parts
    return [(name, part) for name, part in parts.items() if isinstance(part, Gqa | Mla)]


def _fewest_kv_heads(study: Study) -> int | None:
    heads = [p.kv_heads for _, p in _softmax(study) if isinstance(p, Gqa)]
    return min(heads, default=None)


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, min(number, 4096) + 1) if number % d == 0]


def _near(number: int, around: int) -> str:
    """Divisors of `number` next to `around`, as a list for people."""
    found = _divisors(number)
    below = [d for d in found if d < around][-2:]
    above = [d for d in found if d > around][:2]
    return ", ".join(map(str, (*below, *above)))


@rule(
    "KV102",
    "uneven-query-heads",
    Severity.ERROR,
    "subject",
    "{heads} query heads cannot be split over TP={tp}",
    label="attention is cut {tp} ways",
    notes=("{heads} / {tp} is not whole, and a head cannot be cut",),
    helps=("TP of {legal} divides the heads of `{part}`",),
    silences=("KV103",),
)
def uneven_query_heads(study: Study) -> Iterator[Fact]:
    """Query heads divide over the tensor-parallel ranks.

    What it checks
        The attention TP of the layout divides the query heads of every attention part.

    Why it matters
        A rank owns whole query heads. Every engine refuses to start where they do not divide.

    Example
        deployment d {
          model    = models.llama_3_1_405b
          weights  = formats.fp8
          kv       = formats.bf16
          on       = [1 x nodes.hgx_h100, 1 x nodes.hgx_h100]
          layout   { tp = 12 }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        Take a divisor of the head count, or put the spare devices into another stage (`pp`) or
        replica.
    """
    tp = study.subject.degrees.attention.tp
    for name, part in _softmax(study):
        if part.query_heads % tp:
            yield Fact(
                study.subject.place("layout"),
                {
                    "heads": part.query_heads,
                    "tp": tp,
                    "part": name,
                    "legal": _near(part.query_heads, tp),
                },
                (("query heads", Quantity(part.query_heads)), ("TP", Quantity(tp))),
            )


@rule(
    "KV103",
    "uneven-kv-heads",
    Severity.ERROR,
    "subject",
    "{heads} KV heads and TP={tp} do not divide one another",
    label="attention is cut {tp} ways",
    notes=("neither {heads} / {tp} nor {tp} / {heads} is whole: some ranks would hold more",),
    helps=("TP of {legal} divides the KV heads of `{part}`; beyond that take a multiple of {heads}",),
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
        deployment d {
          model    = odd
          weights  = formats.fp8
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 4 }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        Take a TP that divides the KV heads, or a multiple of them.
    """
    tp = study.subject.degrees.attention.tp
    for name, part in _softmax(study):
        if isinstance(part, Gqa) and part.kv_heads % tp and tp % part.kv_heads:
            heads = part.kv_heads
            yield Fact(
                study.subject.place("layout"),
                {"heads": heads, "tp": tp, "part": name, "legal": _near(heads, tp)},
                (("KV heads", Quantity(heads)), ("TP", Quantity(tp))),
            )


@rule(
    "KV101",
    "replicated-kv-heads",
    Severity.WARNING,
    "costs",
    "TP={tp} is past the {heads} KV heads, so each is stored {copies} times",
    label="{tp} ranks share {heads} KV heads",
    notes=(
        "a rank holds at least one KV head: {per_gpu} a GPU, as under TP={heads}",
        "one copy is {logical}; the {tp} ranks together hold {cluster}",
    ),
    flips="inside one fast domain, at low concurrency and with short contexts, TP may still win on "
    "time (KV180)",
)
def replicated_kv_heads(study: Study) -> Iterator[Fact]:
    """TP past the KV-head count replicates the cache.

    What it checks
        The attention TP is at most the number of KV heads (context parallelism counts against the
        copies).

    Why it matters
        A rank cannot hold a part of a KV head. Past TP = KV heads the cache per GPU stops
        shrinking and every further rank stores a copy. The weights it frees are spent on them.

    Example
        cluster two { nodes = 2 x nodes.hgx_h100; fabric = links.infiniband_ndr }
        deployment d {
          model    = models.llama_3_1_405b
          weights  = formats.fp8
          kv       = formats.bf16
          on       = two
          layout   { tp = 16 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 64 req }
        }

    Instead
        TP = KV heads, and the other devices as pipeline stages; or context parallelism inside the
        TP group; or data-parallel attention.
    """
    heads = _fewest_kv_heads(study)
    degrees, found = study.subject.degrees, study.costs
    tp = degrees.attention.tp
    if heads is None or tp <= heads:
        return
    logical = found.values["kv.bytes_per_token"].quantity
    per_gpu = found.values["kv.bytes_per_token_per_gpu"].quantity
    copies = found.values["kv.copies"].quantity
    cluster = Quantity(logical.value * copies.value, BYTES_PER_TOKEN)
    yield Fact(
        study.subject.place("layout"),
        {
            "tp": tp,
            "heads": heads,
            "copies": tp // heads,
            "per_gpu": per_gpu,
            "logical": logical,
            "cluster": cluster,
        },
        (
            ("copies", copies),
            ("bytes a token a GPU", per_gpu),
            ("bytes a token, one copy", logical),
            ("bytes a token, all ranks", cluster),
        ),
        _staged(study, heads),
    )


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
                      (*_KV, "decode.tpot"))  # fmt: skip


@rule(
    "KV180",
    "tp-wins-on-time",
    Severity.INFO,
    "costs",
    "at {requests} in flight TP={tp} may win on time: {tpot} a token against {other} as TP={heads} "
    "x PP={pp}",
    label="all {tp} ranks lie in one fast domain",
    notes=(
        "TP={tp} reads fewer weight bytes a step; it wins while each of its {count} layer "
        "all-reduces costs less than {allowed} more than at TP={heads}",
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
        deployment d {
          model    = models.llama_3_1_405b
          weights  = formats.fp8
          kv       = formats.bf16
          on       = 1 x racks.gb200_nvl72
          layout   { tp = 16 }
          budget   { reserve = 3 GB }
          workload { context = 2 ktok; concurrency = 1 req }
        }

    Instead
        Nothing: this is information. Keep TP if time a token is what counts.
    """
    heads, found = _fewest_kv_heads(study), study.costs
    degrees = study.subject.degrees
    tp = degrees.attention.tp
    group = study.placed.widest("attention.tp", 0)
    if heads is None or tp <= heads or group is None or not group.reach.fast:
        return
    if found.load is None or found.load.queued or not found.fits:
        return
    other = _staged(study, heads)
    if other is None or other.estimate.number("decode.tpot") <= found.number("decode.tpot"):
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


# --- the latent --------------------------------------------------------------------------------


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
    parts = _softmax(study)
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
        deployment d {
          model    = models.deepseek_v3
          weights  = formats.fp8
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h200
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
        deployment d {
          model    = models.deepseek_v3
          weights  = formats.fp8
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h200
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 4096 tok; concurrency = 512 req }
        }

    Instead
        Data-parallel attention beside expert parallelism, or context parallelism.
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
    return Suggestion(title, other.text(), found, (*_KV, "kv.sequences", "decode.tpot"))


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
        deployment d {
          model    = models.deepseek_v3
          weights  = formats.fp8
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h200
          layout   { attention { dp = 8 }; experts { ep = 8 } }
          budget   { reserve = 3 GB }
          workload { context = 32 ktok; concurrency = 6 req }
        }

    Instead
        Fewer, wider DP ranks (`attention { dp = 4; tp = 2 }`), or context parallelism.
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


RULES: tuple[Rule, ...] = (
    uneven_query_heads,
    uneven_kv_heads,
    replicated_kv_heads,
    tp_wins_on_time,
    small_batch_latent,
    copied_latent,
    idle_dp_ranks,
)

