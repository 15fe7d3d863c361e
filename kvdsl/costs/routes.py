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
from kvdsl.placement.topology import Join, Level, Reach, Topology
from kvdsl.recall import Recall
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
    of its domain's NICs, `hop` a step over them (None: nobody says). `peer` says whether devices
    reach each other's memory inside (None: nobody says)."""

    ranks: int
    inner: int
    domains: int
    machines: int
    ground: str
    device: Device
    wire: Term | None
    network: Term | None
    hop: Term | None
    in_switch: bool
    peer: bool | None
    hops: float = 1.0
    """Links that a byte passes on average inside a domain, between any two ranks."""


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
    # Passes and layouts ask for the same again and again.
    return _KNOWN.get(
        (topology, reach, at),
        (len(places), places[0], alone),  # all that a route has of them
        lambda: _route(topology, reach, places, at, alone=alone),
    )


def _route(
    topology: Topology, reach: Reach, places: tuple[int, ...], at: Span | None, *, alone: bool
) -> Route:
    ranks = len(places)
    inside = next((level for level in reach.levels if level.join.kind != "fabric"), None)
    outside = [level for level in reach.levels if level.join.kind == "fabric"]
    slow = min(outside, key=lambda level: level.bandwidth, default=None)
    domains = ranks if inside is None else inside.units
    return Route(
        ranks=ranks,
        inner=1 if inside is None else inside.ranks,
        domains=domains if outside else 1,
        machines=reach.nodes,
        ground="switch" if inside is None else inside.shape,
        device=topology.device(places[0]),
        wire=None if inside is None else _carried(inside, inside.links, at),
        network=None if slow is None else _network(topology, slow, places[0], at, alone=alone),
        hop=None if slow is None else _hop(slow.join),
        in_switch=inside is not None and bool(inside.join.link.in_switch),
        peer=True if inside is None or inside.join.fast else inside.peer_access,
        hops=1.0 if inside is None else _hops(inside),
    )


_KNOWN: Recall[Route] = Recall(256)


def _hops(level: Level) -> float:
    """On a ring of n a quarter of it, on a torus a quarter of each axis, taken as equally long."""
    if level.shape not in ("ring", "torus"):
        return 1.0
    axes = len(level.join.dims) or 1
    return max(1.0, axes * level.ranks ** (1 / axes) / 4)


def _network(topology: Topology, level: Level, place: int, at: Span | None, *, alone: bool) -> Term:
    links = level.links
    if alone:
        node = next((u for u, _ in topology.path(place) if u.kind == "node"), topology.root)
        own = level.join.share * node.devices / level.in_part
        links = max(links, min(Fraction(1), own))
    return _carried(level, links, at)


def _carried(level: Level, links: Fraction, at: Span | None) -> Term:
    return bandwidth(level.join, links, at, None, level.oversubscription, level.note)


def bandwidth(
    join: Join,
    links: Fraction,
    at: Span | None,
    efficiency: Term | None = None,
    oversubscription: Fraction | None = None,
    note: str | None = None,
) -> Term:
    """What so many links of a join carry; what the hardware does not say is assumed, and noted."""
    link, said = join.link, join.note if note is None else note
    many = Term("links that it can use", links, basis="spec", span=at)
    if said:
        many = assumed("links that it can use", links, units.NONE, said)
    spread = join.oversubscription if oversubscription is None else oversubscription
    return rank_bandwidth.derive(
        f"bandwidth of a rank over {link.title}",
        bandwidth=leaf(link, "bandwidth", f"bandwidth of {link.title}", link.bandwidth, BYTE_RATE),
        links=many,
        efficiency=efficiency
        or leaf(link, "efficiency", "efficiency", Fraction(link.efficiency), units.NONE),
        oversubscription=Term("oversubscription", spread, basis="spec", span=at),
    )


def _hop(join: Join) -> Term | None:
    link = join.link
    if link.step is None:
        return None
    return leaf(link, "step", f"a step over {link.title}", float(link.step), TIME)
