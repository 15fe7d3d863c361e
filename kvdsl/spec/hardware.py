"""Hardware: devices, links, nodes, racks, clusters, and the tiers below a device's memory."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.library import Library
from kvdsl.spec.slots import (
    ByteRate,
    Bytes,
    Counted,
    Exact,
    MoneyRate,
    Nested,
    Numbers,
    Peaks,
    Positive,
    PositiveBytes,
    Ratio,
    Referred,
    Seconds,
    Watts,
    Word,
    Yes,
)

Shape = Literal["switch", "mesh", "ring", "torus", "pairs", "bus"]
FabricShape = Literal["switch", "rail", "tree", "ring", "torus", "mesh"]
SHAPES = ("switch", "mesh", "ring", "torus", "pairs", "bus")
FABRIC_SHAPES = ("switch", "rail", "tree", "ring", "torus", "mesh")


class Device(Declaration):
    generation: Annotated[str | None, Word()] = Field(
        default=None, description="of its architecture, as `hopper`: libraries keep times by it"
    )
    library: Annotated[Library | None, Referred(("library",))] = Field(
        default=None, description="its maker's, for collectives that an engine leaves to it"
    )
    memory: PositiveBytes = Field(description="as sold")
    reported: PositiveBytes | None = Field(default=None, description="as the driver says")
    bandwidth: ByteRate = Field(description="of that memory")
    compute: Peaks = Field(default_factory=dict, description="dense peaks by number format; native")
    power: Watts | None = Field(default=None, description="at full load")
    price: MoneyRate | None = Field(default=None, description="of one")


class Link(Declaration):
    bandwidth: ByteRate = Field(description="of one link in one direction")
    latency: Seconds | None = Field(default=None, description="of a small message")
    efficiency: Annotated[Exact, Ratio(above=True)] = Field(
        default=1, description="of bandwidth, for long messages"
    )
    step: Seconds | None = Field(
        default=None, description="a step of a collective over it, software included"
    )
    in_switch: Yes = Field(default=False, description="its switches add and copy on the way")


class Domain(Block):
    """Devices that talk over one kind of link."""

    link: Annotated[Link, Referred(("link",))] = Field(description="what joins them")
    shape: Annotated[Shape, Word(SHAPES)] = Field(default="switch", description="how it joins them")
    dims: Numbers | None = Field(default=None, description="axes of a torus")
    size: Positive | None = Field(default=None, description="devices in a group of `pairs`")
    peer: Yes = Field(default=True, description="devices reach each other's memory over it")


class Host(Block):
    memory: PositiveBytes | None = Field(default=None, description="of the node")
    bandwidth: ByteRate | None = Field(default=None, description="of that memory")
    link: Annotated[Link | None, Referred(("link",))] = Field(
        default=None, description="to devices"
    )
    peer: Yes = Field(default=False, description="devices reach each other's memory through it")


class Tier(Declaration):
    read: ByteRate | None = Field(default=None, description="of one unit")
    write: ByteRate | None = Field(default=None, description="of one unit")
    latency: Seconds | None = Field(default=None, description="of one unit")
    granularity: Bytes | None = Field(default=None, description="smallest access")
    link: Annotated[Link | None, Referred(("link",))] = Field(default=None, description="its path")
    shared: Yes = Field(default=False, description="one copy for all")


class ManyDevices(Block):
    count: int
    of: Device


class ManyLinks(Block):
    count: int
    of: Link


class ManyTiers(Block):
    count: int
    of: Tier


class Node(Declaration):
    """One machine."""

    devices: Annotated[tuple[ManyDevices, ...], Counted("device")] = Field(
        description="in the order that layouts use"
    )
    scale_up: Annotated[Domain | None, Nested()] = Field(
        default=None, description="over all devices"
    )
    bridge: Annotated[Domain | None, Nested()] = Field(default=None, description="over all devices")
    nics: Annotated[tuple[ManyLinks, ...], Counted("link")] = Field(
        default=(), description="in all; shared out evenly to devices"
    )
    drives: Annotated[tuple[ManyTiers, ...], Counted("tier")] = Field(
        default=(), description="in all; shared out evenly to devices"
    )
    host: Annotated[Host | None, Nested()] = Field(
        default=None, description="its processors and their memory"
    )
    power: Watts | None = Field(default=None, description="its devices' sum unless given")
    price: MoneyRate | None = Field(default=None, description="its devices' sum unless given")


class ManyNodes(Block):
    count: int
    of: Node


class Rack(Declaration):
    nodes: Annotated[tuple[ManyNodes, ...], Counted("node")] = Field(description="in order")
    scale_up: Annotated[Domain | None, Nested()] = Field(
        default=None, description="over all devices"
    )
    bridge: Annotated[Domain | None, Nested()] = Field(default=None, description="over all devices")
    power: Watts | None = Field(default=None, description="its nodes' sum unless given")
    price: MoneyRate | None = Field(default=None, description="its nodes' sum unless given")


class ManyRacks(Block):
    count: int
    of: Rack


class Fabric(Block):
    """What joins nodes, racks or clusters."""

    link: Annotated[Link, Referred(("link",))] = Field(description="of a NIC into it")
    shape: Annotated[FabricShape, Word(FABRIC_SHAPES)] = Field(
        default="switch", description="rail: NIC k of all nodes in switch k"
    )
    oversubscription: Annotated[Exact, Ratio(least=Fraction(1), most=None)] = Field(
        default=1, description="of the spine; 1 is none"
    )
    hop: Seconds | None = Field(default=None, description="of one switch")


class Cluster(Declaration):
    nodes: Annotated[tuple[ManyNodes, ...], Counted("node")] = Field(
        default=(), description="in order"
    )
    racks: Annotated[tuple[ManyRacks, ...], Counted("rack")] = Field(
        default=(), description="in order, behind the nodes"
    )
    clusters: Annotated[tuple[ManyClusters, ...], Counted("cluster")] = Field(
        default=(), description="in order, behind the racks"
    )
    fabric: Annotated[Fabric | None, Nested(), Referred(("link",), "link", ("link",))] = Field(
        default=None, description="a link, or a block"
    )
    power: Watts | None = Field(default=None, description="its parts' sum unless given")
    price: MoneyRate | None = Field(default=None, description="its parts' sum unless given")


class ManyClusters(Block):
    count: int
    of: Cluster


Hardware = Device | Node | Rack | Cluster


class Pick(Block):
    """`.nodes[0..1]`: which units of one level, by runs that include both ends."""

    level: Literal["devices", "nodes", "racks", "clusters"]
    runs: tuple[tuple[int, int], ...]


class Selection(Block):
    """`count` of a piece of hardware side by side (nothing joins them), or some units of one."""

    count: int = 1
    of: Hardware
    pick: Pick | None = None
