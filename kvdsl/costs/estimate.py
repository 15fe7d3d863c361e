"""The estimate of one subject: everything that can be asked of a pool, through one function.

A plan, a compared layout, a point of a sweep and the alternative that a finding suggests all come
from `estimate(subject)`. What nobody asks of it is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvdsl import units
from kvdsl.arithmetic import arrayed, smaller, some, times
from kvdsl.costs import cache as cached
from kvdsl.costs import collectives, memory, money, weights
from kvdsl.costs.admission import RUNNING, running
from kvdsl.costs.decode import Decode
from kvdsl.costs.fitted import fitted
from kvdsl.costs.ideal import ideal
from kvdsl.costs.load import Load, busiest_requests
from kvdsl.costs.memory import Capacity, Ledger
from kvdsl.costs.origins import of_layout
from kvdsl.costs.pace import constants
from kvdsl.costs.prefill import Prefill
from kvdsl.costs.times import Times, nothing
from kvdsl.costs.values import Group, Values
from kvdsl.formulas import Term, formula
from kvdsl.placement.placement import Placement, build
from kvdsl.placement.subject import Subject
from kvdsl.recall import Once
from kvdsl.spec.workload import Workload


@dataclass(frozen=True, slots=True)
class Estimate:
    """The memory of each rank class, and what follows from it: `capacities`, times and `values` are
    computed when they are first asked."""

    subject: Subject
    placement: Placement
    ledgers: tuple[Ledger, ...]
    values: Mapping[str, Term]
    held: Callable[[], tuple[Capacity, ...]]
    times: Times

    @property
    def capacities(self) -> tuple[Capacity, ...]:
        return self.held()

    @property
    def load(self) -> Load | None:
        """None in a pool that only prefills."""
        return self.times.load()

    @property
    def decode(self) -> Decode | None:
        """None in a pool that only prefills."""
        return self.times.decode()

    @property
    def prefill(self) -> Prefill | None:
        """None in a pool that only decodes."""
        return self.times.prefill()

    @property
    def fits(self) -> bool:
        """Whether weights leave any room for the cache on every device."""
        return _fit(self.ledgers)

    @property
    def overrun(self) -> bool:
        """Whether requests arrive faster than they are served: a queue grows without end."""
        workload, load = self.subject.workload, self.load
        if workload.rate is None or workload.concurrency is not None:
            return False
        if self.prefill is not None:
            return self.prefill.endless
        return load is not None and load.overfull and int(load.served.value) >= 1

    @property
    def crowded(self) -> bool:
        """Whether more are in flight than fit whole, though an engine may run more."""
        asked = self.load.asked.value if self.load is not None else 0
        return bool(asked > self.values["kv.sequences"].value)

    @property
    def unserved(self) -> Any:
        """Whether a rate cannot be served, load by load where these are many: what the checks of a
        load tell as an error."""
        workload, load, prompts = self.subject.workload, self.load, self.prefill
        if workload.rate is None:
            return False
        without_end = False if prompts is None else prompts.held.value >= float("inf")
        if workload.concurrency is not None:
            return without_end
        if prompts is not None:
            return prompts.ttft.value >= float("inf")
        return load is not None and load.asked.value // 1 > load.served.value // 1

    def number(self, name: str) -> float:
        return float(self.values[name].value)

    def without_decode(self) -> Estimate:
        """The same where no decode step is ever taken."""
        decoded = ("decode.", "cost.per_mtok")
        kept = {n: term for n, term in self.values.items() if not n.startswith(decoded)}
        return replace(self, values=kept, times=replace(self.times, decode=nothing))


def _fit(books: tuple[Ledger, ...]) -> bool:
    return all(book.room.value > 0 for book in books)


def estimate(subject: Subject, placement: Placement | None = None) -> Estimate:
    """Everything that can be asked of a pool. Raises ValueError where ranks exchange something and
    nothing joins them."""
    placement = placement or build(subject)
    collectives.joined(placement)
    books = memory.ledgers(placement)
    held = Once(lambda: memory.capacities(placement, books))
    return _timed(placement, books, held, _known(placement, books, held))


def many(found: Estimate, workload: Workload, values: dict[str, Term]) -> Estimate:
    """The values of many loads of one estimate, as arrays: `workload` has an array for each of what
    differs, and `values` those of `of_length` by load. Where ranks stand and what they weigh is as
    in `found`."""
    placement, books = reloaded(found, workload), found.ledgers
    by_load: Group = (tuple(values), lambda: values)
    known = (*_of_token(placement, books), *_of_memory(placement, books), by_load)
    return _timed(placement, books, tuple, known)


def of_length(found: Estimate, workload: Workload) -> dict[str, Term]:
    """The values that follow from how long requests are and not from how many there are."""
    placement = reloaded(found, workload)
    held = Once(lambda: memory.capacities(placement, found.ledgers))
    return dict(Values(_of_length(placement, found.ledgers, held)))


NO_TIMES: Group = (("decode.", "prefill.", "memory.free", "power", "cost."), dict)
"""Names that an estimate need not have, so that none of the others is asked for them."""


def _timed(
    placement: Placement,
    books: tuple[Ledger, ...],
    held: Callable[[], tuple[Capacity, ...]],
    known: tuple[Group, ...],
) -> Estimate:
    """The estimate of a load, or of an array of loads; `known` are the values of memory."""
    subject, of_memory = placement.subject, Values(known)
    pace = constants(subject)

    def capacity() -> Term:
        fit, asked = of_memory["kv.sequences"], subject.workload.concurrency
        if asked is not None and not some(asked > fit.value):
            return fit  # all fit whole: how many more would run is not asked
        return of_memory[RUNNING]

    if pace is None:
        found = ideal(placement, books, capacity)
    else:
        found = fitted(placement, books, pace, capacity)

    def free() -> dict[str, Term]:
        carried = found.load()
        if carried is None:
            return {}
        return {"memory.free": _free(placement, books, carried, of_memory["kv.sequences"])}

    def paid() -> dict[str, Term]:
        return money.paid([placement], subject.deployment, values)

    values = Values(
        (NO_TIMES, *known, *found.groups, (("memory.free",), free), (("power", "cost."), paid))
    )
    return Estimate(subject, placement, books, values, held, found)


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
    held = Once(lambda: memory.capacities(placement, books))
    values = Values((NO_TIMES, *_known(placement, books, held)))
    return Estimate(placement.subject, placement, books, values, held, Times())


def _known(
    placement: Placement, books: tuple[Ledger, ...], held: Callable[[], tuple[Capacity, ...]]
) -> tuple[Group, ...]:
    """The values of memory."""
    return (
        *_of_token(placement, books),
        *_of_length(placement, books, held),
        *_of_memory(placement, books),
    )


def _of_token(placement: Placement, books: tuple[Ledger, ...]) -> tuple[Group, ...]:
    tokens = Once(lambda: cached.token_terms(placement))
    on_gpu = "kv.bytes_per_token_per_gpu"

    def even() -> dict[str, Term]:
        return weights.break_even_terms(placement, tokens()["kv.bytes_per_token"])

    return (
        (("kv.bytes_per_token", "kv.bytes_per_token_unbounded"), tokens),
        (("kv.break_even",), even),
        ((on_gpu,), lambda: {on_gpu: memory.largest_token(books)}),
    )


def _of_length(
    placement: Placement, books: tuple[Ledger, ...], held: Callable[[], tuple[Capacity, ...]]
) -> tuple[Group, ...]:
    subject = placement.subject

    capacity = Once(lambda: memory.capacity_terms(subject, held()))

    def of_request() -> dict[str, Term]:
        return cached.request_terms(placement, cached.held_tokens(subject))

    return (
        (("kv.bytes_per_request", "state.bytes_per_request"), of_request),
        (("kv.copies",), lambda: {"kv.copies": cached.copies_term(placement)}),
        (memory.CAPACITY, capacity),
        ((RUNNING,), lambda: {RUNNING: running(placement, books, capacity()["kv.sequences"])}),
    )


def _of_memory(placement: Placement, books: tuple[Ledger, ...]) -> tuple[Group, ...]:
    subject = placement.subject

    def of_fullest() -> dict[str, Term]:
        book = memory.fullest(books)
        terms = (book.weights, book.room, book.reserve)
        return dict(zip(memory.FULLEST, terms, strict=True))

    def devices() -> dict[str, Term]:
        return {"gpus": of_layout(subject, "devices that hold a rank", placement.used)}

    return (
        (memory.FULLEST, of_fullest),
        (("model.",), lambda: weights.parameter_terms(subject.model, placement.tensors)),
        (("gpus",), devices),
    )


@formula("room - cache of the requests on the busiest rank", units.BYTES)
def free_room(room: float, used: float) -> float:
    return room - used


def _free(placement: Placement, books: tuple[Ledger, ...], carried: Load, fit: Term) -> Term:
    """What the workload leaves of the cache's room on the fullest device: with more that run than
    fit whole, what those leave that do."""
    book = memory.fullest(books)
    stage = placement.stages[book.rank.stage]
    length = cached.held_tokens(placement.subject)
    common = smaller(placement.subject.workload.prefix_common, length)
    each = cached.request_on_rank(stage, length - common)
    shared = cached.request_on_rank(stage, common, states=some(common))
    holders = of_layout(placement.subject, "holders", placement.degrees.holders)
    whole = busiest_requests.derive("requests that fit whole there", in_flight=fit, holders=holders)
    used = Term(
        "cache of the requests on the busiest rank",
        times(each, smaller(carried.busiest.value, whole.value)) + shared,
        units.BYTES,
        inputs=(carried.busiest, whole, book.token),
        note=f"requests of {units.grouped(length)} tok" if not arrayed(length) else "",
    )
    return free_room.derive("free room", room=book.room, used=used)


def reloaded(found: Estimate, workload: Workload) -> Placement:
    """The same placement under another workload: where ranks stand does not depend on it."""
    return replace(found.placement, subject=replace(found.subject, workload=workload))
