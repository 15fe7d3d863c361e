"""Hardware in values: so many of one, mixed lists, and selections of what a deployment stands on.

Comes in: expressions. Goes out: `ManyDevices` and their like, and a `Selection`. Not its job: how
hardware is joined (placement).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import assert_never

from kvdsl.resolve.combination_messages import IncompleteShape
from kvdsl.resolve.context import Context
from kvdsl.resolve.lookup import in_catalog
from kvdsl.resolve.names import Scope
from kvdsl.resolve.naming_messages import a_kind
from kvdsl.resolve.schema import Attribute, make
from kvdsl.resolve.suggestions import instead_of_text, wanting
from kvdsl.resolve.value_messages import BadSelection, TooLarge, WrongKind, WrongType
from kvdsl.resolve.values import Many, Picked, Quotation, Reference, Series, Value, described
from kvdsl.source import Span
from kvdsl.spec.declaration import Block
from kvdsl.spec.hardware import (
    Cluster,
    Device,
    Domain,
    Hardware,
    ManyClusters,
    ManyDevices,
    ManyNodes,
    ManyRacks,
    Node,
    Pick,
    Rack,
    Selection,
)
from kvdsl.syntax.nodes import Expr, Path
from kvdsl.units import counted

MOST_UNITS = 10**12


def read_counted(
    context: Context, kind: str, attribute: Attribute, expr: Expr, scope: Scope
) -> tuple[Block, ...] | None:
    """`8 x devices.h100`, or a list of such."""
    with wanting(context, (kind,)):
        value = context.evaluate(expr, scope)
    if value is None:
        return None
    items = value.items if isinstance(value, Series) else ((value, expr.span),)
    found = [_many(context, kind, attribute, item, span) for item, span in items]
    if not found:
        way = f"write `{attribute.name} = 8 x {kind}s.NAME`"
        context.tell(WrongType(expr.span, f"`{attribute.name}`", f"{kind}s", "an empty list", way))
        return None
    return tuple(item for item in found if item is not None) if all(found) else None


def _many(
    context: Context, kind: str, attribute: Attribute, value: Value, span: Span
) -> Block | None:
    place = f"`{attribute.name}`"
    if not isinstance(value, Many):
        named = isinstance(value, Reference) and value.kind == kind
        way = f"write `1 x {span.text}`" if named else None
        wanted = f"a number of {kind}s, as in `8 x {kind}s.NAME`"
        context.tell(WrongType(span, place, wanted, described(value), way))
        return None
    if value.of.kind != kind:
        if value.of.kind:
            title = value.of.title
            context.tell(WrongKind(span, place, f"{kind}s", title, a_kind(value.of.kind)))
        return None
    spec = context.spec(value.of, span)
    if spec is None:
        return None
    assert attribute.block is not None
    return make(attribute.block, span, count=value.count, of=spec)


def read_selected(context: Context, name: str, expr: Expr, scope: Scope) -> Selection | None:
    """What a deployment stands on."""
    with wanting(context, ("cluster", "node", "rack", "device")):
        value = context.evaluate(expr, scope)
    match value:
        case None:
            return None
        case Picked():
            return _picked(context, value, expr)
        case Many(count=count, of=of) if of.kind in ("node", "rack", "device"):
            return _selected(context, of, count, expr.span)
        case Many(of=of) if of.kind == "cluster":
            way = f"declare a cluster of clusters: `clusters = {expr.span.text}`, with its `fabric`"
            context.tell(WrongType(expr.span, f"`{name}`", "one cluster", described(value), way))
        case Reference(kind="cluster"):
            return _selected(context, value, 1, expr.span)
        case Reference(kind="node" | "rack" | "device"):
            way = f"write `1 x {expr.span.text}`"
            wanted = f"a number before a {value.kind}"
            context.tell(WrongType(expr.span, f"`{name}`", wanted, described(value), way))
        case Reference(kind=""):
            pass
        case _:
            way = "write `two_hgx`, `1 x nodes.NAME` or `pod.nodes[0..1]`"
            if isinstance(value, Series):
                way = "declare a cluster with these `nodes`, and name it here"
            if isinstance(value, Quotation):
                named = instead_of_text(context, scope, value.text, ("cluster", "node", "rack"))
                way = named or way
            wanted = "a cluster, so many of one machine, or some of one"
            context.tell(WrongType(expr.span, f"`{name}`", wanted, described(value), way))
    return None


def _selected(context: Context, of: Reference, count: int, span: Span) -> Selection | None:
    spec = context.spec(of, span)
    if not isinstance(spec, Device | Node | Rack | Cluster):
        return None
    total = count * units_of(spec, "devices")
    if total > MOST_UNITS:
        context.tell(TooLarge(span, f"{MOST_UNITS:,} devices", None))
        return None
    return make(Selection, span, count=count, of=spec)


def boards_of(context: Context, on: Selection) -> list[str]:
    """Nodes of the catalog whose devices are those of a selection, and are joined. Of
    several those of the shortest name are the board itself, the others are clouds'."""
    found: list[str] = []
    for name in context.catalog.names("nodes"):
        declared = in_catalog(context, "nodes", name)
        if declared is None or on.at is None:
            continue
        node = context.spec(Reference(declared.kind, declared.title, declared), on.at)
        if not isinstance(node, Node) or node.scale_up is None or len(node.devices) != 1:
            continue
        if (node.devices[0].count, node.devices[0].of.title) == (on.count, on.of.title):
            found.append(node.title)
    return [title for title in found if len(title) == min(map(len, found))]


