"""Rules on the limits that a deployment gives its engine: fewer requests, or shorter ones, than the
workload asks."""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.checks.study import Fact, Study
from kvdsl.diagnostics import Severity
from kvdsl.placement.subject import Subject
from kvdsl.rules import Rule, rule
from kvdsl.source import Span
from kvdsl.spec.engine import Limits
from kvdsl.units import REQUESTS, TOKENS, Quantity


@rule(
    "KV209",
    "limited-requests",
    Severity.WARNING,
    "costs",
    "{busiest} would run on the busiest rank, and the limit lets {most}",
    label="of {asked} in flight {runs} run",
    notes=("times, rates and costs are told of {served} that run: the limit is not in them",),
    helps=("a limit of {busiest} or more, fewer in flight, or more ranks",),
)
def limited_requests(study: Study) -> Iterator[Fact]:
    """A limit on requests that the workload is above.

    What it checks
        Requests that run on the busiest rank are at most `limits { sequences }`, of the deployment
        or of its engine.

    Why it matters
        What is above waits, whatever room the cache has: throughput is lower and first tokens come
        later than told.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          engine extends engines.vllm { version = "0.33.0" }
          layout   { tp = 1; replicas = 8 }
          budget   { reserve = 3 GB }
          limits   { sequences = 2 req }
          workload { prompt = 2 ktok; output = 512 tok; concurrency = 64 req }
        }

    Instead
        A limit that lets the load in.

        deployment better extends served { limits { sequences = 8 req } }
    """
    subject, found = study.subject, study.costs
    # What an engine chooses by the device's size is no limit that somebody wrote.
    said = next((each.sequences for each in _written(subject) if each.sequences is not None), None)
    if said is None or found.load is None or int(found.load.busiest.value) <= said:
        return
    holders, busiest = subject.degrees.holders, int(found.load.busiest.value)
    asked = found.load.asked.quantity
    yield Fact(
        _said(subject, "sequences"),
        {
            "busiest": Quantity(busiest, REQUESTS),
            "most": Quantity(said, REQUESTS),
            "asked": asked,
            "served": found.load.served.quantity,
            "runs": Quantity(said * holders, REQUESTS),
        },
        (("in flight", asked), ("let run", Quantity(said * holders, REQUESTS))),
    )


@rule(
    "KV210",
    "limited-length",
    Severity.WARNING,
    "costs",
    "requests of {length} are longer than the limit of {most}",
    label="longer ones are refused",
    helps=("raise `limits {{ context }}`, or ask shorter requests",),
)
def limited_length(study: Study) -> Iterator[Fact]:
    """A limit on the length of a request that the workload is above.

    What it checks
        prompt + output (or `context`), of the longest class, is at most `limits { context }`, of
        the deployment or of its engine.

    Why it matters
        An engine refuses longer requests, so that none of the plan's is ever served.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          limits   { context = 2 ktok }
          workload { prompt = 4 ktok; output = 1 ktok; concurrency = 8 req }
        }

    Instead
        A limit above the requests.

        deployment better extends served { limits { context = 8 ktok } }
    """
    subject = study.subject
    most, length = subject.limits.context, subject.workload.longest
    if most is None or length <= most:
        return
    yield Fact(
        _said(subject, "context"),
        {"length": Quantity(length, TOKENS), "most": Quantity(most, TOKENS)},
        (("request", Quantity(length, TOKENS)), ("limit", Quantity(most, TOKENS))),
    )


def _written(subject: Subject) -> Iterator[Limits]:
    """Limits that are written down, the deployment's first."""
    own = (subject.pool.limits, subject.engine.limits if subject.engine is not None else None)
    return (each for each in own if each is not None)


def _said(subject: Subject, name: str) -> Span:
    """Where a limit is written in the spec; one of the catalog is met by the workload."""
    origins = (each.origin(name) for each in _written(subject))
    found = next((origin for origin in origins if origin is not None), None)
    return found.span if found is not None and not found.source else subject.place("workload")


RULES: tuple[Rule, ...] = (limited_requests, limited_length)
