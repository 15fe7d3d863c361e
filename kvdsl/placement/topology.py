"""Hardware as a tree of units, and which domain two devices meet in.

Comes in: the selection that a deployment stands on. Goes out: a `Topology` that knows the device
at a place in line and the `Reach` of a group: the smallest domain that holds all of it. The tree
keeps equal neighbours as one entry with a count, so 10^12 nodes cost no more than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvdsl.spec.hardware import (
    Cluster,
    Device,
    Domain,
    Fabric,
    Hardware,
    Link,
    Node,
    Pick,
    Rack,
    Selection,
)


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """What joins the members of a unit: a link, what each device has of it, and how fast it is.

    `fast` is a scale-up domain; a host's bus and a fabric are not. `share` is how many links of
    that kind each device has (NICs are shared out evenly)."""

    link: Link
    kind: str
    shape: str
    fast: bool
    share: Fraction = Fraction(1)
    oversubscription: Fraction = Fraction(1)
    hop: Fraction = Fraction(0)
    note: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A piece of hardware: a device, or so many of each child in order, joined or not."""

    kind: str
    title: str
    devices: int
    children: tuple[tuple[int, Unit], ...] = ()
    join: Join | None = None
    device: Device | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a group of devices meets: the unit's kind and title, its join (None: nothing joins
    them), and over how many nodes and scale-up domains the group is spread."""

    kind: str
    title: str
    join: Join | None
    nodes: int
    domains: int

    @property
    def fast(self) -> bool:
        """Inside one scale-up domain (or one device)."""
        return self.kind == "device" or (self.join is not None and self.join.fast)


COSTED_FABRICS = ("switch", "rail", "tree")
"""Shapes whose links are all there for any group: others are costed as a switch, and say so."""

Step = tuple[Unit, int]
"""A unit on the way down to a device, and its number among all that lie under the same parent."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The devices of a selection in line, from 0. `picked` maps places in line to places in
    `root` where only some units were chosen: runs of (first in line, first in root, length)."""

    root: Unit
    devices: int
    picked: tuple[tuple[int, int, int], ...]

    def path(self, place: int) -> tuple[Step, ...]:
        """From the root down to the device at a place in line."""
        unit, offset = self.root, self.in_root(place)
        steps: list[Step] = []
        while unit.children:
            number = 0
            for count, child in unit.children:
                if offset < count * child.devices:
                    step, offset = divmod(offset, child.devices)
                    steps.append((child, number + step))
                    unit = child
                    break
                offset -= count * child.devices
                number += count
        return tuple(steps)

    def in_root(self, place: int) -> int:
        """A place in line as a place among all devices of the root."""
        for first, start, length in self.picked:
            if first <= place < first + length:
                return start + place - first
        raise IndexError(place)

    def device(self, place: int) -> Device:
        path = self.path(place)
        device = path[-1][0].device if path else self.root.device
        if device is None:
            raise IndexError(place)
        return device

    def reach(self, places: Sequence[int]) -> Reach:
        """The smallest unit that holds all of these devices, and what joins them there."""
        paths = [self.path(place) for place in places]
        depth = 0
        while all(len(p) > depth for p in paths) and len({_key(p, depth) for p in paths}) == 1:
            depth += 1
        holders = [self.root, *(unit for unit, _ in paths[0][:depth])]
        unit = holders[-1]
        if unit.kind != "device":
            # A unit that joins nothing leaves it to the one around it.
            unit = next((u for u in reversed(holders) if u.join is not None), unit)
        whole = self.root.kind in ("device", "pairs", "node")
        nodes = 1 if whole else len({_until(path, "node") for path in paths})
        domains = len({_fast_domain(self.root, path) for path in paths})
        return Reach(unit.kind, unit.title, unit.join, nodes, domains)

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
        """In a uniform topology, the devices after which the pattern of domains repeats: those of
        the largest unit that is repeated side by side."""
        unit = self.root
        while unit.children and unit.children[0][0] == 1:
            unit = unit.children[0][1]
        return unit.children[0][1].devices if unit.children else 1


def _key(path: tuple[Step, ...], depth: int) -> tuple[int, int]:
    return id(path[depth][0]), path[depth][1]


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


# --- from the spec -----------------------------------------------------------------------------


def topology(selection: Selection) -> Topology:
    """The topology of a selection. A pick beyond what is there keeps what is there: the resolver
    has said so already."""
    unit = _unit(selection.of)
    if selection.count > 1:
        unit = Unit("set", f"{selection.count} x {unit.title}", unit.devices * selection.count,
                    ((selection.count, unit),))  # fmt: skip
    runs = _picked(unit, selection.pick)
    line, first = [], 0
    for start, length in runs:
        line.append((first, start, length))
        first += length
    return Topology(unit, first, tuple(line))


def _unit(hardware: Hardware) -> Unit:
    match hardware:
        case Device():
            return Unit("device", hardware.title, 1, device=hardware)
        case Node():
            return _node(hardware)
        case Rack():
            nodes = tuple((many.count, _unit(many.of)) for many in hardware.nodes)
            join = _scale_up(hardware.scale_up or hardware.bridge)
            return Unit("rack", hardware.title, _size(nodes), nodes, join)
        case Cluster():
            inside = tuple((count, _unit(of)) for count, of in _members(hardware))
            join = _fabric(hardware.fabric, hardware) if hardware.fabric else None
            return Unit("cluster", hardware.title, _size(inside), inside, join)


def _size(children: Iterable[tuple[int, Unit]]) -> int:
    return sum(count * unit.devices for count, unit in children)


def _node(node: Node) -> Unit:
    devices = tuple((many.count, _unit(many.of)) for many in node.devices)
    size = _size(devices)
    domain = node.scale_up or node.bridge
    outer = _scale_up(domain)
    if domain is not None and domain.shape == "pairs":
        devices, outer = _pairs(devices, domain), None
    if outer is None and node.host is not None and node.host.link is not None:
        outer = Join(node.host.link, "host", "bus", fast=False)
    return Unit("node", node.title, size, devices, outer)


def _pairs(devices: tuple[tuple[int, Unit], ...], domain: Domain) -> tuple[tuple[int, Unit], ...]:
    """Groups of `size` neighbours with a link of their own; what is left over has none."""
    size = domain.size or 2
    groups: list[tuple[int, Unit]] = []
    for count, unit in devices:
        whole, rest = divmod(count, size)
        if whole:
            join = _scale_up(domain)
            groups.append((whole, Unit("pairs", unit.title, size, ((size, unit),), join)))
        if rest:
            groups.append((rest, unit))
    return tuple(groups)


def _scale_up(domain: Domain | None) -> Join | None:
    if domain is None:
        return None
    axes = Fraction(len(domain.dims)) if domain.shape == "torus" and domain.dims else Fraction(1)
    return Join(domain.link, "scale_up", domain.shape, fast=True, share=axes)


def _fabric(fabric: Fabric, cluster: Cluster) -> Join:
    node = _first_node(cluster)
    link, share = fabric.link, Fraction(1)
    note = "one fabric link a device: the node names no NICs"
    if node is not None and node.nics:
        size = sum(many.count for many in node.devices)
        share = Fraction(sum(many.count for many in node.nics), size)
        slowest = min((many.of for many in node.nics), key=lambda nic: nic.bandwidth)
        link = slowest if slowest.bandwidth < link.bandwidth else link
        note = ""
    if fabric.shape not in COSTED_FABRICS:
        note = (note + "; " if note else "") + f"a {fabric.shape} is costed as a switch"
    return Join(
        link,
        "fabric",
        fabric.shape,
        fast=False,
        share=share,
        oversubscription=Fraction(fabric.oversubscription),
        hop=Fraction(fabric.hop or 0),
        note=note,
    )


def _first_node(hardware: Hardware) -> Node | None:
    while not isinstance(hardware, Node):
        if isinstance(hardware, Device):
            return None
        members = _members(hardware)
        if not members:
            return None
        hardware = members[0][1]
    return hardware


def _members(hardware: Rack | Cluster) -> list[tuple[int, Hardware]]:
    found: list[tuple[int, Hardware]] = [(many.count, many.of) for many in hardware.nodes]
    if isinstance(hardware, Cluster):
        found += [(many.count, many.of) for many in hardware.racks]
        found += [(many.count, many.of) for many in hardware.clusters]
    return found


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
