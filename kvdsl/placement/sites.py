"""Sites: what pools stand on, each unit once, however many of them stand on it.

Comes in: selections with their topologies and how many devices of each hold a rank. Goes out:
`Site`s: a piece of hardware and the places in it that are held, for what is counted by unit (a
price per node). Not its job: where a group of ranks meets (topology).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvdsl.placement.joins import Unit
from kvdsl.placement.topology import Topology, touched_units
from kvdsl.spec.hardware import Cluster, Hardware, Selection

Run = tuple[int, int]
"""Places of the root from the first to before the last."""

Held = tuple[Selection | None, Topology, int]
"""What a pool chose, its devices in line, and how many of them hold a rank."""


def one_piece(one: Selection, other: Selection) -> bool:
    """Whether two selections are of one thing. A cluster is one wherever it is named; of a node,
    rack or device, which are kinds (`1 x box` twice are two), parts are. Of the catalog's kinds
    only parts that do not overlap are of one thing."""
    if not one.of.name or one.of.at != other.of.at:
        return False
    if one.pick is None or other.pick is None:
        return isinstance(one.of, Cluster) and not one.of.catalog
    return not one.of.catalog or (
        one.pick.level == other.pick.level
        and all(a < c or d < b for b, a in one.pick.runs for c, d in other.pick.runs)
    )


def level_of(hardware: Hardware) -> str:
    """What a part of a cluster is picked by."""
    return next((w for w in ("nodes", "racks") if getattr(hardware, w, ())), "clusters")


@dataclass(frozen=True, slots=True)
class Site:
    """`runs` are in order and do not meet."""

    root: Unit
    runs: tuple[Run, ...]

    def touched(self, kind: str) -> int:
        """How many devices, nodes, racks or clusters hold a rank."""
        return sum(self.units(lambda unit: unit.kind == kind, others=False).values())

    def units(self, ends: Callable[[Unit], bool], *, others: bool = True) -> dict[Unit, int]:
        """The units that hold a rank, from the root down to those at which `ends`; with `others`
        the devices that lie in none of them, too."""
        found: dict[Unit, int] = {}
        for unit, count in touched_units(self.root, self.runs, ends):
            if others or ends(unit):
                found[unit] = found.get(unit, 0) + count
        return found


def sites(held: Sequence[Held]) -> tuple[Site, ...]:
    """Those of several pools: what is one piece of hardware is one site."""
    grouped: list[list[Held]] = []
    for each in held:
        known = (group for group in grouped if any(_meets(each, other) for other in group))
        group = next(known, None)
        if group is None:
            grouped.append([each])
        else:
            group.append(each)
    return tuple(
        Site(group[0][1].root, _merged(run for _, there, used in group for run in there.runs(used)))
        for group in grouped
    )


def _meets(one: Held, other: Held) -> bool:
    if one[0] is None or other[0] is None or one[1].root.devices != other[1].root.devices:
        return False
    return one_piece(one[0], other[0])


def _merged(runs: Iterable[Run]) -> tuple[Run, ...]:
    return tuple(_joined(sorted(runs)))


def _joined(runs: Sequence[Run]) -> Iterator[Run]:
    start, end = 0, 0
    for first, last in runs:
        if first <= end:
            end = max(end, last)
            continue
        if end > start:
            yield start, end
        start, end = first, last
    if end > start:
        yield start, end
