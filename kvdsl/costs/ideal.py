"""Ideal times: decode and prefill as bandwidths and peaks alone give them.

Comes in: a placement, its ledgers, its capacity. Goes out: its times. A rate is turned into
requests in flight by Little's law.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvdsl import units
from kvdsl.arithmetic import real
from kvdsl.costs.closed_loops import place
from kvdsl.costs.decode import Decode, decode
from kvdsl.costs.first_token import unplaced
from kvdsl.costs.fitted import of_count
from kvdsl.costs.load import Load, arrivals_at, output_of
from kvdsl.costs.load import carried as of_workload
from kvdsl.costs.memory import Ledger
from kvdsl.costs.prefill import Prefill, prefill, queued
from kvdsl.costs.queues import Among, Stay, flying, most_flying, remembered
from kvdsl.costs.times import Times, decode_group, nothing
from kvdsl.costs.turns import turns
from kvdsl.formulas import Term
from kvdsl.placement.placement import Placement
from kvdsl.placement.subject import Subject
from kvdsl.recall import Once


def ideal(placement: Placement, books: tuple[Ledger, ...], capacity: Callable[[], Term]) -> Times:
    """The load, decode and prefill of a pool; `capacity` are the whole requests that fit."""
    subject = placement.subject
    role = subject.pool.role
    alone = Once(lambda: prefill(placement, books))
    if role == "prefill":
        prefills = (("prefill.",), lambda: _values(alone()))
        return Times(prefill=alone, groups=(prefills,))
    prompt = alone if role == "both" else nothing
    taken = Once(lambda: turns(placement, books, prompt()))
    asked = Once(lambda: _solved(placement, books, capacity(), prompt()))
    carried = Once(lambda: of_workload(subject, capacity(), asked))
    step = Once(lambda: decode(placement, books, carried(), taken()))
    decodes = decode_group(subject, step)
    if role == "decode":
        return Times(carried, step, groups=(decodes,))
    first = Once(lambda: alone().placed(_wait_for_place(carried(), step, subject)))
    prefills = (("prefill.",), lambda: _values(first(), step().together))
    return Times(carried, step, first, (prefills, decodes))


def _values(found: Prefill, together: Term | None = None) -> dict[str, Term]:
    """A queue that only grows has no mean. `together` are the tokens a second of prompts of clients
    that share their passes."""
    ttft = {} if found.endless else {"prefill.ttft": found.ttft}
    return {**ttft, "prefill.throughput": together or found.throughput}


# --- a rate as requests in flight ----------------------------------------------------------------


def stays(
    placement: Placement,
    books: tuple[Ledger, ...],
    prompt: Prefill | None,
    loaded: Callable[[Any], Load],
) -> Stay:
    """How long requests that arrive at a rate stay; `prompt` where they are prefilled here, and
    `loaded` is the load of so many in flight."""
    output = real(output_of(placement.subject).value)

    def alone(count: Any) -> tuple[Load, Term]:
        carried = loaded(count)
        return carried, decode(placement, books, carried).terms["decode.tpot"]

    known = remembered(alone)

    def stay(rate: Term) -> Among:
        taken, ttft = turns(placement, books, prompt, rate), 0.0
        if prompt is not None:
            first = queued(placement, prompt.service, prompt.alone, prompt.stage, rate)
            ttft = real(first.value)

        def among(count: Any) -> Any:
            carried, step = known(count)
            if taken is not None:
                step = taken.token(step, taken.shared(carried, step).prompts)
            return ttft + output * real(step.value)

        return among

    return stay


def _solved(
    placement: Placement, books: tuple[Ledger, ...], capacity: Term, prompt: Prefill | None
) -> Term:
    """Requests in flight that a rate means."""
    rate = arrivals_at(placement.subject)
    if rate is None:
        raise ValueError("requests in flight are said: nothing is to be solved")
    stay = stays(placement, books, prompt, of_count(placement.subject, capacity))
    count = flying(most_flying(capacity.value), rate.value, stay(rate))
    return Term("requests in flight", count, units.REQUESTS, inputs=(rate,),
                note="solved from the rate by Little's law")  # fmt: skip


def _wait_for_place(carried: Load, step: Callable[[], Decode], subject: Subject) -> Term | None:
    """What a first token waits for a place, where not all fit."""
    if subject.workload.concurrency is None:
        return unplaced(carried.asked, carried.served)
    if not carried.overfull:
        return None
    found = step()
    tpot = found.turn or found.terms["decode.tpot"]
    return place(carried, output_of(subject), tpot, None, always=False)
