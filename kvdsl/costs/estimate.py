"""The estimate of one subject: everything that can be asked of a pool, through one function.

A plan, a compared layout, a point of a sweep and the alternative that a finding suggests all come
from `estimate(subject)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kvdsl import units
from kvdsl.arithmetic import (
    arrayed,
    at_least,
    finite_or,
    floored,
    raised,
    real,
    smaller,
    some,
    times,
)
from kvdsl.costs import cache, memory, money, weights
from kvdsl.costs.decode import Decode, decode
from kvdsl.costs.fitted import fewest, fitted, place
from kvdsl.costs.load import Load, asked_requests, load, output_of, yielded
from kvdsl.costs.memory import Capacity, Ledger
from kvdsl.costs.origins import of_layout
from kvdsl.costs.pace import constants
from kvdsl.costs.prefill import Prefill, prefill
from kvdsl.costs.turns import turns
from kvdsl.formulas import Term, formula, total
from kvdsl.placement.placement import Placement, build
from kvdsl.placement.subject import Subject
from kvdsl.spec.workload import Workload


@dataclass(frozen=True, slots=True)
class Estimate:
    """`load` and `decode` are None in a pool that only prefills, `prefill` in one that decodes."""

    subject: Subject
    placement: Placement
    ledgers: tuple[Ledger, ...]
    capacities: tuple[Capacity, ...]
    load: Load | None
    decode: Decode | None
    prefill: Prefill | None
    values: dict[str, Term]

    @property
    def fits(self) -> bool:
        """Whether weights leave any room for the cache on every device."""
        return _fit(self.ledgers)

    def number(self, name: str) -> float:
        return float(self.values[name].value)


def _fit(books: tuple[Ledger, ...]) -> bool:
    return all(book.room.value > 0 for book in books)


def estimate(subject: Subject, placement: Placement | None = None) -> Estimate:
    """Everything that can be asked of a pool."""
    placement = placement or build(subject)
    books = memory.ledgers(placement)
    capacity = memory.capacities(placement, books)
    values = _values(placement, books, capacity)
    return _timed(placement, books, capacity, values)


def many(found: Estimate, workload: Workload, values: dict[str, Term]) -> dict[str, Term]:
    """The values of many loads of one estimate, as arrays: `workload` has an array for each of what
    differs, and `values` those of `of_length` by load. Where ranks stand and what they weigh is as
    in `found`."""
    placement, books = reloaded(found, workload), found.ledgers
    fixed = {**_of_token(placement, books), **_of_memory(placement, books)}
    return _timed(placement, books, (), {**fixed, **values}).values


def of_length(found: Estimate, workload: Workload) -> dict[str, Term]:
    """The values that follow from how long requests are and not from how many there are."""
    placement = reloaded(found, workload)
    capacity = memory.capacities(placement, found.ledgers)
    return {
        **cache.request_terms(placement, cache.held_tokens(placement.subject)),
        "kv.copies": cache.copies_term(placement),
        **memory.capacity_terms(placement.subject, capacity),
    }


def _timed(
    placement: Placement,
    books: tuple[Ledger, ...],
    capacity: tuple[Capacity, ...],
    values: dict[str, Term],
) -> Estimate:
    """The estimate of a load, or of an array of loads."""
    subject = placement.subject
    pace = constants(subject)
    if pace is not None:
        found = fitted(placement, books, pace, values["kv.sequences"])
        values.update(found.values)
        _arriving(subject, values)
        if found.load is not None:
            values["memory.free"] = _free(placement, books, found.load)
        values.update(money.paid([placement], subject.deployment, values))
        return Estimate(subject, placement, books, capacity, found.load, found.decode,
                        found.prefill, values)  # fmt: skip
    first = prefill(placement, books) if subject.pool.role != "decode" else None
    if first is not None:
        if not first.saturated:  # a queue that only grows has no mean
            values["prefill.ttft"] = first.ttft
        values["prefill.throughput"] = first.throughput
    carried, step = None, None
    if subject.pool.role != "prefill":
        carried, step = _decoded(placement, books, values["kv.sequences"], first)
        values.update(step.terms)
        _arriving(subject, values)
        if first is not None:
            first = _placed(first, carried, step.turn or values["decode.tpot"], subject)
            values.update({"prefill.ttft": first.ttft} if not first.saturated else {})
        values["memory.free"] = _free(placement, books, carried)
    values.update(money.paid([placement], subject.deployment, values))
    return Estimate(subject, placement, books, capacity, carried, step, first, values)


def memory_estimate(subject: Subject, placement: Placement | None = None) -> Estimate:
    """Memory and capacity alone: for hardware on which nothing joins the devices yet."""
    placement = placement or build(subject)
    return _of_room(placement, memory.ledgers(placement))


def memory_estimate_that_fits(subject: Subject) -> Estimate | None:
    """The same, or None where weights leave no room: found before anything else is asked."""
    placement = build(subject)
    books = memory.ledgers(placement)
    return _of_room(placement, books) if _fit(books) else None


def _of_room(placement: Placement, books: tuple[Ledger, ...]) -> Estimate:
    capacity = memory.capacities(placement, books)
    values = _values(placement, books, capacity)
    return Estimate(placement.subject, placement, books, capacity, None, None, None, values)


def _values(
    placement: Placement, books: tuple[Ledger, ...], capacity: tuple[Capacity, ...]
) -> dict[str, Term]:
    subject = placement.subject
    return {
        **_of_token(placement, books),
        **cache.request_terms(placement, cache.held_tokens(subject)),
        "kv.copies": cache.copies_term(placement),
        **memory.capacity_terms(subject, capacity),
        **_of_memory(placement, books),
    }


def _of_token(placement: Placement, books: tuple[Ledger, ...]) -> dict[str, Term]:
    tokens = cache.token_terms(placement)
    return {
        **tokens,
        **weights.break_even_terms(placement, tokens["kv.bytes_per_token"]),
        "kv.bytes_per_token_per_gpu": memory.largest_token(books),
    }


def _of_memory(placement: Placement, books: tuple[Ledger, ...]) -> dict[str, Term]:
    subject = placement.subject
    fullest = memory.fullest(books)
    return {
        "memory.weights": fullest.weights,
        "memory.kv": fullest.room,
        "memory.reserve": fullest.reserve,
        **weights.parameter_terms(subject.model, placement.tensors),
        "gpus": of_layout(subject, "devices that hold a rank", placement.used),
    }


def _decoded(
    placement: Placement, books: tuple[Ledger, ...], capacity: Term, first: Prefill | None
) -> tuple[Load, Decode]:
    subject = placement.subject
    if subject.workload.concurrency is not None:
        asked = asked_requests(subject)
    else:
        asked = _solved(placement, books, capacity, first)
    carried = load(subject, asked, capacity)
    return carried, decode(placement, books, carried, turns(placement, books, first))


@formula(
    "arrivals x (time to the first token + output x time of a token)",
    units.REQUESTS,
    "Little's law; the smallest number in flight that serves the rate",
)
def in_flight(rate: float, ttft: float, output: float, tpot: float) -> float:
    return rate * (ttft + output * tpot)


def _solved(
    placement: Placement, books: tuple[Ledger, ...], capacity: Term, first: Prefill | None
) -> Term:
    """Requests in flight that a rate means, at most what fits."""
    workload = placement.subject.workload
    share = placement.subject.pool.share
    arrivals = 0 if workload.rate is None else workload.rate
    rate = real(arrivals) * float(share if share is not None else 1)
    wait = 0.0 if first is None else finite_or(first.ttft.value, 0.0)
    limit = at_least(floored(capacity.value, 1), 1)
    output = real(output_of(placement.subject).value)
    taken = turns(placement, books, first)

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
        return raised(flying, 1)

    high = fewest(limit, needed)
    note = "solved from the rate by Little's law"
    written = memory.leaf(workload, "rate", "arrivals", arrivals, units.REQUEST_RATE)
    return Term("requests in flight", high, units.REQUESTS, inputs=(written,), note=note)


def _arriving(subject: Subject, values: dict[str, Term]) -> None:
    """No more output than arrives."""
    if "decode.throughput" in values:
        values["decode.throughput"] = yielded(subject, values["decode.throughput"])


def _placed(first: Prefill, carried: Load, tpot: Term, subject: Subject) -> Prefill:
    """The first token of closed loops of clients waits for a place, where not all fit."""
    if subject.workload.concurrency is None:
        return first
    wait = place(carried, output_of(subject), tpot, None, always=False)
    if wait is None:
        return first
    return replace(first, ttft=total("time to the first token", [first.ttft, wait]))


@formula("room - cache of the requests on the busiest rank", units.BYTES)
def free_room(room: float, used: float) -> float:
    return room - used


def _free(placement: Placement, books: tuple[Ledger, ...], carried: Load) -> Term:
    """What the workload leaves of the cache's room on the fullest device."""
    book = memory.fullest(books)
    stage = placement.stages[book.rank.stage]
    length = cache.held_tokens(placement.subject)
    common = smaller(placement.subject.workload.prefix_common, length)
    each = cache.request_on_rank(stage, length - common)
    shared = cache.request_on_rank(stage, common, states=some(common))
    used = Term(
        "cache of the requests on the busiest rank",
        times(each, carried.busiest.value) + shared,
        units.BYTES,
        inputs=(carried.busiest, book.token),
        note=f"requests of {units.grouped(length)} tok" if not arrayed(length) else "",
    )
    return free_room.derive("free room", room=book.room, used=used)


def reloaded(found: Estimate, workload: Workload) -> Placement:
    """The same placement under another workload: where ranks stand does not depend on it."""
    return replace(found.placement, subject=replace(found.subject, workload=workload))
