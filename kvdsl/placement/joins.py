"""Hardware as a tree of units, and what joins the members of each.

Comes in: hardware as a spec declares it. Goes out: `Unit`s, each with its `Join`. The tree keeps
equal neighbours as one entry with a count, so 10^12 nodes cost no more than one. Not its job:
what a group of devices has of a join (levels).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from kvdsl.spec.hardware import (
    Cluster,
    Device,
    Domain,
    Fabric,
    Hardware,
    Host,
    Link,
    Node,
    Rack,
)


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """What joins the members of a unit: a link, what each device has of it, and how fast it is.

    `fast` is a scale-up domain; a host's bus and a fabric are not. `share` is how many links of
    that kind each device has (NICs are shared out evenly; of a torus, its axes). `places` is how
    many places the shape is laid over: the unit's devices, or its members where `over_members`
    (always in a fabric). `dims` are the axes of a torus of those places, `leaf` the members below
    one leaf switch. `rails` is how many NICs a node has. What is None was not said."""

    link: Link
    kind: str
    shape: str
    fast: bool
    share: Fraction = Fraction(1)
    oversubscription: Fraction = Fraction(1)
    hop: Fraction = Fraction(0)
    note: str = ""
    places: int = 1
    over_members: bool = False
    dims: tuple[int, ...] = ()
    leaf: int | None = None
    rails: int = 0
    peer_access: bool | None = None
    switches: int | None = None
    host_bandwidth: int | Fraction | None = None
    missing: str = ""
    """What of `note` is missing in the hardware's description, not in how it is costed."""
    by_node: tuple[tuple[Unit, Join], ...] = ()
    """In a fabric of several kinds of node: what it is to each of them."""

    def among(self, nodes: Sequence[Unit]) -> Join:
        """What the join is to a group on these nodes: the NICs of the slowest kind set the pace."""
        kinds = {id(node) for node in nodes}
        own = [join for node, join in self.by_node if id(node) in kinds]
        return min(own, key=lambda join: join.share * join.link.bandwidth, default=self)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A piece of hardware: a device, or so many of each child in order, joined or not."""

    kind: str
    title: str
    devices: int
    children: tuple[tuple[int, Unit], ...] = ()
    join: Join | None = None
    device: Device | None = None
    nics: tuple[int, Link] | None = None
    """Of a node: how many NICs, and the slowest of them."""
    of: Hardware | None = None
    """The declaration; none of what is only so many side by side."""


COSTED_FABRICS = ("switch", "rail", "tree")
"""Shapes whose links are all there for any group: of others a group has a part (`Level.links`)."""


def unit_of(hardware: Hardware) -> Unit:
    """The unit of a piece of hardware, with all that lies in it."""
    match hardware:
        case Device():
            return Unit("device", hardware.title, 1, device=hardware, of=hardware)
        case Node():
            return _node(hardware)
        case Rack():
            nodes = tuple((many.count, unit_of(many.of)) for many in hardware.nodes)
            size, members = _size(nodes), sum(count for count, _ in nodes)
            join = _scale_up(hardware.scale_up or hardware.bridge, size, members)
            return Unit("rack", hardware.title, size, nodes, join, of=hardware)
        case Cluster():
            inside = tuple((count, unit_of(of)) for count, of in _members(hardware))
            join = _fabric(hardware.fabric, inside) if hardware.fabric else None
            return Unit("cluster", hardware.title, _size(inside), inside, join, of=hardware)


def domains(unit: Unit) -> Iterator[tuple[Hardware, Domain, Unit, Device]]:
    """The scale-up domains in a unit, each kind once: what declares it, the domain, the unit that
    it joins and the first device there."""
    domain = unit.of.scale_up or unit.of.bridge if isinstance(unit.of, Node | Rack) else None
    if unit.of is not None and domain is not None:
        inside = next((u for _, u in unit.children if u.kind == "pairs"), unit)
        yield unit.of, domain, inside, first_device(unit)
    for _, child in unit.children:
        yield from domains(child)


def first_device(unit: Unit) -> Device:
    while unit.children:
        unit = unit.children[0][1]
    if unit.device is None:
        raise ValueError(f"{unit.title} has no device")
    return unit.device


def links_taken(join: Join) -> int:
    """Links that a scale-up domain takes of each device, as it is costed: to each peer of a mesh,
    each way along each axis of a ring or torus, else one."""
    match join.shape:
        case "mesh":
            return max(1, join.places - 1)
        case "ring" | "torus":
            return 2 * max(1, sum(length > 1 for length in join.dims))
        case _:
            return 1


def _size(children: Iterable[tuple[int, Unit]]) -> int:
    return sum(count * unit.devices for count, unit in children)


def _node(node: Node) -> Unit:
    devices = tuple((many.count, unit_of(many.of)) for many in node.devices)
    size = _size(devices)
    domain = node.scale_up or node.bridge
    outer = _scale_up(domain, size, size)
    if domain is not None and domain.shape == "pairs":
        devices, outer = _pairs(devices, domain), None
    if outer is None and node.host is not None:
        outer = _bus(node.host, size)
    count = sum(many.count for many in node.nics)
    slowest = min((many.of for many in node.nics), key=lambda nic: nic.bandwidth, default=None)
    nics = (count, slowest) if slowest is not None else None
    return Unit("node", node.title, size, devices, outer, nics=nics, of=node)


def _bus(host: Host, devices: int) -> Join | None:
    if host.link is None:
        return None
    return Join(
        host.link,
        "host",
        "bus",
        fast=False,
        places=devices,
        peer_access=host.peer_access,
        switches=host.switches,
        host_bandwidth=host.bandwidth,
    )


def _pairs(devices: tuple[tuple[int, Unit], ...], domain: Domain) -> tuple[tuple[int, Unit], ...]:
    """Groups of `size` neighbours with a link of their own; what is left over has none."""
    size = domain.size or 2
    groups: list[tuple[int, Unit]] = []
    for count, unit in devices:
        whole, rest = divmod(count, size)
        if whole:
            join = _scale_up(domain, size, size)
            groups.append((whole, Unit("pairs", unit.title, size, ((size, unit),), join)))
        if rest:
            groups.append((rest, unit))
    return tuple(groups)


def _scale_up(domain: Domain | None, devices: int, members: int) -> Join | None:
    if domain is None:
        return None
    torus = domain.shape == "torus" and domain.dims is not None
    over = torus and prod(domain.dims or ()) == members != devices
    return Join(
        domain.link,
        "scale_up",
        domain.shape,
        fast=True,
        share=Fraction(len(domain.dims or ())) if torus else Fraction(1),
        places=members if over else devices,
        over_members=over,
        dims=tuple(domain.dims or ()),
        peer_access=domain.peer_access,
    )


NO_NICS = "one fabric link a device: the node names no NICs"
NO_DIMS = "a torus without `dims` is taken as a ring"


def _fabric(fabric: Fabric, inside: tuple[tuple[int, Unit], ...]) -> Join:
    members = sum(count for count, _ in inside)
    nodes = list(_nodes(inside))
    joins = [_fabric_of(fabric, members, node) for node in nodes]
    if not joins:
        return _fabric_of(fabric, members, None)
    several = tuple(zip(nodes, joins, strict=True)) if len(nodes) > 1 else ()
    return replace(joins[0], by_node=several)


def _nodes(units: Iterable[tuple[int, Unit]]) -> Iterator[Unit]:
    """The kinds of node in line, each once."""
    for _, unit in units:
        if unit.kind == "node":
            yield unit
        else:
            yield from _nodes(unit.children)


def _fabric_of(fabric: Fabric, members: int, node: Unit | None) -> Join:
    """A fabric as a kind of node has it: over the slower of its link and the node's NICs."""
    link, share, rails, missing = fabric.link, Fraction(1), 0, [NO_NICS]
    if node is not None and node.nics is not None:
        rails, nic = node.nics
        share = Fraction(rails, node.devices)
        link = nic if nic.bandwidth < link.bandwidth else link
        missing = []
    if fabric.shape == "torus" and not fabric.dims:
        missing.append(NO_DIMS)
    costed = fabric.shape in COSTED_FABRICS
    note = missing[:1] if costed else [*missing[:1], f"a {fabric.shape} is costed as a switch"]
    return Join(
        link,
        "fabric",
        fabric.shape,
        fast=False,
        share=share,
        oversubscription=Fraction(fabric.oversubscription),
        hop=Fraction(fabric.hop or 0),
        note="; ".join(note),
        places=members,
        over_members=True,
        dims=tuple(fabric.dims or ()),
        leaf=fabric.leaf,
        rails=rails,
        missing="; ".join(missing),
    )


def _members(hardware: Cluster) -> list[tuple[int, Hardware]]:
    found: list[tuple[int, Hardware]] = [(many.count, many.of) for many in hardware.nodes]
    found += [(many.count, many.of) for many in hardware.racks]
    found += [(many.count, many.of) for many in hardware.clusters]
    return found
