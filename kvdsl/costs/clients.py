"""Clients: where so many requests in flight are, if one pool prefills and another decodes.

Comes in: the estimates of pools that prefill and of pools that decode. Goes out: nothing where
prefill keeps up; else how many of the requests decode, and how long the rest wait for prefill. A
deployment's output is then what prefill hands on, however much the pools that decode could do.
Source: Little's law, and the least of the stations' rates in a closed network (Reiser, Lavenberg,
J. ACM 27(2), 1980).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from kvdsl import units
from kvdsl.arithmetic import at_least, real
from kvdsl.costs.balance import mean_output
from kvdsl.costs.estimate import Estimate, estimate, reloaded
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import of_layout, of_workload
from kvdsl.formulas import Term, formula, least
from kvdsl.placement.subject import Subject
from kvdsl.units import REQUEST_RATE, TIME

ENOUGH = 1 + 1e-9
"""How much faster than prefill requests must come to be held back: past the last digit of a
float."""


@formula("prompts at once / time of a prompt in the slowest stage", REQUEST_RATE)
def most_prompts(servers: int, stage: float) -> float:
    return real(servers) / real(stage)


@formula("what the pool prefills / its share of requests", REQUEST_RATE)
def of_all(rate: float, share: Fraction) -> float:
    return real(rate) / real(share)


@formula("in flight / requests handed on - output x time of a token", TIME,
         "Little's law over both pools; prefill is never idle")  # fmt: skip
def waiting_time(in_flight: float, rate: float, output: float, tpot: float) -> float:
    return at_least(real(in_flight) / real(rate) - real(output) * real(tpot), 0)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """`rate` is what prefill hands on at the most, `clients` all requests in flight, `subjects` the
    pools that decode with those that reach them, by position."""

    rate: Term
    clients: Term
    output: Term
    subjects: tuple[Subject, ...]

    def ttft(self, tpot: Term) -> Term:
        """The time to the first token of requests that mostly wait for prefill."""
        return waiting_time.derive(
            "time to the first token", in_flight=self.clients, rate=self.rate, output=self.output,
            tpot=tpot,
        )  # fmt: skip


def held_back(senders: Sequence[Estimate], receivers: Sequence[Estimate]) -> HeldBack | None:
    """None where there is no bound: a rate is given, requests have no end, or prefill keeps up."""
    rate = _most(senders)
    if rate is None or not receivers:
        return None
    subject = receivers[0].subject
    said, output = subject.workload.concurrency, mean_output(subject.workload)
    if said is None or not output:
        return None
    service = max(float(p.prefill.service.value) for p in senders if p.prefill is not None)
    if any(_taken(pool, real(said), service, real(output)) <= rate.value * ENOUGH
           for pool in receivers):  # fmt: skip
        return None
    return HeldBack(
        rate,
        leaf(subject.workload, "concurrency", "in flight", said, units.REQUESTS),
        of_workload(subject, "output", output, units.TOKENS),
        tuple(_reached(pool, float(rate.value), real(output)) for pool in receivers),
    )


def _taken(pool: Estimate, clients: float, service: float, output: float) -> float:
    """Requests a second of the deployment that a pool takes in, with prefill never in the way."""
    if pool.load is None or "decode.tpot" not in pool.values:
        return 0.0
    token = output * float(pool.values["decode.tpot"].value)
    alone = real(pool.load.served.value) / (token * float(pool.subject.pool.share or 1))
    return min(clients / (service + token), alone)


def _most(senders: Sequence[Estimate]) -> Term | None:
    """Requests a second of the deployment that its pools of prefill can hand on."""
    found = []
    for pool in senders:
        if pool.prefill is None or not real(pool.prefill.stage.value):
            return None
        servers = of_layout(pool.subject, "prompts at once", pool.subject.degrees.holders)
        own = most_prompts.derive(
            "prompts a second at the most", servers=servers, stage=pool.prefill.stage
        )
        share = pool.subject.pool.share
        if share is not None and share != 1:
            part = leaf(pool.subject.pool, "share", "share of requests", share, units.NONE)
            own = of_all.derive("requests a second at the most", rate=own, share=part)
        found.append(own)
    return least("handed on at the most", found) if found else None


def _reached(pool: Estimate, rate: float, output: float) -> Subject:
    """The pool with the fewest requests in flight that take in what prefill hands on."""
    share = pool.subject.pool.share or Fraction(1)
    wanted = rate * float(share) * output

    def serves(count: int) -> bool:
        found = estimate(_with(pool, count), reloaded(pool, _with(pool, count).workload))
        return float(count) / float(found.values["decode.tpot"].value) >= wanted

    most = ceil(real(pool.load.served.value)) if pool.load is not None else 1
    low, high = 0, max(1, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if serves(middle) else (middle, high)
    return _with(pool, high)


def _with(pool: Estimate, count: int) -> Subject:
    share = pool.subject.pool.share or 1
    workload = pool.subject.workload.model_copy(
        update={"concurrency": max(1, int(count / Fraction(share)))}
    )
    return replace(pool.subject, workload=workload)
