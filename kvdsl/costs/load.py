"""Load: how many requests are in flight on each rank, and how far along they are.

Comes in: a placement and its capacity. Goes out: requests on the busiest rank and the mean, in
flight at once and in one micro-batch of the pipeline. With more in flight than fit, what fits runs
and the rest queues. Pipeline stages are kept full: requests are dealt over `pp` micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import greater, over, raised, rate, real, smaller, some
from kvdsl.costs.origins import fixed, leaf, of_layout
from kvdsl.costs.weights import Exact
from kvdsl.formulas import Term, formula
from kvdsl.placement.subject import Subject
from kvdsl.units import REQUEST_RATE, TIME, TOKEN_RATE, tidy


@formula("ceil(requests in flight / holders)", units.REQUESTS, "requests spread evenly over ranks")
def busiest_requests(in_flight: Exact, holders: int) -> int:
    return raised(in_flight, holders)


@formula("requests in flight / holders", units.REQUESTS, "requests spread evenly over ranks")
def mean_requests(in_flight: Exact, holders: int) -> Exact:
    return over(in_flight, holders)


@formula("ceil(requests / micro-batches)", units.REQUESTS, "continuous batching fills the pipeline")
def batch(requests: int, micro_batches: int) -> int:
    return raised(requests, micro_batches)


@dataclass(frozen=True, slots=True)
class Load:
    """`busiest` and `mean` requests of a holder; `batch` those of one micro-batch on the busiest;
    `context` the tokens that a decode step reads of each."""

    asked: Term
    served: Term
    busiest: Term
    mean: Term
    micro_batches: Term
    batch: Term
    context: Term

    @property
    def queued(self) -> int:
        return max(0, int(self.asked.value) - int(self.served.value))

    @property
    def overfull(self) -> bool:
        """Whether some do not fit, under any of the loads where these are many."""
        return some(self.asked.value > self.served.value)


@formula(
    "the lesser of requests in flight / time of a token and arrivals x output",
    TOKEN_RATE,
    "what has not arrived yields no token: requests in flight are whole ones, rounded up",
)
def arriving_throughput(flow: float, arrivals: float, output: float) -> float:
    return smaller(real(flow), real(arrivals) * real(output))


@formula(
    "full x (asked / served - 1) x output x time of a token", TIME, "waits for a place in the cache"
)
def place_wait(full: float, asked: float, served: float, output: float, tpot: float) -> float:
    over_full = greater(rate(asked, served, 1.0) - 1, 0.0)
    return real(full) * over_full * real(output) * real(tpot)


def arrivals_at(subject: Subject) -> Term | None:
    """Requests a second that reach the pool; None where the workload has no rate."""
    workload, share = subject.workload, subject.pool.share
    if workload.rate is None:
        return None
    arrivals = leaf(workload, "rate", "arrivals", workload.rate, REQUEST_RATE)
    if share is None or share == 1:
        return arrivals
    return Term("arrivals at the pool", tidy(Fraction(workload.rate) * share), REQUEST_RATE,
                inputs=(arrivals,), note="the pool's share")  # fmt: skip


def output_of(subject: Subject) -> Term:
    """Output tokens of a request, the mean over classes; 0 where the workload is a context."""
    workload = subject.workload
    if workload.classes:
        mean = sum((Fraction(c.share) * (c.output or 0) for c in workload.classes.values()),
                   start=Fraction(0))  # fmt: skip
        return Term("output", tidy(mean), units.TOKENS, note="the mean over classes")
    if workload.output is None:
        return fixed("output", 0, "the workload is a context", units.TOKENS)
    return leaf(workload, "output", "output", workload.output, units.TOKENS)


def yielded(subject: Subject, flow: Term) -> Term:
    """Output tokens a second: what requests in flight yield, at most what arrives."""
    arrivals, output = arrivals_at(subject), output_of(subject)
    if arrivals is None or not some(output.value):
        return flow
    return arriving_throughput.derive("output", flow=flow, arrivals=arrivals, output=output)


def asked_requests(subject: Subject) -> Term:
    """Requests in flight that the workload asks of this pool."""
    workload = subject.workload
    if workload.concurrency is None:
        raise ValueError("a rate alone has to be solved first")
    asked = leaf(
        workload, "concurrency", "requests in flight", workload.concurrency, units.REQUESTS
    )
    share = subject.pool.share
    if share is None or share == 1:
        return asked
    part = -(-(Fraction(asked.value) * share) // 1)
    return Term("requests in flight in the pool", int(part), units.REQUESTS, inputs=(asked,),
                note="the pool's share")  # fmt: skip


def carried(subject: Subject, capacity: Term, solved: Callable[[], Term]) -> Load:
    """The load of what the workload asks: so many in flight, or, `solved`, as a rate means."""
    said = subject.workload.concurrency is not None
    return load(subject, asked_requests(subject) if said else solved(), capacity)


def load(subject: Subject, asked: Term, capacity: Term, context: Term | None = None) -> Load:
    """The load of so many requests in flight; `context` where it is not the workload's."""
    degrees = subject.degrees
    holders = of_layout(subject, "holders (DP ranks of all replicas)", degrees.holders)
    served = _served(asked, capacity)
    busiest = busiest_requests.derive(
        "requests on the busiest rank", in_flight=served, holders=holders
    )
    mean = mean_requests.derive("requests on a rank, mean", in_flight=served, holders=holders)
    micro = of_layout(
        subject,
        "micro-batches",
        greater(1, smaller(degrees.pp, busiest.value)),
        note="one a stage",
    )
    return Load(
        asked,
        served,
        busiest,
        mean,
        micro,
        batch.derive("requests in a micro-batch", requests=busiest, micro_batches=micro),
        context or context_of(subject),
    )


def _served(asked: Term, capacity: Term) -> Term:
    """What runs: all that is asked, or what fits. Either may be an array."""
    if smaller(asked.value, capacity.value) is asked.value:
        return asked
    return Term("requests that run", smaller(asked.value, capacity.value), units.REQUESTS,
                inputs=(capacity,), note="the rest queues")  # fmt: skip


@formula("prompt + output / 2", units.TOKENS, "the middle of a request's decode")
def middle(prompt: Exact, output: Exact) -> Exact:
    return over(2 * prompt + output, 2)  # exact, and of arrays too


def context_of(subject: Subject) -> Term:
    """Tokens that a decode step reads of each request, the mean over those in flight."""
    workload = subject.workload
    if workload.classes:
        mean = Fraction(0)
        for share, kind in workload.in_flight():
            length = kind.context or (kind.prompt or 0) + Fraction(kind.output or 0, 2)
            mean += share * length
        return Term("tokens read of each request", tidy(mean), units.TOKENS,
                    note="the mean over classes of those in flight")  # fmt: skip
    if workload.context is not None:
        return leaf(workload, "context", "tokens read of each request", workload.context,
                    units.TOKENS)  # fmt: skip
    prompt = leaf(workload, "prompt", "prompt", workload.prompt_tokens, units.TOKENS)
    output = leaf(workload, "output", "output", workload.output_tokens, units.TOKENS)
    return middle.derive("tokens read of each request", prompt=prompt, output=output)
