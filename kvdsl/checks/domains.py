"""Rules on what ranks stand on: enough devices, none idle, groups that are joined and of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvdsl.checks.study import Fact, Study
from kvdsl.diagnostics import Severity
from kvdsl.placement.joins import domains, links_taken
from kvdsl.placement.topology import Reach, Unit
from kvdsl.rules import Rule, rule
from kvdsl.source import Span
from kvdsl.spec.hardware import Device, Domain, Hardware
from kvdsl.spelling import in_a_row
from kvdsl.units import BYTE_RATE, BYTES, Quantity, shown, tidy


@rule(
    "KV200",
    "too-few-devices",
    Severity.ERROR,
    "subject",
    "the layout needs {needed:devices}, and {title} has {there}",
    label="{arithmetic} = {needed}",
    helps=("take {more} more, or cut less: fewer `replicas`, a smaller `tp` or `pp`",),
)
def too_few_devices(study: Study) -> Iterator[Fact]:
    """The layout fits on the devices that it is given.

    What it checks
        Devices of a stage x stages x replicas are at most the devices of `on`.

    Why it matters
        Every rank needs a device of its own.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 8; replicas = 2 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        More devices in `on`, or a smaller layout.

        deployment better extends served { on = 2 x nodes.hgx_h100 }
    """
    degrees, topology = study.subject.degrees, study.subject.topology
    on = study.subject.pool.on
    if degrees.devices <= topology.devices:
        return
    sizes = ((degrees.size, "a stage"), (degrees.pp, "stages"), (degrees.replicas, "replicas"))
    arithmetic = " x ".join(f"{n:,} {w}" for n, w in sizes if n > 1 or w == "a stage")
    yield Fact(
        study.subject.place("layout"),
        {
            "needed": degrees.devices,
            "title": topology.root.title + (on.pick.text if on is not None and on.pick else ""),
            "there": topology.devices,
            "arithmetic": arithmetic,
            "more": degrees.devices - topology.devices,
        },
        (("needed", Quantity(degrees.devices)), ("there", Quantity(topology.devices))),
    )


@rule(
    "KV201",
    "idle-devices",
    Severity.WARNING,
    "placement",
    "no rank lies on {idle} of {there:devices}",
    label="{there:devices} here",
    notes=(
        "the layout uses {used}: {arithmetic}",
        "{half} of them stand in a node that holds ranks: it is half used",
        "{whole} idle",
    ),
    helps=("another replica or a wider cut would use them; or take fewer devices",),
)
def idle_devices(study: Study) -> Iterator[Fact]:
    """Devices that hold no rank are paid for and idle.

    What it checks
        The layout uses every device of `on`.

    Why it matters
        Idle devices cost money and hold nothing; often a replica was forgotten.

    Example
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x nodes.hgx_h100
          layout   { tp = 4 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        `replicas`, more `tp` or `pp`, or a smaller `on`.

        deployment better extends served { layout = { tp = 4; replicas = 2 } }
    """
    placed = study.placed
    if not placed.idle:
        return
    degrees, topology = placed.degrees, study.subject.topology
    sizes = ((degrees.size, "a stage"), (degrees.pp, "stages"), (degrees.replicas, "replicas"))
    half = topology.left_in_last_node(placed.used)
    whole = topology.nodes - topology.touched("node", placed.used)
    yield Fact(
        study.subject.place("on"),
        {
            "idle": placed.idle,
            "there": study.subject.topology.devices,
            "used": placed.used,
            "arithmetic": " x ".join(f"{n:,} {w}" for n, w in sizes if n > 1 or w == "a stage"),
            "half": f"{half:,}" if half and topology.nodes > 1 else "",
            "whole": f"{whole:,} whole node{'s' * (whole > 1)}" if whole else "",
        },
        (("idle", Quantity(placed.idle)), ("used", Quantity(placed.used))),
    )


@rule(
    "KV204",
    "unjoined-group",
    Severity.ERROR,
    "placement",
    "nothing joins the {size:devices} of a group ({axis})",
    label="the group spans {spread} {title}",
    helps=("{way}, or keep the group inside one {inner}",),
)
def unjoined_group(study: Study) -> Iterator[Fact]:
    """Every group that communicates is joined by a link.

    What it checks
        The smallest piece of hardware that holds a group has a link: a node's `scale_up`, `bridge`
        or `host` link, a rack's `scale_up`, a cluster's `fabric`.

    Why it matters
        `2 x nodes.hgx_h100` are two machines side by side. A group across them cannot talk.

    Example
        deployment served {
          model    = models.llama_2_7b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 2 x nodes.hgx_h100
          layout   { tp = 8; pp = 2 }
          budget   { reserve = 3 GB }
          workload { context = 4 ktok; concurrency = 8 req }
        }

    Instead
        A cluster with a fabric, or no group across the machines.

        deployment better extends served { layout = { tp = 8; replicas = 2 } }
    """
    topology = study.subject.topology
    apart = [
        g
        for g in (() if topology.joined else study.placed.groups)
        if g.reach.join is None and g.size > 1
    ]
    if not apart:
        return
    widest = max(apart, key=lambda g: g.size)
    axes = dict.fromkeys(_axis(g.axis) for g in apart if g.size == widest.size)
    inner, spread, way = _unjoined(topology.root, widest.reach)
    on = study.subject.pool.on
    if on is not None and on.boards:
        named = in_a_row((f"`1 x {title}`" for title in on.boards), "or")
        way = f"stand on {named}, where just these devices are joined"
    yield Fact(
        study.subject.place("on"),
        {
            "size": widest.size,
            "axis": ", ".join(axes),
            "spread": spread,
            "title": widest.reach.title,
            "inner": inner,
            "way": way,
        },
        (("devices of a group", Quantity(widest.size)),),
    )


def _unjoined(root: Unit, reach: Reach) -> tuple[str, str, str]:
    """What the group could stay inside of, what it spans, and what would join it."""
    if reach.kind == "node":
        return "device", "devices of", "give the node a `scale_up`, or a `host` with its `link`"
    inner = root.children[0][1].kind if root.kind == "set" else "node"
    if inner == "device":
        way = "declare a node with these `devices` and a `scale_up`, and stand on it"
        return inner, "machines of a device each:", way
    spread = f"{reach.nodes:,} nodes of"
    if root.kind == "set":
        way = f"declare a cluster with a `fabric` and `{inner}s = {root.title}`"
        return inner, spread, way
    return (
        inner,
        spread,
        f"give `{reach.title}` a " + ("`scale_up`" if reach.kind == "rack" else "`fabric`"),
    )


def _axis(axis: str) -> str:
    names = {"pp": "pipeline", "stage": "stage"}
    return names.get(axis, axis.replace(".", " ").replace("+", " x "))


@rule(
    "KV213",
    "mixed-devices",
    Severity.WARNING,
    "placement",
    "a group of {size:ranks} ({axis}) stands on {kinds}",
    label="{smaller}",
    notes=(
        "each step waits for the slowest of them: {bandwidth} of memory bandwidth beside {faster}",
        "the smallest holds as much as all others are asked to: {memory} beside {more}",
    ),
    helps=("keep each group on one kind of device: pools that choose theirs with `on = "
           "pod.nodes[0..2]`, or a `layout` whose groups end where a kind does",),
)  # fmt: skip
def mixed_devices(study: Study) -> Iterator[Fact]:
    """A group over two kinds of device runs as the lesser of them.

    What it checks
        The ranks of each group that communicates stand on one kind of device.

    Why it matters
        The ranks of a group work in lockstep and hold equal shares: the fastest waits for the
        slowest, and what the largest has more of memory stays empty.

    Example
        node mixed {
          devices  = [4 x devices.h100_sxm, 4 x devices.h200_sxm]
          scale_up { link = links.nvlink4 }
        }
        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x mixed
          layout   { tp = 8 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 64 req }
        }

    Instead
        Stages or replicas that end where a kind of device does, or a pool for each kind.

        deployment better extends served { layout = { tp = 4; replicas = 2 } }
    """
    topology = study.subject.topology
    for group in study.placed.groups:
        if group.size < 2 or group.axis == "pp":
            continue
        devices = [topology.device(place) for place in group.places]
        # Two kinds that differ in their price alone run as one.
        if len({_pace(device) for device in devices}) == 1:
            continue
        least = min(devices, key=lambda device: device.memory)
        most = max(device.memory for device in devices)
        few = sum(device.memory == least.memory for device in devices)
        names = list(dict.fromkeys(device.title for device in devices))
        rates = [device.bandwidth for device in devices]
        yield Fact(
            study.subject.place("on"),
            {
                "size": group.size,
                "axis": _axis(group.axis),
                "kinds": " and ".join(names),
                "smaller": f"{few:,} of its {group.size:,} ranks have the smaller memory"
                if most > least.memory
                else "their memory is as large, their rates are not",
                "bandwidth": Quantity(min(rates), BYTE_RATE),
                "faster": Quantity(max(rates), BYTE_RATE) if max(rates) > min(rates) else "",
                "memory": Quantity(least.memory, BYTES),
                "more": Quantity(most, BYTES) if most > least.memory else "",
            },
            (("ranks of a group", Quantity(group.size)),),
        )
        return


def _pace(device: Device) -> tuple[object, ...]:
    """What a step of a group depends on."""
    return (device.memory, device.bandwidth, tuple(sorted(device.compute.items())))


@rule(
    "KV218",
    "links-beyond-ports",
    Severity.ERROR,
    "subject",
    "a {shape} of {places} takes {needed} x {link} of each device, and {device} has {there}",
    also=(Severity.WARNING,),
    label="{rate} a device, and its ports carry {ports}",
    helps=(
        "a switch takes {one}: `shape = switch`",
        "or give the link its part of the ports: `link = {{ bandwidth = {part} }}`",
        "name the device's own: `link = {other}`",
    ),
)
def links_beyond_ports(study: Study) -> Iterator[Fact]:
    """A scale-up domain takes no more links of a device than the device has.

    What it checks
        What a shape takes of each device: a `mesh` of n devices n - 1 links, a `ring` two, a
        `torus` two an axis, others one. Where the device's `ports` name that link, they are as
        many: fewer are an error. Where they name others, they carry as much in all: less is a
        warning. A device that names no ports is not judged.

    Why it matters
        A figure such as `links.nvlink4` is of all that a device has towards a switch. A mesh of it
        would be given the same rate towards each peer, several times what is there.

    Example
        node box {
          devices  = 4 x devices.h100_sxm
          scale_up { link = links.nvlink4; shape = mesh }
        }

        deployment served {
          model    = models.llama_3_1_8b
          weights  = formats.bf16
          kv       = formats.bf16
          on       = 1 x box
          layout   { tp = 4 }
          budget   { reserve = 3 GB }
          workload { context = 8 ktok; concurrency = 8 req }
        }

    Instead
        The switch, or links that share the ports out.

        node switched {
          devices  = 4 x devices.h100_sxm
          scale_up { link = links.nvlink4 }
        }
        deployment better extends served { on = 1 x switched }
    """
    for holder, domain, unit, device in domains(study.subject.topology.root):
        join = unit.join
        if join is None or not device.ports:
            continue
        needed = links_taken(join)
        link = join.link
        own = sum(many.count for many in device.ports if many.of.title == link.title)
        rates = [many.count * Fraction(many.of.bandwidth) for many in device.ports]
        carried = sum(rates, start=Fraction(0))
        wanted = needed * Fraction(link.bandwidth)
        if needed <= own or (not own and wanted <= carried):
            continue
        yield Fact(
            _declared(study, holder, domain),
            {
                "shape": join.shape,
                "places": f"{join.places:,} {'places' if join.over_members else 'devices'}",
                "needed": needed,
                "link": link.title if link.name else "a link",
                "device": device.title,
                "there": _ports(device),
                "rate": Quantity(tidy(wanted), BYTE_RATE),
                "ports": Quantity(tidy(carried), BYTE_RATE),
                "one": "one link" if needed > 1 else "",
                "part": f"{shown(Quantity(tidy(carried), BYTE_RATE))} / {needed}"
                if needed > 1
                else "",
                "other": device.ports[0].of.title if needed == 1 else "",
            },
            (("links taken", Quantity(needed)), ("its own", Quantity(own))),
            severity=None if own else Severity.WARNING,
        )


def _ports(device: Device) -> str:
    return " and ".join(f"{many.count:,} x {many.of.title}" for many in device.ports)


def _declared(study: Study, holder: Hardware, domain: Domain) -> Span:
    """Where the shape or the link was written; the selection where the catalog says it."""
    origin = domain.origin("shape") or domain.origin("link")
    if origin is None or holder.catalog:
        return study.subject.place("on")
    return origin.span


RULES: tuple[Rule, ...] = (
    too_few_devices,
    idle_devices,
    unjoined_group,
    mixed_devices,
    links_beyond_ports,
)
