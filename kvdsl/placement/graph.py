"""The placement as a graph: what contains, hosts, holds, joins and links what.

Comes in: a placement. Goes out: a networkx graph. Nodes are `cluster`, `rack`, `node`, `device`,
`rank`, `shard` and `communicator`; edges say `contains`, `hosts`, `holds`, `joins` and `links`.
Folded, equal things are one node with a count: a fleet costs its classes. Expanded, every device,
rank and shard stands for itself, and two invariants hold on the graph (tests/laws): the shards of
each tensor cover it as many times as its copies say, and bytes over devices are logical bytes x
copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from kvdsl.placement.degrees import Degrees
from kvdsl.placement.meshes import Mesh, meshes, place
from kvdsl.placement.placement import Placement, Stage
from kvdsl.placement.shares import Shard, redundancy
from kvdsl.placement.topology import Unit
from kvdsl.units import counted

if TYPE_CHECKING:
    from networkx import MultiDiGraph

EXPANDED_LIMIT = 20_000
"""Ranks times tensors that are expanded at the most."""

Interval = tuple[Fraction, Fraction]


class GraphTooLarge(Exception):
    """More shards than can be drawn one by one. Caught by whoever asked for the expanded graph."""


@dataclass(frozen=True, slots=True)
class Held:
    """A rank's piece of a tensor: for each cut dimension, the part of it (as parts of 1)."""

    pieces: tuple[Interval, ...]

    @property
    def share(self) -> Fraction:
        share = Fraction(1)
        for start, end in self.pieces:
            share *= end - start
        return share


def held(shard: Shard, mesh: Mesh | None, rank: int) -> Held:
    """The piece of a tensor that a rank of a stage holds."""
    at = mesh.coordinates(rank) if mesh is not None else {}
    pieces = []
    for cut in shard.cuts:
        axis = cut.axis.rpartition(".")[2]
        coordinate = at.get(axis, rank)
        pieces.append(cut.atoms_of(coordinate))
    return Held(tuple(pieces))


def graph(placement: Placement, *, expanded: bool = False) -> MultiDiGraph[str]:
    """The graph of a placement. Raises GraphTooLarge for an expanded graph beyond the limit."""
    from networkx import MultiDiGraph

    made: MultiDiGraph[str] = MultiDiGraph()
    if expanded:
        shards = sum(len(s.shards) for s in placement.stages) * placement.used
        if shards > EXPANDED_LIMIT * 10 or placement.subject.topology.devices > EXPANDED_LIMIT:
            raise GraphTooLarge(f"{counted(shards, 'shards')}")
        _expanded(made, placement)
    else:
        _folded(made, placement)
    return made


# --- folded ------------------------------------------------------------------------------------


def _folded(made: MultiDiGraph[str], placement: Placement) -> None:
    _units(made, placement.subject.topology.root, "on", 1)
    for number, rank in enumerate(placement.classes):
        name = f"ranks{number}"
        stage = placement.stages[rank.stage]
        made.add_node(name, kind="rank", label=f"stage {stage.number}", count=rank.count)
        for device, attributes in list(made.nodes(data=True)):
            if attributes["kind"] == "device" and attributes["label"] == rank.device.title:
                made.add_edge(device, name, kind="hosts", count=rank.count)
        for module, (count, share) in _modules(stage, placement.degrees).items():
            shard = f"{name}.{module}"
            made.add_node(shard, kind="shard", label=module, parameters=count, held=str(share))
            made.add_edge(name, shard, kind="holds", count=rank.count)
        for cached in stage.cache:
            shard = f"{name}.cache.{cached.part.name}"
            made.add_node(shard, kind="shard", label=f"cache of {cached.part.name}",
                          layers=cached.layers)  # fmt: skip
            made.add_edge(name, shard, kind="holds", count=rank.count)
    for number, group in enumerate(placement.groups):
        name = f"group{number}"
        link = group.reach.join.link.title if group.reach.join else ""
        made.add_node(name, kind="communicator", label=group.axis, size=group.size,
                      count=group.count, nodes=group.reach.nodes, link=link)  # fmt: skip
        for index, rank in enumerate(placement.classes):
            if rank.stage == group.stage:
                made.add_edge(name, f"ranks{index}", kind="joins", count=group.count)


