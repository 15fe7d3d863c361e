"""Rules on the load: more than fits, more than can be prefilled, longer than the model knows."""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.checks.study import Fact, Study
from kvdsl.costs.admission import RUNNING
from kvdsl.costs.cache import held_tokens
from kvdsl.costs.closed_loops import place
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.load import Load, output_of
from kvdsl.costs.pace import constants
from kvdsl.costs.sustained import sustained
from kvdsl.diagnostics import Severity
from kvdsl.formulas import Term
from kvdsl.rules import Rule, rule
from kvdsl.units import REQUEST_RATE, TIME, TOKENS, WORK_RATE, Quantity, shown


@rule(
    "KV202",
    "overload",
    Severity.WARNING,
    "costs",
    "{asked} {are} in flight and {fits} fit: {rest}",
    label="the workload asks {asked}",
    notes=("a request of {length} takes {size}; each rank or replica fits {each} whole{grown}",),
    helps=("a token takes as long as among the {runs} that run, and {wait}; fewer in flight, more "
           "devices or a smaller cache format",),
)  # fmt: skip
def overload(study: Study) -> Iterator[Fact]:
    """More requests in flight than the cache holds must queue.

    What it checks
        The workload's requests in flight are at most `kv.sequences`.

    Why it matters
        What does not fit waits for a place, and its users wait with it. An engine that gives pages
        as requests grow (`admission = prompt`) runs more than fit whole, and stops some before
        their end to begin them again later.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 32 ktok; concurrency = 256 req }
        }

    Instead
        A lower concurrency, more room, or the queue as it is.

        deployment better extends served { workload { concurrency = 32 req } }
    """
    found = study.costs
    if found.load is None or not found.fits:
        return
    fit, asked = found.values["kv.sequences"], found.load.asked
    if not found.crowded or _only_queues(found):
        return
    smallest = min(found.capacities, key=lambda c: c.requests.value)
    wait = _place_waited(study)
    more = found.values[RUNNING].value > fit.value
    grown = "; more run, each with the pages that it has filled" if more else ""
    yield Fact(
        study.subject.place("workload"),
        {
            "asked": asked.quantity,
            "are": "is" if asked.value == 1 else "are",
            "fits": fit.quantity,
            "rest": _rest(found.load, fit),
            "runs": found.load.served.quantity,
            "grown": grown,
            "length": Quantity(held_tokens(study.subject), TOKENS),
            "size": found.values["kv.bytes_per_request"].quantity,
            "holders": study.subject.degrees.holders,
            "each": smallest.requests.quantity,
            "wait": _place_said(found.load, wait),
        },
        (
            ("in flight", asked.quantity),
            ("fit", fit.quantity),
            *(() if wait is None else (("wait for a place", wait),)),
        ),
    )


def _only_queues(found: Estimate) -> bool:
    """Whether requests arrive faster than they are prefilled (KV203): they fill any cache."""
    arrives = found.subject.workload.concurrency is None
    return arrives and found.prefill is not None and found.prefill.saturated


def _place_waited(study: Study) -> Quantity | None:
    """What a first token waits for a place; None of a steady context, or where requests come at a
    rate, which no queue serves."""
    found = study.costs
    if found.load is None or study.subject.workload.concurrency is None:
        return None
    turn = found.decode.turn if found.decode is not None else None
    output, tpot = output_of(study.subject), turn or found.values["decode.tpot"]
    wait = place(found.load, output, tpot, constants(study.subject), always=False)
    return None if wait is None else wait.quantity


def _rest(load: Load, fit: Term) -> str:
    """What becomes of those that do not fit."""
    waits = shown(Quantity(load.queued, load.asked.dimension))
    if load.served.value <= fit.value:
        return f"{waits} wait"
    if load.queued:
        return f"{shown(load.served.quantity)} run as they grow, {waits} wait"
    return "all find room while they are short, and some may be stopped before their end"


def _place_said(load: Load, wait: Quantity | None) -> str:
    if not load.queued:
        return "some may be begun twice"
    if wait is None:
        return "the rest queues"
    return f"a first token waits {shown(wait)} for a place"


@rule(
    "KV203",
    "prefill-overrun",
    Severity.ERROR,
    "costs",
    "prompts arrive faster than they are prefilled: {rate} against {most} at the most",
    label="the workload asks {rate}",
    notes=(
        "a prompt among many keeps the slowest stage busy for {stage}, which alone allows {alone}; "
        "the queue grows without bound",
    ),
    helps=("a lower rate, more replicas, or more prefix hits",),
)
def prefill_overrun(study: Study) -> Iterator[Fact]:
    """A rate above the prefill's throughput cannot be served.

    What it checks
        Arrivals a server x time of its slowest stage is below 1.

    Why it matters
        The queue grows for as long as the rate holds; no time to the first token exists.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { prompt = 8 ktok; output = 200 tok; rate = 100 req/s }
        }

    Instead
        A rate below the one that the finding names.

        deployment better extends served { workload { rate = 1 req/s } }
    """
    found, workload = study.costs, study.subject.workload
    if workload.rate is None or found.prefill is None or not found.prefill.saturated:
        return
    prompts = study.subject.degrees.holders / float(found.prefill.stage.value)
    alone = Quantity(prompts / float(study.subject.pool.share or 1), REQUEST_RATE)
    most = _sustained(study) or alone
    yield Fact(
        study.subject.place("workload"),
        {
            "rate": Quantity(workload.rate, REQUEST_RATE),
            "most": most,
            "stage": found.prefill.stage.quantity,
            "alone": alone,
        },
        (("highest rate", most),),
    )


