"""Libraries: which algorithm does a collective on a route, and what that costs.

Comes in: the libraries of an engine, in the order that it asks them, a route and a message. Goes
out: the fastest algorithm of the first library that takes the message, as they choose themselves;
for an array of sizes each size has its own. Not its job: the time of one algorithm (algorithms).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from kvdsl.arithmetic import arrayed, where
from kvdsl.costs.algorithms import Timing, timing
from kvdsl.costs.message import Message
from kvdsl.costs.routes import Route
from kvdsl.formulas import Term, deferred, least
from kvdsl.recall import Recall
from kvdsl.spec.library import Algorithm, Library


@dataclass(frozen=True, slots=True)
class Price:
    """A time and its band; `chosen` are the algorithms that some size takes, fastest for the
    smallest size first."""

    time: Term
    low: Any
    high: Any
    chosen: tuple[Timing, ...]

    @property
    def basis(self) -> str:
        return self.chosen[0].basis

    @property
    def lent(self) -> str:
        """The rows that a generation without its own borrows; empty where it has them."""
        return " and ".join(self.chosen[0].lent)


def refusal(algorithm: Algorithm, route: Route, message: Message) -> str | None:
    """Why an algorithm does not run here, whatever the size; None if it does."""
    if message.kind not in algorithm.does:  # most of them, most of the time
        return f"does no {message.kind.replace('_', '-')}"
    return next((why for holds, why in _grounds(algorithm, route, message) if holds), None)


def _grounds(algorithm: Algorithm, route: Route, message: Message) -> Iterator[tuple[bool, str]]:
    """Grounds to refuse, each with whether it holds."""
    ranks, generation = algorithm.ranks, route.device.generation
    blind = route.hop is None and algorithm.unknown_step is None and algorithm.network_step is None
    backend = message.backend
    other = backend is not None and backend not in algorithm.words(message.phase)
    yield other, f"is not the backend {backend}"
    yield ranks is not None and route.ranks not in ranks, f"does not take {route.ranks} ranks"
    yield route.ranks < algorithm.least_ranks, f"takes {algorithm.least_ranks} ranks or more"
    bad = route.inner > 1 and route.ground not in algorithm.over
    yield bad, f"does not run over a {route.ground}"
    yield (
        not _agrees(algorithm.machines, max(1, route.machines // route.domains)),
        f"runs in domains {_where(algorithm.machines)} one node",
    )
    yield (
        not _agrees(algorithm.domains, route.domains),
        f"runs {_where(algorithm.domains)} one scale-up domain",
    )
    most = algorithm.most_domains
    yield most is not None and route.domains > most, f"is not for more than {most} domains"
    yield route.domains < algorithm.least_domains, "is for more domains"
    yield algorithm.way == "in_switch" and not route.in_switch, "needs a switch that reduces"
    yield (
        algorithm.peer is True and route.peer is False,
        "needs access from device to device",
    )
    yield algorithm.peer is False and route.peer is True, "is for devices without peer access"
    yield (
        algorithm.only and generation not in algorithm.launch,
        f"does not run on {generation or 'a device of unknown generation'}",
    )
    yield route.domains > 1 and blind, "does not know what a step over this network takes"


def _agrees(wanted: str, count: int) -> bool:
    return wanted == "any" or (wanted == "one") == (count == 1)


def _where(wanted: str) -> str:
    return "inside" if wanted == "one" else "beyond"


def price(libraries: Sequence[Library], route: Route, message: Message) -> Price | None:
    """What the first library that takes the message makes of it; None if none does."""
    rest: Price | None = None
    if not arrayed(message.size.value):
        taken = (list(_timings(library, route, message)) for library in libraries)
        first = next((own for own in taken if own), None)
        return None if first is None else _fastest(first, message)
    for library in reversed(libraries):
        own = list(_timings(library, route, message))
        if own:
            rest = _before(_fastest(own, message), rest)
    return rest


def _timings(library: Library, route: Route, message: Message) -> Iterator[Timing]:
    able = _ABLE.get(
        (library, route),
        (message.kind, message.backend, message.phase),
        lambda: tuple(
            each for each in library.algorithms.values() if refusal(each, route, message) is None
        ),
    )
    for algorithm in able:
        if _takes(algorithm, message) is not False:
            yield timing(library, algorithm, route, message)


_ABLE: Recall[tuple[Algorithm, ...]] = Recall(1024)
"""Algorithms that a library runs on a route, whatever the size."""


def _takes(algorithm: Algorithm, message: Message) -> Any:
    """Whether the message is within the algorithm's limit, size by size."""
    limit = algorithm.limit
    return True if limit is None else message.size.value <= limit


def _fastest(timings: Sequence[Timing], message: Message) -> Price:
    if not arrayed(message.size.value):
        best = min(timings, key=lambda t: float(t.time.value))
        label, times = best.time.label, [t.time for t in timings]
        time = best.time
        if len(times) > 1:
            time = deferred(
                label, time.value, time.dimension, lambda: least(label, times), tuple(times)
            )
        return Price(time, best.low, best.high, (best,))
    first, *others = timings
    time, low, high = _within(first, message)
    chosen = first.time
    for other in others:
        new, its_low, its_high = _within(other, message)
        better = new < time
        time, low, high = (
            where(better, new, time),
            where(better, its_low, low),
            where(better, its_high, high),
        )
    return Price(Term(chosen.label, time, chosen.dimension, inputs=tuple(t.time for t in timings)),
                 low, high, tuple(timings))  # fmt: skip


def _within(found: Timing, message: Message) -> tuple[Any, Any, Any]:
    takes = _takes(found.algorithm, message)
    if takes is True:
        return found.time.value, found.low, found.high
    return tuple(where(takes, value, inf) for value in (found.time.value, found.low, found.high))


def _before(own: Price, rest: Price | None) -> Price:
    """A library's price where it takes the message, else that of those asked after it."""
    if rest is None:
        return own
    takes = own.time.value < inf
    return Price(
        Term(own.time.label, where(takes, own.time.value, rest.time.value), own.time.dimension,
             inputs=(own.time, rest.time)),
        where(takes, own.low, rest.low),
        where(takes, own.high, rest.high),
        (*own.chosen, *rest.chosen),
    )  # fmt: skip


def reasons(libraries: Sequence[Library], route: Route, message: Message) -> tuple[str, ...]:
    """Why no library takes a message, by algorithm that does its collective."""
    found = []
    for library in libraries:
        for name, algorithm in library.algorithms.items():
            why = refusal(algorithm, route, message)
            if why is None and algorithm.limit is not None:
                why = "does not take a message of this size"
            if why is not None and message.kind in algorithm.does:
                found.append(f"{name.replace('_', ' ')} of {library.title} {why}")
    if not found:
        names = " or ".join(library.title for library in libraries) or "no library"
        found.append(f"{names} does no {message.kind.replace('_', '-')}")
    return tuple(found)
