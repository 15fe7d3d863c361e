"""Sustained: the highest rate of requests that a pool serves.

Comes in: the estimate of a pool. Goes out: requests a second that some number in flight serves, at
most as many as fit, by Little's law: each keeps its place from its arrival to its last token, and
both times grow with the rate where prompts are computed on the same devices. It is judged as a plan
of that rate is, so that what is told is served. What prefill alone lets through is more.
"""

from __future__ import annotations

from math import floor, log10, sqrt

from kvdsl.arithmetic import real
from kvdsl.costs import fitted, ideal
from kvdsl.costs.admission import RUNNING
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.pace import constants
from kvdsl.costs.queues import Stay, flying
from kvdsl.formulas import Term
from kvdsl.units import REQUEST_RATE

APART = 1e-5
"""How far the last rates tried lie apart: past the last digit that is told."""

LEAST = 1e-12
"""Requests a second that nobody asks for: one in 30,000 years."""

DIGITS = 3
"""No more than are shown, and rounded down: the rate that is told is served."""


def sustained(found: Estimate) -> float | None:
    """Requests a second of the deployment; None where no request fits, or none says how many
    arrive."""
    if found.subject.pool.role == "prefill":
        return _prefilled(found)
    subject, fits = found.subject, found.values[RUNNING]
    if subject.workload.rate is None or int(fits.value) < 1 or found.load is None:
        return None
    share = float(subject.pool.share or 1)
    stay, limit = _stays(found), int(fits.value)

    def served(rate: float) -> bool:
        among = stay(Term("arrivals", rate, REQUEST_RATE))
        count = flying(limit, rate, among)
        return bool(count <= limit and among(count) < float("inf"))

    low, high = LEAST, float(subject.workload.rate) * share
    if served(high):
        return _down(high / share)
    if not served(low):
        return None
    while high > low * (1 + APART):
        middle = sqrt(low) * sqrt(high)
        low, high = (middle, high) if served(middle) else (low, middle)
    return _down(low / share)


def _stays(found: Estimate) -> Stay:
    subject, pace = found.subject, constants(found.subject)
    loaded = fitted.of_count(subject, found.values[RUNNING])
    if pace is None:
        return ideal.stays(found.placement, found.ledgers, found.prefill, loaded)
    made = fitted.serving(found.placement, found.ledgers, pace)
    return fitted.stays(made, fitted.lengths_of(subject), loaded)


def _prefilled(found: Estimate) -> float | None:
    """Of a pool that only prefills: by a last digit less than one prompt a server in the time of
    its slowest stage, at which the queue would have no end."""
    if found.prefill is None or not real(found.prefill.stage.value):
        return None
    most = found.subject.degrees.holders / real(found.prefill.stage.value)
    return _down(most * (1 - 10.0**-DIGITS) / float(found.subject.pool.share or 1))


def _down(rate: float) -> float:
    digits = DIGITS - 1 - floor(log10(rate))
    if rate >= 10.0**-DIGITS:  # of what is below one, so many decimals are shown
        digits = min(digits, DIGITS)
    return floor(rate * 10.0**digits) / 10.0**digits
