"""The way of a request's cache: between pools, and to the tiers below them."""

from __future__ import annotations

from dataclasses import dataclass

from kvdsl.plan.segments import Segment
from kvdsl.units import Quantity


@dataclass(frozen=True, slots=True)
class MovedRow:
    """A part of the cache that is handed over: one copy, and all that is pulled of it."""

    part: str
    form: str
    kept: Quantity
    one: Quantity
    copies: Quantity
    size: Quantity


@dataclass(frozen=True, slots=True)
class TransferView:
    """A request's cache on its way. `steps` are its times one after the other or, where
    `pipelined`, at the same time; `visible` is what of `whole` a user waits for."""

    sender: str
    receiver: str
    link: str
    lanes: Quantity
    algorithm: str
    basis: str
    overlap: str
    pipelined: bool
    rows: tuple[MovedRow, ...]
    steps: tuple[Segment, ...]
    whole: Quantity
    visible: Quantity
    needed: Quantity | None
    present: Quantity


@dataclass(frozen=True, slots=True)
class TierView:
    """A tier below the memory of a pool's devices. What is None nobody can tell."""

    name: str
    tier: str
    pool: str
    place: str
    path: str
    form: str
    shared: bool
    capacity: Quantity
    tokens: Quantity
    share: Quantity
    load: Quantity | None
    fetch: Quantity | None
    recompute: Quantity | None
    break_even: Quantity | None
    read: Quantity | None
    reads: Quantity | None
    written: Quantity | None
    writes: Quantity | None
    """What it reads and what is asked of it; what it writes and what is asked."""


@dataclass(frozen=True, slots=True)
class FlowPool:
    """A pool of the flow picture; `busy` is the part of what it can do, where it is known."""

    name: str
    role: str
    hardware: str
    layout: str
    devices: Quantity
    tokens: Quantity
    busy: Quantity | None


@dataclass(frozen=True, slots=True)
class Flow:
    """Where a request's cache goes: the pools, the link between them, the tiers below them."""

    pools: tuple[FlowPool, ...]
    transfer: TransferView | None
    tiers: tuple[TierView, ...]
    working: str
    caption: str
