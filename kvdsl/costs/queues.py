"""Queues: what requests that arrive at a rate wait for, and how many of them are in flight.

Comes in: arrivals, how long a prompt keeps a server busy, and how long a request stays among so
many. Goes out: the mean wait before prefill, and requests in flight by Little's law. Prompts are
served one by one, or those that wait share a pass, whichever makes them wait less. Neither depends
on what is in flight, so that a faster device never makes a prompt wait longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvdsl.arithmetic import (
    at_least,
    finite_or,
    floored,
    greater,
    raised,
    real,
    smaller,
    some,
    where,
)
from kvdsl.formulas import Term, formula
from kvdsl.units import TIME

Among = Callable[[Any], Any]
"""Seconds from a request's arrival to its last token, among so many in flight."""

Stay = Callable[[Term], Among]
"""The same, by arrivals a second at the pool."""


@formula(
    "the least wait of prompts one by one, R D^2 / (2 (1 - R D)), and in shared passes, at most "
    "D / (2 (1 - R d)) (1 + 2 R (D - d) + (1 - R (D - d)) / (1 + R d)) - D and "
    "(3/2) (D - d) / (1 - R d) + d (R d + 2) / (2 (1 - (R d)^2)) - D",
    TIME,
    "M/D/1 as Zhong et al., DistServe, arXiv 2401.09670; a pass takes D and d for each further "
    "prompt, and all that wait share it: Inoue, Perform. Eval. 147, 2021, arXiv 1912.06322",
)
def queue_wait(arrivals: float, alone: float, many: float) -> float:
    """`alone` is what a prompt keeps a server busy for when it comes alone, `many` among many."""
    each = real(many)
    longest = greater(real(alone), each)
    single = _one_by_one(real(arrivals), longest)
    return smaller(single, _shared(real(arrivals), longest, each))


def _one_by_one(arrivals: Any, time: Any) -> Any:
    busy = arrivals * time
    return where(busy < 1, busy * time / (2 * where(busy < 1, 1 - busy, 1)), float("inf"))


def _shared(arrivals: Any, alone: Any, each: Any) -> Any:
    """Two bounds of the mean time in such a queue, less the own pass: one is close where few wait,
    one where many do."""
    busy, fixed = arrivals * each, alone - each
    left = where(busy < 1, 1 - busy, 1)
    few = 1 + 2 * arrivals * fixed + (1 - arrivals * fixed) / (1 + busy)
    lots = 1.5 * fixed / left + each * (busy + 2) / (2 * left * (1 + busy))
    time = smaller(alone / (2 * left) * few, lots)
    return where(busy < 1, greater(time - alone, 0.0), float("inf"))


@formula("none, or without end where more are in flight than fit", TIME, "a queue that only grows")
def endless_wait(asked: float, served: float) -> float:
    # Where not even one fits, times are told of one.
    return where(real(asked) > greater(real(served), 1.0), float("inf"), 0.0)


def flying(limit: Any, arrivals: Any, among: Among) -> Any:
    """Requests in flight by Little's law, at most `limit` of which fit: the fewest that serve the
    rate, or, where even a full cache cannot, what it asks then."""

    def needed(count: Any) -> Any:
        # A queue without end fills the cache.
        return raised(finite_or(real(arrivals) * among(count), limit), 1)

    return fewest(limit, needed)


def most_flying(capacity: Any) -> Any:
    """The whole requests that fit; times are told of one even where none does."""
    return at_least(floored(capacity, 1), 1)


def fewest(limit: Any, needed: Callable[[Any], Any]) -> Any:
    """The least count that is at least what it needs; what the limit needs, where none is. With an
    array of limits each has its own. Where `needed` falls, the count never grows."""
    low, high = 0 * limit, 0 * limit + 1
    while some(grows := (high < limit) & (high < needed(high))):
        low, high = where(grows, high, low), where(grows, smaller(high * 2, limit), high)
    while some(apart := high - low > 1):
        middle = at_least((low + high) // 2, 1)
        enough = middle >= needed(middle)
        low = where(apart, where(enough, low, middle), low)
        high = where(apart & enough, middle, high)
    return where(high == limit, greater(high, needed(high)), high)


def remembered(found: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, once for each count; of arrays of counts none comes again."""
    known: dict[Any, Any] = {}

    def once(count: Any) -> Any:
        if not isinstance(count, int):
            return found(count)
        if count not in known:
            known[count] = found(count)
        return known[count]

    return once
