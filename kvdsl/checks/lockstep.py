"""Rules on DP ranks that step together: ranks without a request, and waiting for the fullest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvdsl.checks.study import Fact, Study, Suggestion, attention_bytes
from kvdsl.costs.estimate import Estimate
from kvdsl.diagnostics import Severity
from kvdsl.placement.degrees import AttentionAxes, Degrees
from kvdsl.rules import Rule, rule
from kvdsl.units import NONE, REQUESTS, TIME, TOKENS, Quantity


@rule(
    "KV107",
    "idle-dp-ranks",
    Severity.WARNING,
    "costs",
    "{requests} over {ranks:DP ranks} leave {idle} without a request",
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

        deployment better extends served {
          layout = { attention { cp = 8 }; experts { ep = 8 } }
        }
    """
    found, degrees = study.costs, study.subject.degrees
    if degrees.attention.dp == 1 or found.load is None:
        return
    asked = int(found.load.asked.value)
    ranks = degrees.holders
    if asked >= ranks:
        return
    token = found.values["kv.bytes_per_token"].value
    if not token:  # no cache grows: no context is long enough to turn the advice
        return
    limit = Quantity(attention_bytes(study).value / (2 * float(token)), TOKENS)
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


@rule(
    "KV108",
    "uneven-load",
    Severity.WARNING,
    "costs",
    "the fullest of {ranks:DP ranks} holds {most} where the mean is {mean}: all wait for it",
    label="{asked} in flight over {ranks:ranks}",
    notes=("with {fewer} in flight a token takes {other}, not {tpot}, and the deployment gives "
           "{more}, not {rate}",),
    flips="requests that differ in length, dealt by their cached bytes",
)  # fmt: skip
def uneven_load(study: Study) -> Iterator[Fact]:
    """Requests that do not divide over DP ranks slow all ranks down to the fullest.

    What it checks
        Whether fewer requests in flight, as many on each DP rank, would give more tokens a second
        in all: then the last few cost the others more than they bring. Gains of less than one
        percent are not told.

    Why it matters
        DP ranks step together, for the experts' exchange. A rank with one long request more makes
        all others wait while it reads that request's cache.

    Example
        deployment served {
          model    = models.deepseek_v2_lite
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { attention { dp = 8 }; experts { ep = 8 } }
          budget   { reserve = 3 GB }
          workload { context = 160 ktok; concurrency = 33 req }
        }

    Instead
        As many requests on each rank, or context parallelism, which shares each request out.

        deployment better extends served { workload { concurrency = 32 req } }
    """
    found, degrees = study.costs, study.subject.degrees
    load, ranks = found.load, degrees.holders
    if degrees.attention.dp == 1 or load is None or found.crowded or not found.fits:
        return
    asked = int(load.asked.value)
    fewer = asked // ranks * ranks
    if fewer in (0, asked) or study.subject.workload.concurrency is None:
        return
    other = study.in_flight(fewer)
    if other is None:
        return
    gained = other.number("decode.throughput") / found.number("decode.throughput") - 1
    if int(gained * 100) < 1:
        return
    yield Fact(
        study.subject.place("workload"),
        {
            "ranks": ranks,
            "most": load.busiest.quantity,
            "mean": load.mean.quantity,
            "asked": load.asked.quantity,
            "fewer": Quantity(fewer, REQUESTS),
            "tpot": found.values["decode.tpot"].quantity,
            "other": other.values["decode.tpot"].quantity,
            "rate": found.values["decode.throughput"].quantity,
            "more": other.values["decode.throughput"].quantity,
        },
        (
            ("requests on the fullest rank", load.busiest.quantity),
            ("requests on a rank, mean", load.mean.quantity),
            ("wait for the fullest", _waited(found)),
        ),
        Suggestion(
            f"concurrency = {fewer} req", f"workload {{ concurrency = {fewer} req }}", other,
            ("decode.tpot", "decode.throughput"),
        ),
    )  # fmt: skip


def _waited(found: Estimate) -> Quantity:
    """What the fullest rank reads of the cache past the mean rank, in a step."""
    return Quantity(found.number("decode.kv_read") - found.number("decode.kv_read_mean"), TIME)


RULES: tuple[Rule, ...] = (idle_dp_ranks, uneven_load)
