"""Turns: prefill and decode on the same devices, at ideal times.

Comes in: a placement, the prefill of one of its prompts, and a load. Goes out: what a token waits
while prompts of others are computed, and how long a request keeps its place for each of its tokens.
A device does one or the other: of its time, what prompts take is gone for tokens, as at an engine's
pace. Clients who wait for answers are each other's prompts; of a rate, what arrives while a token
is made. With `context` requests never end, and no prompt comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvdsl.arithmetic import at_least, finite_or, greater, over, real, smaller, some, where
from kvdsl.costs.load import Load, arrivals_at, output_of
from kvdsl.costs.memory import Ledger
from kvdsl.costs.origins import fixed, of_layout
from kvdsl.costs.prefill import Prefill, pass_of_prompts, rate_of_server, throughput
from kvdsl.costs.steady import (
    CLIENT,
    others,
    positive,
    prompts_share,
    step_tokens,
    token_time,
    token_turn,
)
from kvdsl.formulas import Term, formula
from kvdsl.placement.placement import Placement
from kvdsl.placement.subject import Subject
from kvdsl.units import NONE, REQUESTS

Number = int | Fraction | float

_IN_FULL = fixed("share waited for", 1, "time = ideal: a device does one thing at a time")
_ALONE = fixed("DP ranks", 1, "each prefills its own prompts")
_EACH = fixed("tokens that a step yields", 1, "one of each request")


@formula(
    "arrivals x output x the shorter round, with prompts one by one, step / (1 - R D), or in "
    "shared passes, (step + D - d) / (1 - R d); at most those in flight",
    REQUESTS,
    "Little's law; prefill and decode take turns on a device, a pass takes D and d for each "
    "further prompt, and what finds no place does not decode",
)
def decoding(
    arrivals: float, output: float, step: float, alone: float, many: float, there: Number
) -> float:  # fmt: skip
    each = real(many)
    single = greater(real(alone), each)
    one_by_one = _round(real(step), real(arrivals) * single)
    shared = _round(real(step) + single - each, real(arrivals) * each)
    made = real(arrivals) * real(output) * finite_or(smaller(one_by_one, shared), 0.0)
    return where(real(arrivals) * each < 1, smaller(made, real(there)), real(there))


def _round(fixed: Any, busy: Any) -> Any:
    """A step and its prompts, of which each arrival adds to the next."""
    return where(busy < 1, fixed / where(busy < 1, 1 - busy, 1), float("inf"))


@formula("requests / output, at least 1", NONE, "prompts that come in a step are computed together")
def prompts_together(requests: Number, output: Number) -> Number:
    return at_least(over(requests, output), 1)


@dataclass(frozen=True, slots=True)
class Shared:
    """What a token waits for prompts of others, and of clients' prompts the tokens a second in
    passes of so many: at a rate they are as many as wait."""

    prompts: Term
    throughput: Term | None


@dataclass(frozen=True, slots=True)
class Turns:
    """`arrivals` at a server (a DP rank), None where clients wait for answers."""

    placement: Placement
    books: tuple[Ledger, ...]
    first: Prefill
    output: Term
    arrivals: Term | None

    def shared(self, load: Load, step: Term) -> Shared:
        """What prompts of others take, beside a step of so long."""
        if self.arrivals is None:
            met = others.derive(
                "other requests on the busiest rank", in_flight=load.busiest, own=CLIENT,
                ranks=_ALONE,
            )  # fmt: skip
        else:
            met = decoding.derive(
                "requests that decode on a rank", arrivals=self.arrivals, output=self.output,
                step=step, alone=self.first.alone, many=self.first.stage, there=load.busiest,
            )  # fmt: skip
        together = prompts_together.derive("prompts in a pass", requests=met, output=self.output)
        chunk, tokens = self.first.alone, self.first.new
        if some(together.value > 1):
            chunk = pass_of_prompts(self.placement, self.books, together).stage
            tokens = step_tokens.derive(
                "prompt tokens of a pass", requests=together, each=self.first.new
            )
        flow = throughput(self.placement, tokens, chunk) if self.arrivals is None else None
        prompts = prompts_share.derive(
            "prompts of others",
            waited=_IN_FULL,
            others=met,
            new=self.first.new,
            output=self.output,
            tokens=tokens,
            chunk=chunk,
        )
        return Shared(prompts, flow)

    def token(self, step: Term, prompts: Term) -> Term:
        return token_time.derive("time of a token", step=step, yielded=_EACH, prompts=prompts)

    def turn(self, tpot: Term) -> Term:
        """For how long a request keeps its place, by its tokens."""
        return token_turn.derive(
            "a token and its part of the prefill", tpot=tpot, held=self.first.service,
            output=self.output,
        )  # fmt: skip


def turns(
    placement: Placement, books: tuple[Ledger, ...], first: Prefill | None, rate: Term | None = None
) -> Turns | None:
    """None where one pool does one thing, or requests never end; `rate` where it is not the
    workload's."""
    subject = placement.subject
    if first is None or not _ends(subject):
        return None
    arrivals = rate
    if arrivals is None and subject.workload.concurrency is None:
        arrivals = arrivals_at(subject)
    if arrivals is not None:
        servers = of_layout(subject, "DP ranks of all replicas", placement.degrees.holders)
        arrivals = rate_of_server.derive("arrivals at a DP rank", rate=arrivals, servers=servers)
    return Turns(placement, books, first, output_of(subject), arrivals)


def _ends(subject: Subject) -> bool:
    """Whether requests come to an end, and others with prompts take their places."""
    workload = subject.workload
    if workload.context is not None:
        return False
    if any(kind.context is not None for kind in workload.classes.values()):
        return False
    return positive(output_of(subject))
