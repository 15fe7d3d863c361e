"""Sharing: the devices of two pools as one pool that prefills and decodes.

Comes in: the estimates of a pool that prefills and one that decodes. Goes out: the same devices
under one layout, through the same function as the plan, and what a request waits there: prompts
that are computed hold up the tokens of others. It is what disaggregation has to beat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvdsl import units
from kvdsl.arithmetic import real
from kvdsl.costs.balance import mean_output
from kvdsl.costs.estimate import Estimate, estimate
from kvdsl.costs.origins import of_workload
from kvdsl.formulas import Term, formula
from kvdsl.placement.degrees import Degrees
from kvdsl.placement.subject import Subject
from kvdsl.placement.topology import Topology, made_of, topology
from kvdsl.spec.deployment import Pool
from kvdsl.units import TIME


@formula("output x wait for prompts of others", TIME)
def interference(output: float, prompts: float) -> float:
    return real(output) * real(prompts)


@formula("time to the first token + output x time of a token", TIME)
def request_time(ttft: float, output: float, tpot: float) -> float:
    return real(ttft) + real(output) * real(tpot)


@dataclass(frozen=True, slots=True)
class Together:
    """`estimate` is the one pool. `held_up` is what the tokens of a request wait there while others
    are prefilled, `time` a request from arrival to its last token."""

    estimate: Estimate
    held_up: Term
    time: Term


def together(sender: Estimate, receiver: Estimate) -> Together | None:
    """The best of both pools' layouts over all their devices; None where the devices differ or the
    workload has no end, so that there is nothing to compare."""
    found = _candidates(sender, receiver)
    return min(found, key=lambda one: float(one.time.value), default=None)


def _candidates(sender: Estimate, receiver: Estimate) -> Iterator[Together]:
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
        judged = _judged(made)
        if judged is not None:
            yield judged


def _judged(made: Subject) -> Together | None:
    try:
        found = estimate(made)
    except ValueError:  # a group that nothing joins
        return None
    output = mean_output(made.workload)
    wanted = ("prefill.ttft", "decode.tpot", "decode.prompts")
    if not found.fits or not output or any(w not in found.values for w in wanted):
        return None
    if found.load is not None and found.load.queued:
        return None
    many = of_workload(made, "output", output, units.TOKENS)
    held = interference.derive(
        "held up by prompts", output=many, prompts=found.values["decode.prompts"]
    )
    time = request_time.derive(
        "a request in one pool", ttft=found.values["prefill.ttft"], output=many,
        tpot=found.values["decode.tpot"],
    )  # fmt: skip
    return Together(found, held, time)


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
