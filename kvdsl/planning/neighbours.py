"""Devices that other deployments of a fleet stand on, for the placement picture of one of them.

Comes in: a selection of hardware and the deployments beside it. Goes out: runs of devices of the
same root, each with the name of the deployment that has it. Not its job: devices that two claim
(fleets has the finding).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvdsl.placement.sites import one_piece
from kvdsl.placement.topology import topology
from kvdsl.spec.deployment import Deployment, Fleet
from kvdsl.spec.hardware import Selection


@dataclass(frozen=True, slots=True)
class Taken:
    """Devices `start` to `end` (not included) of the root."""

    start: int
    end: int
    by: str


def taken(on: Selection | None, others: Iterable[Deployment]) -> tuple[Taken, ...]:
    """What others have of the thing that a pool stands on; nothing where they stand on things of
    their own, however alike."""
    return tuple(_runs(on, others)) if on is not None else ()


def _runs(on: Selection, others: Iterable[Deployment]) -> Iterator[Taken]:
    for other in others:
        for theirs in (pool.on for pool in other.pools.values()):
            if theirs is not None and one_piece(on, theirs):
                for _, start, many in topology(theirs).picked:
                    yield Taken(start, start + many, other.name)


def in_fleets_with(deployment: Deployment, fleets: Iterable[Fleet]) -> tuple[Deployment, ...]:
    """The other deployments of the fleets that a deployment is in, each once."""
    own = [fleet for fleet in fleets if any(d.at == deployment.at for d in fleet.deployments)]
    every = {each.at: each for fleet in own for each in fleet.deployments}
    every.pop(deployment.at, None)
    return tuple(every.values())
