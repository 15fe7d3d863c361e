"""The first token: a request's own prefill, and what it waits for before it.

Comes in: what serves, an engine's constants, lengths, a steady state and what arrives. Goes out:
the time to the first token with its parts, and the output of clients who wait for it. Clients are
closed loops, or arrivals a Poisson stream where a rate is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvdsl import units
from kvdsl.arithmetic import greater, real, smaller, some
from kvdsl.costs.load import place_wait
from kvdsl.costs.origins import fixed
from kvdsl.costs.pace import Constants
from kvdsl.costs.queues import endless_wait, queue_wait
from kvdsl.costs.setting import Setting
from kvdsl.costs.steady import (
    Lengths,
    Steady,
    positive,
    prefilling,
    token_throughput,
    token_turn,
)
from kvdsl.costs.step import FITTED, StagePace, paced
from kvdsl.formulas import Term, formula, greatest, total
from kvdsl.units import TIME

PROMPT = "prefill"
"""The pass of a prompt on each DP rank."""

_CLOSED = "closed loops of clients stay bunched: the wait grows slower than their number"
_TTFT = "time to the first token"


@formula("prompt / tokens of a chunk x time of a chunk / DP ranks", TIME, "prompts one by one")
def prompt_time(new: float, tokens: float, chunk: float, ranks: int) -> float:
    return real(new) / real(tokens) * real(chunk) / real(ranks)


@formula("steps x time of a step", TIME, FITTED)
def steps_met(steps: float, step: float) -> float:
    return real(steps) * real(step)


@formula("own x prefill of the prompt", TIME, FITTED)
def own_prefill(own: float, prefill: float) -> float:
    return real(own) * real(prefill)


@formula("queue x (in flight - 1)^crowd x (1024 / output)^length x prefill of one", TIME, _CLOSED)
def crowd_wait(
    queue: float, in_flight: float, crowd: float, output: float, length: float, one: float
) -> float:
    # No wait grows faster than what is waited for.
    ahead = greater(real(in_flight) - 1, 0.0) ** smaller(real(crowd), 1.0)
    shorter = (1024 / real(output)) ** smaller(real(length), 1.0)
    return real(queue) * ahead * shorter * real(one)


@dataclass(frozen=True, slots=True)
class First:
    """`service` is the pass of one prompt by itself, `stages` its passes, `busy` the slowest of a
    pass with a prompt on each DP rank, `one` the time that a prompt keeps a replica busy (at a rate
    among many that wait); of `ttft`, `held` is without waiting for a place."""

    stages: tuple[StagePace, ...]
    service: Term
    busy: Term
    one: Term
    ttft: Term
    held: Term


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a first token meets: a decode step, requests in flight in a replica, or a rate there."""

    step: Term
    tpot: Term
    in_flight: Term
    asked: Term
    served: Term
    rate: Term | None = None


@dataclass(frozen=True, slots=True)
class Own:
    """A request's own prefill: its passes and their time, the slowest stage where each DP rank has
    a prompt, and how long a prompt keeps a replica busy; where prompts queue at a rate, also how
    long it does so `alone`."""

    stages: tuple[StagePace, ...]
    service: Term
    busy: Term
    one: Term
    alone: Term | None = None


def prefilled(
    setting: Setting, constants: Constants, lengths: Lengths, beside: Steady | None = None
) -> Own:
    """The prefill of one prompt; `beside` a steady state, prompts share chunks."""
    prompt = fixed("requests", 1, "one prompt on each DP rank", units.REQUESTS)
    passed = prefilling(lengths.new, lengths, prompt, PROMPT)
    every = paced(setting, constants, passed)
    stages = every
    if some(setting.ranks.value > 1):
        lone = replace(passed, what="prefill of one prompt", alone=True)
        stages = paced(setting, constants, lone)
    busy = greatest("prefill in the slowest stage", [stage.time for stage in every])
    tokens, chunk = lengths.new, busy
    if beside is not None and beside.chunk is not None and beside.tokens is not None:
        slowest = [stage.time for stage in beside.chunk]
        tokens, chunk = beside.tokens, greatest("prefill in the slowest stage", slowest)
    one = prompt_time.derive(
        "time of a prompt in a replica",
        new=lengths.new,
        tokens=tokens,
        chunk=chunk,
        ranks=setting.ranks,
    )
    service = total("prefill of a prompt", [stage.time for stage in stages])
    return Own(stages, service, busy, one)


