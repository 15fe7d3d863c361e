"""Admission: how many requests run at once, where an engine gives pages as requests grow.

Comes in: a placement with its ledgers, and the whole requests that fit. Goes out: `kv.running`:
those, where an engine keeps room for a request's end from its start, or where requests do not grow.
Else, at any time those in flight are at all points between their prompt and their end, so that they
take what as many at their middle take; what no longer fits is stopped and begun again, which is not
timed. vLLM 0.33.0, v1/core/sched/scheduler.py; SGLang 0.5.23, managers/schedule_policy.py.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from kvdsl.costs import memory
from kvdsl.costs.load import context_of, output_of
from kvdsl.costs.memory import Ledger
from kvdsl.formulas import Term, greatest
from kvdsl.placement.placement import Placement

RUNNING = "kv.running"
MIDDLE = "requests of all ages at once take what as many at their middle take"


def running(placement: Placement, books: tuple[Ledger, ...], fit: Term) -> Term:
    """The requests that run at once; `fit` are those that fit whole."""
    subject = placement.subject
    engine = subject.engine
    if engine is None or engine.admission == "whole" or not output_of(subject).value:
        return fit.named("requests that run")
    middle, said = ceil(context_of(subject).value), subject.workload
    halfway = said.model_copy(
        update={
            "prompt": None, "output": None, "classes": {}, "context": middle,
            "prefix_common": min(said.prefix_common, middle),
        }
    )  # fmt: skip
    placed = replace(placement, subject=replace(subject, workload=halfway))
    found = memory.capacity_terms(placed.subject, memory.capacities(placed, books))
    some = replace(found["kv.sequences"], label="requests that fit at the middle of their output")
    return greatest("requests that run", [fit, some], note=MIDDLE)
