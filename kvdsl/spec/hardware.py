"""Hardware: devices, links, nodes, racks, clusters, and the tiers below a device's memory."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.formats import Format
from kvdsl.spec.slots import (
    ByteRate,
    Bytes,
    Counted,
    Exact,
    Listed,
    Maybe,
    MoneyRate,
    Nested,
    Numbers,
    Peaks,
    Positive,
    PositiveBytes,
    Quoted,
    Ratio,
    Referred,
    RequestRate,
    Seconds,
    Watts,
    Word,
    WorkRate,
    Yes,
)

Shape = Literal["switch", "mesh", "ring", "torus", "pairs", "bus"]
FabricShape = Literal["switch", "rail", "tree", "ring", "torus", "mesh"]
SHAPES = ("switch", "mesh", "ring", "torus", "pairs", "bus")
FABRIC_SHAPES = ("switch", "rail", "tree", "ring", "torus", "mesh")


class Device(Declaration):
    library: Annotated[str | None, Word()] = Field(
        default=None, description="its maker's for collectives, as the catalog calls it"
    )
    memory: PositiveBytes = Field(description="as sold")
    reported: PositiveBytes | None = Field(default=None, description="as the driver says")
    bandwidth: ByteRate = Field(description="of that memory")
    compute: Peaks = Field(default_factory=dict, description="dense peaks by number format; native")
    generation: Annotated[str | None, Word()] = Field(
        default=None, description="its architecture, which libraries key their figures by"
    )
    capability: Annotated[str | None, Quoted()] = Field(
        default=None, description="as compilers name it"
    )
    l2: Bytes | None = Field(default=None, description="the last cache before that memory")
    matmul: WorkRate | None = Field(default=None, description="best bf16 rate that was measured")
    peer_copy: ByteRate | None = Field(
        default=None, description="one device to its peer, as measured"
    )
    ports: Annotated[tuple[ManyLinks, ...], Counted("link")] = Field(
        default=(), description="its own fast links, all of them"
    )
    pcie: Annotated[Link | None, Referred(("link",))] = Field(
        default=None, description="to the host"
    )
    domain: Positive | None = Field(
        default=None, description="devices in the largest scale-up domain that it is sold in"
    )
    power: Watts | None = Field(default=None, description="at full load")
    price: MoneyRate | None = Field(default=None, description="of one")


class Link(Declaration):
    bandwidth: ByteRate = Field(description="of one link in one direction")
    latency: Seconds | None = Field(default=None, description="of a small message")
    efficiency: Annotated[Exact, Ratio(above=True)] = Field(
        default=1, description="of bandwidth, for long messages"
    )
    step: Seconds | None = Field(
        default=None, description="of a collective from node to node, as measured"
    )
    wire: Seconds | None = Field(default=None, description="latency of the wire alone")
    achieved: ByteRate | None = Field(default=None, description="as measured, one direction")
    in_switch: Maybe = Field(
        default=None, description="whether its switches reduce (NVLS, SHARP); not said: unknown"
    )


class Domain(Block):
    """Devices that talk over one kind of link. Two devices talk over the smallest domain that holds
    both. `switch`: any pair at the full link. `mesh`: one link a pair, so that a rank has one to
    each other rank of its group. `ring`, `torus`: one link each way an axis; a group that goes
    round an axis has both, one that lies on a part of it one. `pairs`: groups of `size` neighbours.
    `bus`: through the host. The last of `dims` runs fastest; they count all devices, or in a rack
    its nodes, which are then joined device by device."""

    link: Annotated[Link, Referred(("link",))] = Field(description="what joins them")
    shape: Annotated[Shape, Word(SHAPES)] = Field(default="switch", description="how it joins them")
    dims: Numbers | None = Field(default=None, description="axes of a torus")
    size: Positive | None = Field(default=None, description="devices in a group of `pairs`")
    peer_access: Maybe = Field(
        default=None, description="of a `bus`: devices read one another; not said: unknown"
    )


class Host(Block):
    memory: PositiveBytes | None = Field(default=None, description="of the node")
    bandwidth: ByteRate | None = Field(default=None, description="of that memory")
    link: Annotated[Link | None, Referred(("link",))] = Field(
        default=None, description="to devices"
    )
    peer_access: Maybe = Field(
        default=None, description="devices read one another over it; not said: unknown"
    )
    switches: Positive | None = Field(
        default=None, description="PCIe switches; devices lie evenly under them"
    )
    cpu: Annotated[str | None, Quoted()] = Field(default=None, description="its processors")


class Tier(Declaration):
    read: ByteRate | None = Field(default=None, description="of one unit")
    write: ByteRate | None = Field(default=None, description="of one unit")
    latency: Seconds | None = Field(default=None, description="of one unit")
    granularity: Bytes | None = Field(default=None, description="smallest access")
    link: Annotated[Link | None, Referred(("link",))] = Field(default=None, description="its path")
    shared: Yes = Field(default=False, description="one copy for all")
    operations: RequestRate | None = Field(
        default=None, description="smallest reads that it serves"
    )
    accepts: Annotated[tuple[Format, ...], Listed(Referred(("format",)))] = Field(
        default=(), description="formats that it may hold; any unless given"
    )


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
    storage_nics: Annotated[tuple[ManyLinks, ...], Counted("link")] = Field(
        default=(), description="in all; beside `nics`, they carry no collectives"
    )
    drives: Annotated[tuple[ManyTiers, ...], Counted("tier")] = Field(
        default=(), description="in all; shared out evenly to devices"
    )
    storage: Bytes | None = Field(default=None, description="of its own drives together")
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
    """What joins nodes, racks or clusters. `switch`: any pair of NICs at the full link. `rail`: NIC
    k of all nodes in switch k; other pairs cross the spine. `tree`: leaf switches below a spine.
    `ring`, `torus`, `mesh`: the NICs of a node are shared out over the links of the shape, and a
    group has those that lead to its nodes. What crosses the spine meets the oversubscription."""

    link: Annotated[Link, Referred(("link",))] = Field(description="of a NIC into it")
    shape: Annotated[FabricShape, Word(FABRIC_SHAPES)] = Field(
        default="switch", description="rail: NIC k of all nodes in switch k"
    )
    oversubscription: Annotated[Exact, Ratio(least=Fraction(1), most=None)] = Field(
        default=1, description="of the spine; 1 is none"
    )
    hop: Seconds | None = Field(default=None, description="of one switch")
    leaf: Positive | None = Field(
        default=None, description="members below one leaf of a `tree`, which meet no spine"
    )
    dims: Numbers | None = Field(default=None, description="axes of a torus of its members")


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

    @property
    def text(self) -> str:
        """As it is written behind a name."""
        runs = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in self.runs)
        return f".{self.level}[{runs}]"


class Selection(Block):
    """`count` of a piece of hardware side by side (nothing joins them), or some units of one."""

    count: int = 1
    of: Hardware
    pick: Pick | None = None
    boards: tuple[str, ...] = ()
    """Nodes of the catalog that join just these devices, where loose ones are to be joined."""
