"""Ideal times: decode and prefill as bandwidths and peaks alone give them.

Comes in: a placement, its ledgers, its capacity. Goes out: its times. A rate is turned into
requests in flight by Little's law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kvdsl import units
from kvdsl.arithmetic import at_least, finite_or, floored, raised, real
from kvdsl.costs.closed_loops import place
from kvdsl.costs.decode import Decode, decode
from kvdsl.costs.fitted import fewest
from kvdsl.costs.load import Load, load, output_of
from kvdsl.costs.load import carried as of_workload
from kvdsl.costs.memory import Ledger, leaf
from kvdsl.costs.prefill import Prefill, prefill
from kvdsl.costs.times import Times, decode_group, nothing
from kvdsl.costs.turns import Turns, turns
from kvdsl.formulas import Term, formula, total
from kvdsl.placement.placement import Placement
from kvdsl.placement.subject import Subject
from kvdsl.recall import Once


def ideal(placement: Placement, books: tuple[Ledger, ...], capacity: Callable[[], Term]) -> Times:
    """The load, decode and prefill of a pool; `capacity` are the whole requests that fit."""
    subject = placement.subject
    role = subject.pool.role
    alone = Once(lambda: prefill(placement, books))
    if role == "prefill":
        prefills = (("prefill.",), lambda: _values(alone(), alone()))
        return Times(prefill=alone, groups=(prefills,))
    prompt = alone if role == "both" else nothing
    taken = Once(lambda: turns(placement, books, prompt()))
    asked = Once(lambda: _solved(placement, books, capacity(), prompt(), taken()))
    carried = Once(lambda: of_workload(subject, capacity(), asked))
    step = Once(lambda: decode(placement, books, carried(), taken()))
    decodes = decode_group(subject, step)
    if role == "decode":
        return Times(carried, step, groups=(decodes,))
    first = Once(lambda: _placed(alone(), carried(), step, subject))
    prefills = (("prefill.",), lambda: _values(alone(), first(), step().together))
    return Times(carried, step, first, (prefills, decodes))


def _values(alone: Prefill, first: Prefill, together: Term | None = None) -> dict[str, Term]:
    """`first` waits for a place. A queue that only grows has no mean. `together` are the tokens a
    second of prompts that share their passes."""
    found = next((one.ttft for one in (first, alone) if not one.saturated), None)
    ttft = {} if found is None else {"prefill.ttft": found}
    return {**ttft, "prefill.throughput": together or alone.throughput}


@formula(
    "arrivals x (time to the first token + output x time of a token)",
    units.REQUESTS,
    "Little's law; the smallest number in flight that serves the rate",
)
def in_flight(rate: float, ttft: float, output: float, tpot: float) -> float:
    return rate * (ttft + output * tpot)


def _solved(
    placement: Placement,
    books: tuple[Ledger, ...],
    capacity: Term,
    first: Prefill | None,
    taken: Turns | None,
) -> Term:
    """Requests in flight that a rate means, at most what fits."""
    workload = placement.subject.workload
    share = placement.subject.pool.share
    arrivals = 0 if workload.rate is None else workload.rate
    rate = real(arrivals) * float(share if share is not None else 1)
    wait = 0.0 if first is None else real(first.ttft.value)
    limit = at_least(floored(capacity.value, 1), 1)
    output = real(output_of(placement.subject).value)

    def needed(count: Any) -> Any:
        """Requests in flight by Little's law if so many share a step."""
        asked = Term("requests in flight", count, units.REQUESTS)
        step = decode(placement, books, load(placement.subject, asked, capacity), taken)
        flying = in_flight(
            rate=rate,
            ttft=wait,
            output=output,
            tpot=real(step.terms["decode.tpot"].value),
        )
        return raised(finite_or(flying, limit), 1)  # a queue without end fills the cache

    high = fewest(limit, needed)
    note = "solved from the rate by Little's law"
    written = leaf(workload, "rate", "arrivals", arrivals, units.REQUEST_RATE)
    return Term("requests in flight", high, units.REQUESTS, inputs=(written,), note=note)


def _placed(first: Prefill, carried: Load, step: Callable[[], Decode], subject: Subject) -> Prefill:
    """The first token of closed loops of clients waits for a place, where not all fit."""
    if subject.workload.concurrency is None or not carried.overfull:
        return first
    found = step()
    tpot = found.turn or found.terms["decode.tpot"]
    wait = place(carried, output_of(subject), tpot, None, always=False)
    if wait is None:
        return first
    return replace(first, ttft=total("time to the first token", [first.ttft, wait]))
