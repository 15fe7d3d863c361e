"""Sharing: the devices of two pools as one pool that prefills and decodes.

Comes in: the estimates of a pool that prefills and one that decodes. Goes out: the same devices
under one layout, through the same function as the plan, and what a request waits there: prompts
that are computed hold up the tokens of others. It is what disaggregation has to beat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvdsl import units
from kvdsl.arithmetic import real, where
from kvdsl.costs.balance import busy_prefill, mean_output
from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.origins import of_workload
from kvdsl.costs.pace import constants
from kvdsl.formulas import Term, formula
from kvdsl.placement.degrees import Degrees
from kvdsl.placement.subject import Subject
from kvdsl.placement.topology import Topology, made_of, topology
from kvdsl.spec.deployment import Pool
from kvdsl.units import NONE, TIME

_TURNS = "prefill and decode take turns on a device; what is left of its time decodes"


@formula("how busy prefill is x (requests in flight - 1) / requests in flight", NONE,
         "a request in flight meets the others: Reiser, Lavenberg, J. ACM 27(2), 1980")  # fmt: skip
def busy_for_others(busy: float, in_flight: float) -> float:
    return real(busy) * (real(in_flight) - 1) / real(in_flight)


@formula("time of a token / (1 - how busy prefill is)", TIME, _TURNS)
def slowed_token(tpot: float, busy: float) -> float:
    rest = 1 - real(busy)
    return where(rest > 0, real(tpot) / where(rest > 0, rest, 1), float("inf"))


@formula("output x (time of a token there - time of a token alone)", TIME, _TURNS)
def interference(output: float, slowed: float, alone: float) -> float:
    return real(output) * (real(slowed) - real(alone))


@formula("time to the first token + output x time of a token", TIME)
def request_time(ttft: float, output: float, tpot: float) -> float:
    return real(ttft) + real(output) * real(tpot)


@dataclass(frozen=True, slots=True)
class Together:
    """`estimate` is the one pool, its `decode.tpot` with the wait for prompts. `held_up` is that
    wait over all tokens of a request, `time` a request from arrival to its last token."""

    estimate: Estimate
    held_up: Term
    time: Term


def together(sender: Estimate, receiver: Estimate, rate: Term) -> Together | None:
    """The best of both pools' layouts over all their devices; None where the devices differ or the
    workload has no end, so that there is nothing to compare."""
    found = _candidates(sender, receiver, rate)
    return min(found, key=lambda one: float(one.time.value), default=None)


def _candidates(sender: Estimate, receiver: Estimate, rate: Term) -> Iterator[Together]:
    hardware = _hardware(sender.subject, receiver.subject)
    if hardware is None:
        return
    pool, joined = hardware
    tried: list[Degrees] = []
    for own in (receiver.subject, sender.subject):
        replicas = joined.devices // (own.degrees.size * own.degrees.pp)
        degrees = replace(own.degrees, replicas=replicas)
        if not replicas or degrees in tried:
            continue
        tried.append(degrees)
        both = pool.model_copy(update={"kv": own.pool.kv, "engine": own.pool.engine})
        made = replace(own, pool=both, degrees=degrees, topology=joined,
                       workload=sender.subject.workload)  # fmt: skip
        judged = _judged(made, rate)
        if judged is not None:
            yield judged


def _judged(made: Subject, rate: Term) -> Together | None:
    try:
        found = estimate(made)
    except ValueError:  # a group that nothing joins
        return None
    busy = busy_prefill(found, rate)
    output = mean_output(made.workload)
    wanted = ("prefill.ttft", "decode.tpot")
    if not found.fits or busy is None or not output or any(w not in found.values for w in wanted):
        return None
    if found.load is not None and found.load.queued:
        return None
    if made.workload.rate is None and found.load is not None:
        # So many requests come and go: what one of them meets are the prompts of the others.
        busy = busy_for_others.derive("how busy with others", busy=busy, in_flight=found.load.asked)
    alone = found.values["decode.tpot"]
    # At an engine's pace a token waits for the prompts of others already.
    paced = constants(made) is not None
    slowed = alone
    if not paced:
        slowed = slowed_token.derive("a token among prompts", tpot=alone, busy=busy)
    many = of_workload(made, "output", output, units.TOKENS)
    held = interference.derive("held up by prompts", output=many, slowed=slowed, alone=alone)
    time = request_time.derive(
        "a request in one pool", ttft=found.values["prefill.ttft"], output=many, tpot=slowed
    )
    shown = {**found.values, "decode.tpot": slowed}
    return Together(replace(found, values=shown), held, time)


def alike(one: Subject, other: Subject) -> bool:
    """Whether both pools stand on one kind of device, and on the same."""
    kinds = [made_of(subject.topology, "device") for subject in (one, other)]
    return len(kinds[0]) == 1 and kinds[0].keys() == kinds[1].keys()


def _hardware(sender: Subject, receiver: Subject) -> tuple[Pool, Topology] | None:
    """All devices of two pools of one kind of hardware: parts of one piece, or more of it."""
    one, other = sender.pool.on, receiver.pool.on
    if one is None or other is None or one.of.title != other.of.title or one.of.at != other.of.at:
        return None
    if not alike(sender, receiver):
        return None
    role = {"role": "both", "share": None, "name": "", "replicas": None}
    if one.pick is None and other.pick is None:
        more = one.model_copy(update={"count": one.count + other.count})
        return receiver.pool.model_copy(update={**role, "on": more}), topology(more)
    if one.pick is None or other.pick is None or one.pick.level != other.pick.level:
        return None
    pick = one.pick.model_copy(update={"runs": tuple(sorted({*one.pick.runs, *other.pick.runs}))})
    whole = one.model_copy(update={"pick": pick})
    return receiver.pool.model_copy(update={**role, "on": whole}), topology(whole)


def apart(ttft: Term, tpot: Term, subject: Subject) -> Term | None:
    """A request from arrival to its last token, prefill and decode apart."""
    output = mean_output(subject.workload)
    if not output:
        return None
    many = of_workload(subject, "output", output, units.TOKENS)
    return request_time.derive("a request in two pools", ttft=ttft, output=many, tpot=tpot)