def _modules(stage: Stage, degrees: Degrees) -> dict[str, tuple[int, Fraction]]:
    found: dict[str, tuple[int, Fraction]] = {}
    for shard in stage.shards:
        count, _ = found.get(shard.tensor.module, (0, Fraction(0)))
        stored = redundancy(shard.tensor, degrees)
        count += int(shard.tensor.parameters * shard.layers * stored)
        found[shard.tensor.module] = (count, shard.held)
    return found


def _units(made: MultiDiGraph[str], unit: Unit, name: str, count: int) -> None:
    made.add_node(name, kind=unit.kind, label=unit.title, count=count)
    if unit.join is not None:
        link = f"{name}.link"
        made.add_node(link, kind="communicator", label=unit.join.link.title, size=unit.devices,
                      count=count, nodes=0, link=unit.join.link.title)  # fmt: skip
        made.add_edge(link, name, kind="links", count=count)
    for number, (many, child) in enumerate(unit.children):
        inner = f"{name}.{number}"
        _units(made, child, inner, count * many)
        made.add_edge(name, inner, kind="contains", count=many)


# --- expanded ----------------------------------------------------------------------------------


def _expanded(made: MultiDiGraph[str], placement: Placement) -> None:
    topology = placement.subject.topology
    made.add_node("on", kind=topology.root.kind, label=topology.root.title, count=1)
    for device in range(topology.devices):
        above = "on"
        for unit, number in topology.path(device):
            name = f"{above}.{number}"
            if name not in made:
                made.add_node(name, kind=unit.kind, label=unit.title, number=number, count=1)
                made.add_edge(above, name, kind="contains", count=1)
            above = name
        made.nodes[above]["line"] = device
    at_device = {a["line"]: n for n, a in made.nodes(data=True) if "line" in a}
    cut = meshes(placement.degrees)
    for replica, stage, rank in _ranks(placement):
        name = f"r{replica}.s{stage.number}.{rank}"
        made.add_node(name, kind="rank", label=name, count=1)
        home = at_device[place(placement.degrees, replica, stage.number, rank)]
        made.add_edge(home, name, kind="hosts", count=1)
        for index, shard in enumerate(stage.shards):
            piece = held(shard, cut.get(shard.mesh), rank)
            node = f"{name}.{index}"
            tensor = shard.tensor
            made.add_node(
                node,
                kind="shard",
                label=f"{tensor.module} {tensor.name}".strip(),
                tensor=f"{tensor.module}.{tensor.part}.{tensor.name}.{tensor.depths.first}.{tensor.place}",
                stage=stage.number,
                replica=replica,
                pieces=piece.pieces,
                parameters=tensor.parameters
                * shard.layers
                * piece.share
                * redundancy(tensor, placement.degrees),
            )
            made.add_edge(name, node, kind="holds", count=1)
        _expanded_cache(made, stage, name, cut["attention"].coordinates(rank))
    _expanded_groups(made, placement, cut)


def _expanded_cache(made: MultiDiGraph[str], stage: Stage, rank: str, at: dict[str, int]) -> None:
    """What a rank holds of each part of the cache: its heads or columns, and its run of tokens."""
    for cached in stage.cache:
        component, cut = cached.heads[0]
        node = f"{rank}.cache.{cached.part.name}"
        made.add_node(
            node,
            kind="shard",
            label=f"cache of {cached.part.name}",
            layers=cached.layers,
            dimension=component.dimension,
            pieces=(cut.atoms_of(at["tp"]), cached.tokens.atoms_of(at["cp"])),
            requests=at["dp"],
        )
        made.add_edge(rank, node, kind="holds", count=1)


def _ranks(placement: Placement) -> Iterator[tuple[int, Stage, int]]:
    degrees = placement.degrees
    yield from product(range(degrees.replicas), placement.stages, range(degrees.size))


def _expanded_groups(made: MultiDiGraph[str], placement: Placement, cut: dict[str, Mesh]) -> None:
    axes = dict.fromkeys((g.axis, g.stage) for g in placement.groups if "." in g.axis)
    for axis, stage in axes:
        mesh, _, names = axis.partition(".")
        for replica in range(placement.degrees.replicas):
            for number, ranks in enumerate(cut[mesh].groups(names.split("+"))):
                name = f"{axis}.r{replica}.s{stage}.{number}"
                made.add_node(name, kind="communicator", label=axis, size=len(ranks), count=1)
                for rank in ranks:
                    made.add_edge(name, f"r{replica}.s{stage}.{rank}", kind="joins", count=1)
