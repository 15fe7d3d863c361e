"""Sustained: the highest rate of requests that a pool serves.

Comes in: the estimate of a pool. Goes out: requests a second at which as many are in flight as fit,
by Little's law: each keeps its place from its arrival to its last token, and both times grow with
the rate where prompts are computed on the same devices. What prefill alone lets through is more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor, log10

from kvdsl.arithmetic import real
from kvdsl.costs.decode import decode
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.fitted import lengths_of, serving
from kvdsl.costs.load import Load, load, output_of
from kvdsl.costs.pace import Constants, constants
from kvdsl.costs.prefill import queued_time
from kvdsl.costs.turns import turns
from kvdsl.formulas import Term
from kvdsl.units import REQUEST_RATE

HALVINGS = 50
"""Past the last digit that is told."""

DIGITS = 3
"""No more than are shown, and rounded down: the rate that is told is served."""

Stay = Callable[[Term], float]
"""Seconds from a request's arrival to its last token, at so many arrivals a second at the pool."""


def sustained(found: Estimate) -> float | None:
    """Requests a second of the deployment; None where no request fits, or none says how many
    arrive."""
    if found.subject.pool.role == "prefill":
        return _prefilled(found)
    subject, fits = found.subject, found.values["kv.sequences"]
    if subject.workload.rate is None or int(fits.value) < 1 or found.load is None:
        return None
    share = float(subject.pool.share or 1)
    pace, full = constants(subject), load(subject, fits, fits)
    stay = _ideal(found, full) if pace is None else _paced(found, full, pace)

    def served(rate: float) -> bool:
        return rate * stay(Term("arrivals", rate, REQUEST_RATE)) <= float(fits.value)

    low, high = 0.0, float(subject.workload.rate) * share
    if served(high):
        return _down(high / share)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if served(middle) else (low, middle)
    return _down(low / share) if low else None


def _prefilled(found: Estimate) -> float | None:
    """Of a pool that only prefills: by a last digit less than one prompt a server in the time of
    its slowest stage, at which the queue would have no end."""
    if found.prefill is None or not real(found.prefill.stage.value):
        return None
    most = found.subject.degrees.holders / real(found.prefill.stage.value)
    return _down(most * (1 - 10.0**-DIGITS) / float(found.subject.pool.share or 1))


def _ideal(found: Estimate, full: Load) -> Stay:
    placement, books, first = found.placement, found.ledgers, found.prefill
    step = decode(placement, books, full).terms["decode.tpot"]
    output = real(output_of(found.subject).value)

    def stay(rate: Term) -> float:
        if first is None:
            return output * real(step.value)
        each = real(rate.value) / placement.degrees.holders
        ttft = queued_time(service=real(first.service.value), rate=each,
                           stage=real(first.stage.value))  # fmt: skip
        taken = turns(placement, books, first, rate)
        tpot = step if taken is None else taken.token(step, taken.shared(full, step).prompts)
        return float(ttft + output * real(tpot.value))

    return stay


def _paced(found: Estimate, full: Load, pace: Constants) -> Stay:
    made, lengths = serving(found.placement, found.ledgers, pace), lengths_of(found.subject)
    steady = made.at(full, lengths, closed=False)
    whole = real(lengths.output.value) * real(steady.tpot.value)

    def stay(rate: Term) -> float:
        if found.subject.pool.role != "both":
            return float(whole)
        return float(real(made.first(steady, full, lengths, rate).ttft.value) + whole)

    return stay


def _down(rate: float) -> float:
    digits = DIGITS - 1 - floor(log10(rate))
    return floor(rate * 10.0**digits) / 10.0**digits