def crowded(setting: Setting, constants: Constants, lengths: Lengths) -> Term:
    """The time of a prompt in a replica where many wait: they fill its steps."""
    one = fixed("requests", 1, "a prompt at a time", units.REQUESTS)
    limit = constants.chunk
    chunk = paced(setting, constants, prefilling(limit, lengths, one, "prefill chunk"))
    return prompt_time.derive(
        "time of a prompt in a full replica",
        new=lengths.new,
        tokens=limit,
        chunk=greatest("prefill chunk in the slowest stage", [stage.time for stage in chunk]),
        ranks=setting.ranks,
    )


def arriving(setting: Setting, constants: Constants, lengths: Lengths) -> Own:
    """The prefill of prompts that arrive at a rate: those that wait fill an engine's steps, however
    many requests are in flight."""
    own = prefilled(setting, constants, lengths)
    many = crowded(setting, constants, lengths)
    # A prompt that is longer than a step takes as long alone.
    return replace(own, one=many, alone=greatest("time of a prompt alone", [own.one, many]))


def first(constants: Constants, lengths: Lengths, own: Own, met: Arrival) -> First:
    """The time to the first token; at a rate `own` is of arrivals."""
    parts = [
        constants.entry,
        steps_met.derive("decode steps met", steps=constants.steps, step=met.step),
        own_prefill.derive("own prefill", own=constants.own, prefill=own.service),
        *_wait(constants, lengths, own, met),
    ]
    held = total("time to the first token, once in flight", parts)
    place = _placed(constants, lengths, met)
    ttft = held.named(_TTFT) if place is None else total(_TTFT, [*parts, place])
    return First(own.stages, own.service, own.busy, own.one, ttft, held)


def client_throughput(served: Term, tpot: Term, token: First, lengths: Lengths) -> Term:
    """Output of clients who ask again once they are answered."""
    turn = token_turn.derive(
        "a token and its part of the first one's wait",
        tpot=tpot,
        held=token.held,
        output=lengths.output,
    )
    return token_throughput.derive("decode throughput", requests=served, tpot=turn)


def waited_place(asked: Term, served: Term, output: Term, tpot: Term, full: Term) -> Term:
    """What clients wait for a place in a cache that they overfill, `full` of a request's time."""
    return place_wait.derive(
        "wait for a place", full=full, asked=asked, served=served, output=output, tpot=tpot
    )


def _placed(constants: Constants, lengths: Lengths, met: Arrival) -> Term | None:
    """Waiting for a place in the cache."""
    if met.rate is not None:
        return unplaced(met.asked, met.served)
    if not positive(lengths.output):
        return None
    return waited_place(met.asked, met.served, lengths.output, met.tpot, constants.full)


def unplaced(asked: Term, served: Term) -> Term | None:
    """Of arrivals at a rate; None where all find a place, under every load."""
    if not some(asked.value > served.value):
        return None
    return endless_wait.derive("wait for a place", asked=asked, served=served)


def _wait(constants: Constants, lengths: Lengths, own: Own, met: Arrival) -> list[Term]:
    """Waiting for the prompts ahead."""
    if met.rate is not None:
        alone, many = own.alone or own.one, own.one
        return [queue_wait.derive("wait before prefill", arrivals=met.rate, alone=alone, many=many)]
    if not positive(lengths.output):
        return []
    crowd = crowd_wait.derive(
        "wait before prefill",
        queue=constants.queue,
        in_flight=met.in_flight,
        crowd=constants.crowd,
        output=lengths.output,
        length=constants.length,
        one=own.one,
    )
    return [crowd]
