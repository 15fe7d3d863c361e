"""Routes: what stands between the ranks of a group, as a collective meets it.

Comes in: a topology and the places of a group. Goes out: a `Route`: how many scale-up domains and
machines it covers, what a rank can send inside its domain and over its share of the NICs. Not its
job: how a library uses that (algorithms).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import over, times
from kvdsl.costs.memory import leaf
from kvdsl.formulas import Term, assumed, formula
from kvdsl.placement.topology import Join, Reach, Topology
from kvdsl.source import Span
from kvdsl.spec.hardware import Device
from kvdsl.units import BYTE_RATE, TIME

Number = int | Fraction | float


@formula(
    "bandwidth of a link x links a device x efficiency / oversubscription",
    BYTE_RATE,
    "language: node, fabric",
)
def rank_bandwidth(
    bandwidth: Number, links: Fraction, efficiency: Number, oversubscription: Fraction
) -> Number:
    return over(times(bandwidth, links, efficiency), oversubscription)


@dataclass(frozen=True, slots=True)
class Route:
    """`ranks` of a group over `domains` scale-up domains and `machines` nodes, joined inside a
    domain by links of a `ground` shape. `wire` is what a rank can send inside, `network` its share
    of its domain's NICs, `hop` a step over them (None: nobody says)."""

    ranks: int
    domains: int
    machines: int
    ground: str
    device: Device
    wire: Term | None
    network: Term | None
    hop: Term | None
    in_switch: bool
    peer: bool

    @property
    def inner(self) -> int:
        """Ranks in the fullest domain."""
        return -(-self.ranks // self.domains)


def route(
    topology: Topology,
    reach: Reach,
    places: tuple[int, ...],
    at: Span | None,
    *,
    alone: bool = False,
) -> Route:
    """The route between places in line that meet as `reach` says. `at` is where the hardware was
    chosen. A group that is `alone` has the NICs of its nodes to itself, a NIC a rank."""
    device, ranks = topology.device(places[0]), len(places)
    join = reach.join
    inside = join is not None and join.kind != "fabric"
    inner = join if inside else _inner_join(topology, places[0])
    domains = (
        1
        if inside or ranks == 1
        else (reach.domains if inner is None or inner.fast else reach.nodes)
    )
    return Route(
        ranks,
        domains,
        reach.nodes,
        inner.shape if inner is not None else "switch",
        device,
        None if inner is None else _inside(inner, -(-ranks // domains), at),
        None
        if inside or join is None
        else _outside(topology, join, places[0], -(-ranks // domains), at, alone=alone),
        None if inside or join is None else _hop(join),
        inner is not None and inner.link.in_switch,
        inner is None or inner.peer,
    )


def _inner_join(topology: Topology, place: int) -> Join | None:
    """What joins a device to its neighbours below the fabric: a scale-up domain, else the bus."""
    joins = [u.join for u, _ in reversed(topology.path(place)) if u.join is not None]
    found = [join for join in joins if join.fast] + [join for join in joins if join.kind == "host"]
    return found[0] if found else None


def _inside(join: Join, ranks: int, at: Span | None) -> Term:
    """In a full mesh a rank has one link to each of the others."""
    links = join.share * (max(1, ranks - 1) if join.shape == "mesh" else 1)
    return bandwidth(join, links, at)


def _outside(
    topology: Topology, join: Join, place: int, ranks: int, at: Span | None, *, alone: bool
) -> Term:
    links = join.share
    if alone:
        node = next((u for u, _ in topology.path(place) if u.kind == "node"), topology.root)
        links = max(links, min(Fraction(1), links * node.devices / ranks))
    return bandwidth(join, links, at)


def bandwidth(join: Join, links: Fraction, at: Span | None, efficiency: Term | None = None) -> Term:
    """What so many links of a join carry."""
    link = join.link
    many = Term("links that it can use", links, basis="spec", span=at)
    if join.note:
        many = assumed("links that it can use", links, units.NONE, join.note)
    return rank_bandwidth.derive(
        f"bandwidth of a rank over {link.title}",
        bandwidth=leaf(link, "bandwidth", f"bandwidth of {link.title}", link.bandwidth, BYTE_RATE),
        links=many,
        efficiency=efficiency
        or leaf(link, "efficiency", "efficiency", Fraction(link.efficiency), units.NONE),
        oversubscription=Term("oversubscription", join.oversubscription, basis="spec", span=at),
    )


def _hop(join: Join) -> Term | None:
    link = join.link
    if link.step is None:
        return None
    return leaf(link, "step", f"a step over {link.title}", float(link.step), TIME)  # type: ignore[arg-type]
