"""Hardware as a tree of units, and which domain two devices meet in.

Comes in: the selection that a deployment stands on. Goes out: a `Topology` that knows the device
at a place in line and the `Reach` of a group: the smallest domain that holds all of it. The tree
keeps equal neighbours as one entry with a count, so 10^12 nodes cost no more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kvdsl.placement.joins import Join, Unit, unit_of
from kvdsl.placement.levels import Level, Stop, join_among, levels, reach_depth
from kvdsl.spec.hardware import Device, Pick, Selection

__all__ = ["Join", "Level", "Reach", "Step", "Topology", "Unit", "topology", "units_of"]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a group of devices meets: the unit's kind and title, its join (None: nothing joins
    them), and over how many nodes and scale-up domains the group is spread."""

    kind: str
    title: str
    join: Join | None
    nodes: int
    domains: int
    levels: tuple[Level, ...] = ()
    """Each level that the group crosses, innermost first; none where nothing joins it."""

    @property
    def fast(self) -> bool:
        """Inside one scale-up domain (or one device)."""
        return self.kind == "device" or (self.join is not None and self.join.fast)


Step = tuple[Unit, int]
"""A unit on the way down to a device, and its number among all that lie under the same parent."""


MET = 512
"""Groups that a topology remembers, and devices of the largest of them."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The devices of a selection in line, from 0. `picked` maps places in line to places in
    `root` where only some units were chosen: runs of (first in line, first in root, length)."""

    root: Unit
    devices: int
    picked: tuple[tuple[int, int, int], ...]
    met: dict[tuple[int, ...], Reach] = field(default_factory=dict, repr=False, compare=False)
    """Groups whose reach is known: layouts on the same devices have many in common."""
    alike: dict[Reach, Reach] = field(default_factory=dict, repr=False, compare=False)
    """Each reach once: equal ones are the same object."""

    def path(self, place: int) -> tuple[Step, ...]:
        """From the root down to the device at a place in line."""
        return tuple((stop.unit, stop.number) for stop in self.trail(place))

    def trail(self, place: int) -> tuple[Stop, ...]:
        """The same, each unit with the place of its first device in the root."""
        return self._trail(self.in_root(place))

    def _trail(self, device: int) -> tuple[Stop, ...]:
        """From the root down to one of its devices."""
        unit, offset, start = self.root, device, 0
        stops: list[Stop] = []
        while unit.children:
            number = 0
            for count, child in unit.children:
                if offset < count * child.devices:
                    step, offset = divmod(offset, child.devices)
                    start += step * child.devices
                    stops.append(Stop(child, number + step, start))
                    unit = child
                    break
                offset -= count * child.devices
                start += count * child.devices
                number += count
        return tuple(stops)

    def in_root(self, place: int) -> int:
        """A place in line as a place among all devices of the root."""
        for first, start, length in self.picked:
            if first <= place < first + length:
                return start + place - first
        raise IndexError(place)

    @property
    def nodes(self) -> int:
        """Nodes that hold a device of the selection."""
        return self.touched("node", self.devices)

    def touched(self, kind: str, used: int) -> int:
        """How many devices, nodes, racks or clusters hold one of the first `used` devices."""
        if kind == "device":
            return used
        runs = self.runs(used)
        count = sum(_touched(self.root, kind, start, end) for start, end in runs)
        # Two runs in one unit touch it once.
        return count - sum(
            self._unit(kind, end - 1) == self._unit(kind, start)
            for (_, end), (start, _) in pairwise(runs)
        )

    def runs(self, used: int) -> list[tuple[int, int]]:
        """Places in the root of the first `used` devices: runs from the first to before the
        last."""
        return sorted((start, start + min(used - first, length))
                      for first, start, length in self.picked if used > first)  # fmt: skip

    def _unit(self, kind: str, device: int) -> int:
        """The unit of a kind that holds a device of the root, named by its first device."""
        stops = (stop.start for stop in self._trail(device) if stop.unit.kind == kind)
        return next(stops, 0 if self.root.kind == kind else -1 - device)

    def left_in_last_node(self, used: int) -> int:
        """Devices of the selection behind the first `used` that share a node with the last."""
        if not 0 < used < self.devices:
            return 0
        trail = self.trail(used - 1)
        node = next((stop for stop in trail if stop.unit.kind == "node"), None)
        start, end = (0, self.root.devices) if node is None else (
            node.start, node.start + node.unit.devices
        )  # fmt: skip
        if node is None and self.root.kind != "node":
            return 0
        found = 0
        for first, begin, length in self.picked:
            behind = max(begin, begin + used - first)
            found += max(0, min(begin + length, end) - max(behind, start))
        return found

    def device(self, place: int) -> Device:
        path = self.path(place)
        device = path[-1][0].device if path else self.root.device
        if device is None:
            raise IndexError(place)
        return device

    @property
    def kinds(self) -> tuple[Device, ...]:
        """The kinds of device that the selection has."""
        runs = [(begin, begin + length) for _, begin, length in self.picked]
        return tuple({id(device): device for device in _kinds(self.root, runs)}.values())

    def reach(self, places: Sequence[int]) -> Reach:
        """The smallest unit that holds all of these devices, and what joins them there."""
        key = tuple(places)
        found = self.met.get(key)
        if found is None:
            found = self._reach(key)
            found = self.alike.setdefault(found, found)
            if len(self.met) < MET and len(key) <= MET:
                self.met[key] = found
        return found

    def _reach(self, places: tuple[int, ...]) -> Reach:
        trails = [self.trail(place) for place in places]
        depth = reach_depth(self.root, trails)
        unit = self.root if depth == 0 else trails[0][depth - 1].unit
        paths = [tuple((stop.unit, stop.number) for stop in trail) for trail in trails]
        whole = self.root.kind in ("device", "pairs", "node")
        nodes = 1 if whole else len({_until(path, "node") for path in paths})
        domains = len({_fast_domain(self.root, path) for path in paths})
        crossed = levels(self.root, trails, [self.in_root(place) for place in places])
        join = None if unit.join is None else join_among(unit.join, trails)
        return Reach(unit.kind, unit.title, join, nodes, domains, crossed)

    @property
    def joined(self) -> bool:
        """Whether every unit joins all that lies in it, so that no group is without a link."""
        return _joined(self.root)

    @property
    def uniform(self) -> bool:
        """Whether every level has children of one kind only, so that places repeat."""
        unit = self.root
        while unit.children:
            if len(unit.children) > 1:
                return False
            unit = unit.children[0][1]
        return len(self.picked) == 1 and self.picked[0][1] == 0

    @property
    def period(self) -> int:
        """In a uniform topology, the devices after which the pattern of levels repeats: those of
        the largest unit that is repeated side by side, of a leaf, or of a whole ring or torus."""
        unit, period = self.root, 1
        while unit.children:
            count, child = unit.children[0]
            if unit.join is not None and unit.join.shape in ("ring", "torus"):
                return unit.devices
            if unit.join is not None and unit.join.leaf is not None:
                return min(unit.join.leaf, count) * child.devices
            if count > 1 and period == 1:
                period = child.devices
            unit = child
        return period