def _sustained(study: Study) -> Quantity | None:
    """The highest rate that prefill, decode and the cache serve together."""
    rate = sustained(study.costs) if study.costs.fits else None
    return None if rate is None else Quantity(rate, REQUEST_RATE)


@rule(
    "KV215",
    "rate-overrun",
    Severity.ERROR,
    "costs",
    "requests arrive faster than they are served: {rate} against {most} at the most",
    label="the workload asks {rate}",
    notes=("{needed} would be in flight and {fits}, each for {whole}",),
    helps=("a lower rate, more replicas, shorter requests, or a smaller cache format",),
    silences=("KV202",),
)
def rate_overrun(study: Study) -> Iterator[Fact]:
    """A rate for which the cache has no room cannot be served.

    What it checks
        Requests in flight by Little's law are at most `kv.running`, or `kv.sequences` where an
        engine keeps room for their ends.

    Why it matters
        The queue grows for as long as the rate holds; no time to the first token exists.

    Example
        deployment served {
          model    = models.llama_3_1_70b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          engine extends engines.vllm { version = "0.33.0" }
          layout   { tp = 8 }
          budget   { kv = 8 GB }
          workload { prompt = 1 ktok; output = 1 ktok; rate = 12 req/s }
        }

    Instead
        A rate below the one that the finding names.

        deployment better extends served { workload { rate = 1 req/s } }
    """
    found, workload = study.costs, study.subject.workload
    if workload.rate is None or workload.concurrency is not None or found.load is None:
        return
    if not found.load.queued or not found.fits:
        return
    runs = found.values[RUNNING]
    none, more = int(runs.value) < 1, runs.value > found.values["kv.sequences"].value
    if not none and _only_queues(found):  # KV203
        return
    whole = float(output_of(study.subject).value) * found.number("decode.tpot")
    if found.prefill is not None:
        whole += float(found.prefill.held.value)
    most = Quantity(0, REQUEST_RATE) if none else _sustained(study)
    if not whole or most is None:
        return
    yield Fact(
        study.subject.place("workload"),
        {
            "rate": Quantity(workload.rate, REQUEST_RATE),
            "most": most,
            "needed": found.load.asked.quantity,
            "fits": f"{shown(runs.quantity)} {'run at once' if more else 'fit'}",
            "whole": Quantity(whole, TIME),
        },
        (("rate", Quantity(workload.rate, REQUEST_RATE)), ("highest rate", most)),
    )


@rule(
    "KV205",
    "past-max-context",
    Severity.WARNING,
    "costs",
    "requests of {length} are longer than the model's {most}",
    label="the workload asks {length}",
    helps=("an engine may refuse them; shorten the requests, or raise `max_context` if the model "
           "was extended",),
)  # fmt: skip
def past_max_context(study: Study) -> Iterator[Fact]:
    """Requests are no longer than the model's context.

    What it checks
        prompt + output (or `context`), of the longest class, is at most the model's `max_context`.

    Why it matters
        Engines refuse or cut longer requests unless told otherwise.

    Example
        deployment served {
          model    = models.llama_2_7b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x devices.a100_sxm_80gb
          layout   { tp = 1 }
          budget   { reserve = 3 GB }
          workload { context = 32 ktok; concurrency = 1 req }
        }

    Instead
        Shorter requests, or a model with a longer context.

        deployment better extends served { workload { context = 4096 tok } }
    """
    most = study.subject.model.max_context
    length = study.subject.workload.longest
    if most is not None and length > most:
        yield Fact(
            study.subject.place("workload"),
            {"length": Quantity(length, TOKENS), "most": Quantity(most, TOKENS)},
        )


@rule(
    "KV206",
    "unknown-figures",
    Severity.WARNING,
    "costs",
    "times stand on figures that nothing gives: {what}",
    label="{count} taken to be ideal",
    notes=("{first}",),
    helps=("give the figures, or read the times as a lower bound",),
)
def unknown_figures(study: Study) -> Iterator[Fact]:
    """Times need figures that the hardware's description does not give.

    What it checks
        Links have a latency, devices a peak for their arithmetic, nodes their NICs where groups
        leave them.

    Why it matters
        What is unknown is taken to cost nothing, so the times are too good, and a requirement on
        them may hold that would fail.

    Example
        device card { memory = 48 GB; bandwidth = 900 GB/s }
        node box {
          devices  = 4 x card
          scale_up { link = links.pcie_4_x16 }
        }
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x box
          layout   { tp = 4 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        Give the device its `compute { … }`, the link its `latency`, the node its `nics`.
    """
    found = study.costs
    names = [n for n in ("decode.tpot", "prefill.ttft") if n in found.values]
    notes: dict[str, str] = {}
    for name in names:
        for leaf in found.values[name].assumptions():
            if leaf.dimension != WORK_RATE and leaf.note and leaf.label not in WAITS:
                notes.setdefault(leaf.note, leaf.label)
    if not notes:
        return
    labels = list(dict.fromkeys(notes.values()))
    more = f" and {len(labels) - 2} more" if len(labels) > 2 else ""
    yield Fact(
        study.subject.place("on"),
        {
            "what": ", ".join(labels[:2]) + more,
            "count": len(labels),
            "first": "; ".join(list(notes)[:3]),
        },
    )


WAITS = frozenset({"wait before prefill"})
"""Assumptions of the workload, not of the hardware."""

RULES: tuple[Rule, ...] = (
    unknown_figures,
    overload,
    prefill_overrun,
    rate_overrun,
    past_max_context,
)
