"""Rules on the load: more than fits, more than can be prefilled, longer than the model knows."""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.checks.study import Fact, Study
from kvdsl.costs.cache import held_tokens
from kvdsl.diagnostics import Severity
from kvdsl.rules import Rule, rule
from kvdsl.units import REQUEST_RATE, TOKENS, Quantity


@rule(
    "KV202",
    "overload",
    Severity.WARNING,
    "costs",
    "{asked} are in flight and {fits} fit: {queued} wait",
    label="the workload asks {asked}",
    notes=("a request of {length} takes {size}; each of {holders} holders fits {each} whole ones",),
    helps=("times are those of the {fits} that run; fewer in flight, more devices or a smaller "
           "cache format",),
)  # fmt: skip
def overload(study: Study) -> Iterator[Fact]:
    """More requests in flight than the cache holds must queue.

    What it checks
        The workload's requests in flight are at most `kv.sequences`.

    Why it matters
        What does not fit waits for a place, and its users wait with it.

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
    if found.load is None or not found.load.queued or not found.fits:
        return
    smallest = min(found.capacities, key=lambda c: c.requests.value)
    yield Fact(
        study.subject.place("workload"),
        {
            "asked": found.load.asked.quantity,
            "fits": found.values["kv.sequences"].quantity,
            "queued": Quantity(found.load.queued, found.load.asked.dimension),
            "length": Quantity(held_tokens(study.subject), TOKENS),
            "size": found.values["kv.bytes_per_request"].quantity,
            "holders": study.subject.degrees.holders,
            "each": smallest.requests.quantity,
        },
        (
            ("in flight", found.load.asked.quantity),
            ("fit", found.values["kv.sequences"].quantity),
        ),
    )


@rule(
    "KV203",
    "prefill-overrun",
    Severity.WARNING,
    "costs",
    "prompts arrive faster than they are prefilled: {rate} against {most} at the most",
    label="the workload asks {rate}",
    notes=("a prompt keeps the slowest stage busy for {stage}; the queue grows without bound",),
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
    if found.prefill is None or not found.prefill.saturated or workload.rate is None:
        return
    most = study.subject.degrees.holders / float(found.prefill.stage.value)
    yield Fact(
        study.subject.place("workload"),
        {
            "rate": Quantity(workload.rate, REQUEST_RATE),
            "most": Quantity(most, REQUEST_RATE),
            "stage": found.prefill.stage.quantity,
        },
        (("highest rate", Quantity(most, REQUEST_RATE)),),
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
        prompt + output (or `context`) is at most the model's `max_context`.

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
    length = held_tokens(study.subject)
    if most is not None and length > most:
        yield Fact(
            study.subject.place("workload"),
            {"length": Quantity(length, TOKENS), "most": Quantity(most, TOKENS)},
        )


RULES: tuple[Rule, ...] = (overload, prefill_overrun, past_max_context)
