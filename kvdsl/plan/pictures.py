"""The placement as it is drawn: nested boxes of devices, and the groups over them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """A device of the placement picture: what its rank holds. `share` tells equal shares apart
    (devices with the same share hold the same bytes); idle devices have none. `taken_by` is the
    deployment beside this one that an idle device belongs to."""

    device: int
    rank: str
    lines: tuple[str, ...]
    replica: int
    stage: int
    holder: int
    share: str
    copy_of: str
    idle: bool = False
    taken_by: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A unit of the placement picture: a cluster, rack or node with boxes or devices in it.
    `count` above 1 says that so many are alike and this is one of them."""

    kind: str
    title: str
    join: str
    join_fast: bool
    count: int
    boxes: tuple[Box, ...] = ()
    cells: tuple[Cell, ...] = ()
    row: int = 0
    """Devices in a row of the shape that joins them; 0 where it has no rows."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A group to draw: the devices that it joins, what it is, and whether it leaves its domain."""

    axis: str
    devices: tuple[int, ...]
    crosses: bool
    label: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The placement of a pool: nested boxes, and the groups that matter. `legend` explains the
    colours: one entry a share; `note` says what was folded."""

    pool: str
    root: Box
    wires: tuple[Wire, ...]
    legend: tuple[tuple[str, str], ...]
    note: str
    caption: str