def _picked(context: Context, value: Picked, expr: Expr) -> Selection | None:
    spec = context.spec(value.of, expr.span)
    if not isinstance(spec, Node | Rack | Cluster):
        return None
    total = units_of(spec, value.level)
    if total == 0:
        levels = [level for level in _LEVELS if units_of(spec, level)]
        way = f"it has {' and '.join(f'{units_of(spec, lv):,} {lv}' for lv in levels)}"
        reason = f"`{value.of.title}` has no {value.level}"
        context.tell(BadSelection(expr.span, reason, way))
        return None
    for index, (_, last) in enumerate(value.runs):
        if last >= total:
            span = expr.ranges[index].span if isinstance(expr, Path) and expr.ranges else expr.span
            reason = (
                f"`{value.of.title}` has {total:,} {value.level}, and none has the number {last:,}"
            )
            way = f"they are counted from 0: the last is {total - 1:,}"
            context.tell(BadSelection(span, reason, way))
            return None
    pick = make(Pick, expr.span, level=value.level, runs=value.runs)
    return make(Selection, expr.span, count=1, of=spec, pick=pick)


def shapes_whole(context: Context, hardware: Node | Rack) -> bool:
    """Whether what joins the devices says the sizes that its shape needs, and they fit."""
    devices = units_of(hardware, "devices")
    domains = (("scale_up", hardware.scale_up), ("bridge", hardware.bridge))
    nodes = units_of(hardware, "nodes") if isinstance(hardware, Rack) else 0
    whole = [_shape(context, name, d, devices, nodes) for name, d in domains if d is not None]
    return all(whole)


def _shape(context: Context, name: str, domain: Domain, devices: int, nodes: int) -> bool:
    """A rack's torus may also join its nodes, device by device: then `dims` count nodes."""
    given = prod(domain.dims) if domain.dims is not None else None
    reason = way = None
    if domain.shape == "torus" and given is None:
        reason, way = (
            "a torus needs its `dims`",
            "write `dims = [4, 4, 4]`, their product all devices",
        )
    elif domain.shape == "torus" and given not in (devices, nodes):
        axes = " x ".join(str(axis) for axis in domain.dims or ())
        there = counted(devices, "devices") + (f" in {counted(nodes, 'nodes')}" if nodes else "")
        places = counted(given or 0, "places")
        reason = f"this torus has {axes} = {places}, and there are {there}"
        way = "the product of `dims` is the number of devices"
        way += " (or of nodes, if it joins those)" if nodes else ""
    elif domain.shape == "pairs" and domain.size is None:
        reason, way = "`pairs` needs the `size` of a group", "write `size = 2`"
    elif domain.shape == "pairs" and domain.size and devices % domain.size:
        reason = f"{counted(devices, 'devices')} cannot form groups of {domain.size:,}"
        way = "the number of devices is a multiple of `size`"
    if reason is None:
        return True
    assert domain.at is not None
    context.tell(IncompleteShape(domain.at, f"{reason} (`{name}`)", way))
    return False


def fabric_whole(context: Context, cluster: Cluster) -> bool:
    """Whether the `dims` of a fabric that is a torus count the cluster's members."""
    fabric = cluster.fabric
    members: tuple[_Many, ...] = (*cluster.nodes, *cluster.racks, *cluster.clusters)
    if fabric is None or fabric.shape != "torus" or fabric.dims is None:
        return True
    given, there = prod(fabric.dims), sum(many.count for many in members)
    if given == there:
        return True
    axes = " x ".join(str(axis) for axis in fabric.dims)
    reason = f"this torus has {axes} = {given:,} places, and the cluster joins {there:,}"
    way = "the product of `dims` is the number of nodes, racks and clusters that stand in it"
    assert fabric.at is not None
    context.tell(IncompleteShape(fabric.at, f"{reason} (`fabric`)", way))
    return False


_LEVELS = ("devices", "nodes", "racks", "clusters")


def kinds_of(hardware: Hardware) -> Iterator[Device]:
    """Every kind of device that a piece of hardware holds, each as often as it is written."""
    match hardware:
        case Device():
            yield hardware
        case Node():
            yield from (many.of for many in hardware.devices)
        case Rack():
            for nodes in hardware.nodes:
                yield from kinds_of(nodes.of)
        case Cluster():
            inside: list[Hardware] = [many.of for many in hardware.nodes]
            inside += [many.of for many in hardware.racks]
            inside += [many.of for many in hardware.clusters]
            for part in inside:
                yield from kinds_of(part)


def units_of(hardware: Hardware, level: str) -> int:
    """How many devices, nodes, racks or clusters are in a piece of hardware, all levels down. Only
    clusters that stand right in a cluster are counted as its clusters."""
    return _units(hardware, level, {})


def _units(hardware: Hardware, level: str, known: dict[int, int]) -> int:
    """`known` holds what was counted: clusters of clusters may share one many times over."""
    if id(hardware) not in known:
        match hardware:
            case Device():
                total = int(level == "devices")
            case Node():
                total = _sum(hardware.devices, level, "devices", known)
            case Rack():
                total = _sum(hardware.nodes, level, "nodes", known)
            case Cluster():
                total = _sum(hardware.nodes, level, "nodes", known)
                total += _sum(hardware.racks, level, "racks", known)
                total += _sum(hardware.clusters, level, "clusters", known)
            case _:
                assert_never(hardware)
        known[id(hardware)] = total
    return known[id(hardware)]


_Many = ManyDevices | ManyNodes | ManyRacks | ManyClusters


def _sum(many: Sequence[_Many], level: str, own: str, known: dict[int, int]) -> int:
    return sum(m.count * (1 if level == own else _units(m.of, level, known)) for m in many)
