"""Admission: how many requests run at once, where an engine gives pages as requests grow.

Comes in: a placement and the whole requests that fit. Goes out: `kv.running`, or nothing where an
engine keeps room for a request's end from its start, or where requests do not grow. At any time
those in flight are at all points between their prompt and their end; what no longer fits is stopped
and begun again, which is not timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from kvdsl import units
from kvdsl.arithmetic import floored, over, times
from kvdsl.costs.cache import held_tokens, request_terms, summed
from kvdsl.costs.load import context_of, output_of
from kvdsl.costs.weights import Exact
from kvdsl.formulas import Term, formula
from kvdsl.placement.placement import Placement

RUNNING = "kv.running"


@formula(
    "floor(requests that fit x bytes of one at its end / bytes of one at its middle)",
    units.REQUESTS,
    "requests of all ages at once take what the mean one takes; vLLM 0.33.0, v1/core/sched/"
    "scheduler.py; SGLang 0.5.23, managers/schedule_policy.py",
)
def as_they_grow(fit: int, end: Exact, middle: Exact) -> int:
    return floored(times(fit, end), middle)


def running(placement: Placement, fit: Term) -> dict[str, Term]:
    """The requests that run at once; `fit` are those that fit whole."""
    subject = placement.subject
    engine = subject.engine
    if engine is None or engine.admission == "whole" or not output_of(subject).value:
        return {}
    end, middle = held_tokens(subject), ceil(context_of(subject).value)
    common = min(subject.workload.prefix_common, middle)
    whole, mean = _own(placement, end, common), _own(placement, middle, common)
    if not mean.value:  # nothing grows
        return {RUNNING: fit}
    return {RUNNING: as_they_grow.derive("requests that run", fit=fit, end=whole, middle=mean)}


def _own(placement: Placement, tokens: int, common: int) -> Term:
    """Bytes of a request of so many tokens that it shares with no other."""
    terms = request_terms(placement, tokens)
    label = f"bytes of a request of {units.grouped(tokens)} tok"
    if not common:
        return summed(placement.subject.model, label, list(terms.values()))
    shared = request_terms(placement, common)["kv.bytes_per_request"]
    own = sum(term.value for term in terms.values()) - shared.value
    return Term(label, over(own, 1), units.BYTES, inputs=(*terms.values(), shared),
                note="without the common prefix")  # fmt: skip


def most_running(values: Mapping[str, Term]) -> Term:
    """Requests that run at once: as many as fit whole, or more as they grow."""
    return values[RUNNING] if RUNNING in values else values["kv.sequences"]