def _joined(unit: Unit) -> bool:
    if unit.join is None and sum(count for count, _ in unit.children) > 1:
        return False
    return all(_joined(child) for _, child in unit.children)


def _until(path: tuple[Step, ...], kind: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for unit, number in path:
        numbers.append(number)
        if unit.kind == kind:
            break
    return tuple(numbers)


def _fast_domain(root: Unit, path: tuple[Step, ...]) -> tuple[int, ...]:
    """The largest scale-up domain that holds the device."""
    if root.join is not None and root.join.fast:
        return ()
    numbers: list[int] = []
    for unit, number in path:
        numbers.append(number)
        if unit.join is not None and unit.join.fast:
            break
    return tuple(numbers)


def _touched(unit: Unit, kind: str, start: int, end: int) -> int:
    """Units of a kind in `unit` that overlap a run of its devices."""
    if end <= 0 or start >= unit.devices:
        return 0
    if unit.kind == kind:
        return 1
    found, offset = 0, 0
    for count, child in unit.children:
        first = max(0, (start - offset) // child.devices)
        last = min(count, -(-(end - offset) // child.devices))
        if last > first:
            inside = last - first
            edge_start, edge_end = start - offset, end - offset
            if child.kind == kind:
                found += inside
            else:
                for number in {first, last - 1}:
                    shift = number * child.devices
                    found += _touched(child, kind, edge_start - shift, edge_end - shift)
                found += max(0, inside - 2) * _touched(child, kind, 0, child.devices)
        offset += count * child.devices
    return found


def touched_units(
    unit: Unit, runs: Sequence[tuple[int, int]], ends: Callable[[Unit], bool]
) -> Iterator[tuple[Unit, int]]:
    """Units that hold a place of the runs, from `unit` down to those at which `ends`, else to
    devices, with how many of each. Equal neighbours that lie in a run whole are looked at once."""
    if not runs:
        return
    if ends(unit) or not unit.children:
        yield unit, 1
        return
    offset = 0
    for count, child in unit.children:
        size = child.devices
        inside = [(max(0, a - offset), min(count * size, b - offset)) for a, b in runs]
        inside = [(a, b) for a, b in inside if a < b]
        whole = sum(max(0, b // size - -(-a // size)) for a, b in inside)
        if whole:
            for one, many in touched_units(child, [(0, size)], ends):
                yield one, whole * many
        for number in sorted({n for a, b in inside for n in (a // size, (b - 1) // size)}):
            begin = number * size
            parts = [(max(0, a - begin), min(size, b - begin)) for a, b in inside]
            parts = [(a, b) for a, b in parts if a < b]
            if parts != [(0, size)]:
                yield from touched_units(child, parts, ends)
        offset += count * size


# --- from the spec -----------------------------------------------------------------------------


def topology(selection: Selection) -> Topology:
    """The topology of a selection. A pick beyond what is there keeps what is there: the resolver
    has said so already."""
    unit = unit_of(selection.of)
    if selection.count > 1:
        unit = Unit("set", f"{selection.count} x {unit.title}", unit.devices * selection.count,
                    ((selection.count, unit),))  # fmt: skip
    runs = _picked(unit, selection.pick)
    line, first = [], 0
    for start, length in runs:
        line.append((first, start, length))
        first += length
    return Topology(unit, first, tuple(line))


_LEVELS = {"devices": "device", "nodes": "node", "racks": "rack", "clusters": "cluster"}


def _picked(unit: Unit, pick: Pick | None) -> list[tuple[int, int]]:
    if pick is None:
        return [(0, unit.devices)]
    kind = _LEVELS[pick.level]
    runs: list[tuple[int, int]] = []
    for first, last in pick.runs:
        start = _start_of(unit, kind, first)
        end = _start_of(unit, kind, last + 1)
        runs.append((start, end - start))
    return runs


def units_of(unit: Unit, kind: str) -> int:
    """How many units of a kind a unit holds."""
    if unit.kind == kind:
        return 1
    return sum(count * units_of(child, kind) for count, child in unit.children)


def made_of(there: Topology, kind: str) -> dict[str, int]:
    """The units of a kind in a selection by their title: how many of each it has, or a part of."""
    found: dict[str, int] = {}
    for _, start, length in there.picked:
        _add_units(found, there.root, kind, start, length)
    return found


def _add_units(found: dict[str, int], unit: Unit, kind: str, start: int, length: int) -> None:
    """Adds those that hold one of `length` devices from `start` on. Equal neighbours that lie
    inside whole are looked at once."""
    if unit.kind == kind:
        found[unit.title] = found.get(unit.title, 0) + 1
        return
    for count, child in unit.children:
        first, size = max(start, 0), child.devices
        last = min(start + length, count * size)
        if first < last:
            whole = max(0, last // size - -(-first // size))
            one: dict[str, int] = {}
            _add_units(one, child, kind, 0, size)
            for title, number in one.items() if whole else ():
                found[title] = found.get(title, 0) + whole * number
            edges = {first // size, (last - 1) // size}
            for index in sorted(edges):
                begin, end = max(first, index * size), min(last, (index + 1) * size)
                if end - begin < size:
                    _add_units(found, child, kind, begin - index * size, end - begin)
        start -= count * size


def _start_of(unit: Unit, kind: str, number: int) -> int:
    """The first device of unit `number` of a kind; all devices where there are fewer."""
    if unit.kind == kind or not unit.children:
        return 0 if number == 0 else unit.devices
    offset = 0
    for count, child in unit.children:
        inside = units_of(child, kind)
        if inside == 0:
            offset += count * child.devices
            continue
        if number < count * inside:
            step, rest = divmod(number, inside)
            return offset + step * child.devices + _start_of(child, kind, rest)
        number -= count * inside
        offset += count * child.devices
    return offset


def _kinds(unit: Unit, runs: Sequence[tuple[int, int]]) -> Iterator[Device]:
    """Kinds of device in runs of a unit's devices; of equal children one stands for all."""
    if unit.device is not None:
        yield unit.device
    start = 0
    for count, child in unit.children:
        size, end = child.devices, start + count * child.devices
        inner = []
        for first, last in runs:
            low, high = max(first, start) - start, min(last, end) - start
            whole = high - low >= size or low // size != (high - 1) // size
            if low < high:
                inner.append((0, size) if whole else (low % size, (high - 1) % size + 1))
        if inner:
            yield from _kinds(child, inner)
        start = end
