"""Quotes: one collective on some hardware, asked without a deployment.

Comes in: a project's names and what is asked. Goes out: a `Quote` with a time, its band, the
algorithms taken and the derivation; for one size or an array of sizes. Not its job: what a layout
makes a step exchange (placement).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvdsl import units
from kvdsl.costs.libraries import Price, price, reasons
from kvdsl.costs.message import Message
from kvdsl.costs.routes import Route, route
from kvdsl.formulas import Term
from kvdsl.placement.topology import Topology, topology
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.declaration import Declaration
from kvdsl.spec.hardware import Cluster, Device, Node, Rack, Selection
from kvdsl.spec.library import Library
from kvdsl.units import counted


class Refused(ValueError):
    """What is asked has no answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """A collective of `ranks` devices, spread evenly over `nodes` (0: the first in line).

    `size` is the payload in bytes as NCCL's tests count it. For `dispatch` and `combine` it may be
    left out: `tokens` of a rank, of `width` values, each to `copies` experts, in at most `groups`
    nodes (0: any)."""

    kind: str
    ranks: int
    size: Any = None
    nodes: int = 0
    tokens: Any = None
    width: int = 0
    copies: int = 1
    groups: int = 0
    backend: str | None = None
    sms: int = 0


@dataclass(frozen=True, slots=True)
class Quote:
    """`size` is what was asked in bytes. Times are seconds, a number or an array; `low` and `high`
    bound a measurement; `basis` says whether the constants are fitted, borrowed or default."""

    size: Any
    ranks: int
    time: Any
    low: Any
    high: Any
    basis: str
    algorithms: tuple[str, ...]
    library: str
    term: Term
    route: Route
    lent: str = ""
    """The row that is borrowed where the device's generation has none."""


def quote(hardware: Declaration, libraries: Sequence[Library], asked: Question) -> Quote:
    """The price of a collective. Raises Refused."""
    if not isinstance(hardware, Device | Node | Rack | Cluster):
        raise Refused(f"{hardware.title} is no hardware")
    stand = topology(Selection(count=1, of=hardware))
    places = _places(stand, hardware, asked)
    way = route(stand, stand.reach(places), places, hardware.at, alone=True)
    if way.wire is None and way.network is None:
        raise Refused(f"nothing joins the devices of {hardware.title}")
    chosen = tuple(libraries)
    message = _message(asked)
    found = price(chosen, way, message)
    if found is None:
        raise Refused("; ".join(reasons(chosen, way, message)))
    return _quoted(found, way, message.size.value)


def _places(stand: Topology, hardware: Declaration, asked: Question) -> tuple[int, ...]:
    if asked.ranks < 2:
        raise Refused("a collective takes two ranks or more")
    if not asked.nodes:
        if asked.ranks > stand.devices:
            raise Refused(
                f"{hardware.title} has {counted(stand.devices, 'devices')}, not {asked.ranks:,}"
            )
        return tuple(range(asked.ranks))
    size = 1 if isinstance(hardware, Device) else _node_size(stand)
    each, rest = divmod(asked.ranks, asked.nodes)
    nodes = counted(asked.nodes, "nodes")
    if rest:
        raise Refused(f"{asked.ranks:,} ranks do not lie evenly on {nodes}")
    if each > size:
        holds = counted(size, "devices")
        raise Refused(
            f"a node of {hardware.title} has {holds}, and {nodes} would hold {each:,} each"
        )
    if asked.nodes * size > stand.devices:
        inner = hardware.title if isinstance(hardware, Node) else "nodes.hgx_h100"
        raise Refused(
            f"{hardware.title} has {counted(stand.devices // size, 'nodes')}, not {asked.nodes:,}: "
            f"write `cluster wide {{ nodes = {asked.nodes} x {inner}; fabric = "
            f"links.infiniband_ndr }}` in a spec, and ask `--on wide --in SPEC`"
        )
    return tuple(node * size + k for node in range(asked.nodes) for k in range(each))


def _node_size(stand: Topology) -> int:
    unit = stand.root
    while unit.kind != "node" and unit.children:
        unit = unit.children[0][1]
    return unit.devices


def _message(asked: Question) -> Message:
    tokens = None
    if asked.tokens is not None:
        tokens = Term("tokens of a rank", asked.tokens, basis="spec")
    size = asked.size
    if size is None:
        if tokens is None or not asked.width:
            raise Refused("give a size in bytes, or tokens and their width")
        size = asked.tokens * asked.width * 2
    term = Term("bytes", size, units.BYTES, basis="spec")
    return Message(
        asked.kind,
        term,
        asked.copies,
        asked.groups,
        asked.backend or None,
        tokens,
        asked.width,
        asked.sms,
    )


def _quoted(found: Price, way: Route, size: Any) -> Quote:
    names = tuple(dict.fromkeys(t.algorithm.name for t in found.chosen))
    return Quote(
        size,
        way.ranks,
        found.time.value,
        found.low,
        found.high,
        found.basis,
        names,
        found.chosen[0].library.title,
        found.time,
        way,
        found.lent,
    )


class Quoter:
    """Collectives on hardware by name, each declaration read once."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._known: dict[str, Declaration] = {}

    def quote(self, on: str, asked: Question, libraries: Sequence[str] = ()) -> Quote:
        """The price of a collective. Raises Refused, also for a name that is not there."""
        hardware = self.declared(on)
        found = [self.library(name) for name in libraries] or self.own(hardware)
        return quote(hardware, found, asked)

    def own(self, hardware: Declaration) -> list[Library]:
        """The libraries of a piece of hardware's makers."""
        return self._resolver.own_libraries(hardware)

    def library(self, name: str) -> Library:
        """A library by name. Raises Refused."""
        found = self.declared(name)
        if not isinstance(found, Library):
            raise Refused(f"{found.title} is no library")
        return found

    def declared(self, name: str) -> Declaration:
        """A declaration by name. Raises Refused."""
        if name not in self._known:
            found, faults = self._resolver.declaration(name)
            if found is None:
                told = (faults[0].headline, *faults[0].helps) if faults else (f"no `{name}`",)
                raise Refused("; ".join(told))
            self._known[name] = found
        return self._known[name]
