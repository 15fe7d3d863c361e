"""The placement of one subject: stages, shards, rank classes, holders, groups, exchanges.

Comes in: a subject. Goes out: a `Placement`, all that costs and checks read. Ranks with the same
share on the same kind of device are one class with a count, so a fleet costs its classes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import lcm

from kvdsl.placement.cache import CachePart, Keeping, cache_parts, draft_parts
from kvdsl.placement.degrees import Degrees
from kvdsl.placement.depths import ONE, Depths, kinds_of_layer
from kvdsl.placement.exchange import Exchange, Group
from kvdsl.placement.exchanges import exchanges
from kvdsl.placement.meshes import line, meshes, place
from kvdsl.placement.shares import CacheShard, Shard, cache_shard, shard
from kvdsl.placement.storage import absorbed, position_tables, stored
from kvdsl.placement.subject import Subject
from kvdsl.placement.tensor import Tensor
from kvdsl.placement.tensors import draft_tensors, tensors
from kvdsl.placement.weight_blocks import padded
from kvdsl.recall import Once
from kvdsl.spec.hardware import Device
from kvdsl.spec.model import Layer, Model, Moe

SAMPLED_REPLICAS = 4096
"""Replicas walked one by one on hardware that does not repeat."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A run of layers, and what each of its ranks holds. `like` is the first stage whose ranks
    hold the same, maybe itself: what depends on shares alone is computed there. `read` are matrices
    that a pass multiplies by under another name than they are stored: a head that is tied."""

    number: int
    like: int
    first: int
    layers: int
    shards: tuple[Shard, ...]
    cache: tuple[CacheShard, ...]
    read: tuple[Shard, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class RankClass:
    """`count` ranks with the same share on the same kind of device."""

    stage: int
    device: Device
    count: int


@dataclass(frozen=True, slots=True)
class Holder:
    """`count` sets of devices that each hold a request whole (a DP rank through all stages of a
    replica), by the classes of their ranks."""

    classes: tuple[RankClass, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Placement:
    subject: Subject
    tensors: tuple[Tensor, ...]
    parts: tuple[CachePart, ...]
    stages: tuple[Stage, ...]
    classes: tuple[RankClass, ...]
    holders: tuple[Holder, ...]
    sent: Callable[[], tuple[Exchange, ...]]
    joined: Callable[[], tuple[Group, ...]]

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Of a layout that is known by its memory nobody asks them."""
        return self.sent()

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.joined()

    @property
    def degrees(self) -> Degrees:
        return self.subject.degrees

    @property
    def used(self) -> int:
        return self.degrees.devices

    @property
    def idle(self) -> int:
        return self.subject.topology.devices - self.used

    def paces(self) -> dict[tuple[str, int], Group]:
        """By axis and stage, the group that reaches farthest: it sets the pace."""
        found: dict[tuple[str, int], Group] = {}
        for group in self.groups:
            known = found.get((group.axis, group.stage))
            if known is None or _farther(group, known):
                found[group.axis, group.stage] = group
        return found

    def widest(self, axis: str, stage: int) -> Group | None:
        return self.paces().get((axis, stage))


def _farther(one: Group, other: Group) -> bool:
    return (not one.reach.fast, one.reach.nodes) > (not other.reach.fast, other.reach.nodes)


def build(subject: Subject) -> Placement:
    """The placement of a subject."""
    model = subject.model
    logical = (*tensors(model), *tower_tensors(subject))
    parts = tuple(
        part if part.keep == subject.keep else replace(part, keep=subject.keep)
        for part in _cached(subject)
    )
    held = (*logical, *_drafted(subject))
    made = (*absorbed(subject, held), *position_tables(subject))
    kept = tuple(padded(subject, stored(subject, t)) for t in (*held, *made))
    stages = tuple(_stages(subject, kept, parts))
    replicas = list(_replica_classes(subject))
    classes = _rank_classes(subject, replicas)
    holders = _holders(subject, classes, replicas)
    sent = Once(lambda: _exchanges(subject, stages))

    def joined() -> tuple[Group, ...]:
        axes = {(e.axis, e.stage) for e in sent()} | {("attention.tp", s.number) for s in stages}
        return _groups(subject, replicas, sorted(axes))

    return Placement(subject, logical, parts, stages, classes, holders, sent, Once(joined))


def _exchanges(subject: Subject, stages: tuple[Stage, ...]) -> tuple[Exchange, ...]:
    model = subject.model
    found: list[Exchange] = []
    kinds = kinds_of_layer(model)
    sparse = _before_experts(model, kinds)
    for stage in stages:
        layers = _part_layers(kinds, stage)
        sent = _part_layers(sparse, stage)
        found.extend(exchanges(model, subject.degrees, subject.engine, stage.number, layers, sent))
    return tuple(found)


def _cached(subject: Subject) -> tuple[CachePart, ...]:
    """Parts of the cache: those of the stack, and those of the model's own draft layers."""
    model, engine, draft = subject.model, subject.engine, subject.pool.draft
    keeping = Keeping()
    if engine is not None:
        past = engine.hybrid_cache is not None and engine.hybrid_cache.conv_columns == "past"
        keeping = Keeping(engine.index_everywhere, int(past))
    found = cache_parts(model, subject.kv, keeping)
    if draft is None or draft.method != "mtp":
        return found
    return (*found, *draft_parts(model, subject.kv, draft.layers, keeping))


def _drafted(subject: Subject) -> tuple[Tensor, ...]:
    draft = subject.pool.draft
    own = draft is not None and draft.method == "mtp"
    return draft_tensors(subject.model, draft.layers) if draft is not None and own else ()


def tower_tensors(subject: Subject) -> tuple[Tensor, ...]:
    return tuple(
        Tensor("tower", name, "tower", 1, tower.parameters, tower.placement, 1, place="first")
        for name, tower in subject.model.towers.items()
    )


def stage_layers(subject: Subject) -> tuple[int, ...]:
    """Layers in each stage: as written, or even, the remainder where the engine puts it."""
    degrees, layers = subject.degrees, subject.model.layers
    if degrees.stage_layers is not None:
        return degrees.stage_layers
    base, rest = divmod(layers, degrees.pp)
    where = subject.engine.remainder if subject.engine else "first"
    if where == "first":
        extra = range(rest)
    elif where == "last":
        extra = range(degrees.pp - rest, degrees.pp)
    else:  # inner: back from the second-last stage
        extra = range(degrees.pp - 1 - rest, degrees.pp - 1)
    return tuple(base + (stage in extra) for stage in range(degrees.pp))


def _stages(
    subject: Subject, logical: tuple[Tensor, ...], parts: tuple[CachePart, ...]
) -> Iterator[Stage]:
    degrees, first = subject.degrees, 0
    lies: dict[int, Shard] = {}

    def on_ranks(tensor: Tensor, depths: Depths) -> Shard:
        one = lies.get(id(tensor))  # a tensor is cut the same in all stages
        if one is None:
            one = lies[id(tensor)] = shard(tensor, depths, degrees, subject.engine)
        return one if one.depths is depths else one.in_layers(depths)

    by_layer = bool(subject.weights.layer_cuts)
    known: dict[tuple[object, ...], int] = {}
    for number, layers in enumerate(stage_layers(subject)):
        last = number == degrees.pp - 1
        held: list[Shard] = []
        read: list[Shard] = []
        for tensor in logical:
            if tensor.place == "layer":
                here = tensor.depths.within(first, layers)
                if here.count:
                    held.append(on_ranks(tensor, here))
            elif {"first": number == 0, "last": last, "each": True}[tensor.place]:
                held.append(on_ranks(tensor, tensor.depths))
            tied = subject.model.tied_embeddings and tensor.name == "tokens"
            if tied and last:
                # The head is the embedding: with several stages both ends keep one.
                copy = replace(tensor, module="head", place="last")
                kept = held if degrees.pp > 1 else read
                kept.append(shard(copy, ONE, degrees, subject.engine))
        cached = tuple(
            cache_shard(part, count, degrees, subject.engine)
            for part in parts
            if (count := _cached_layers(part, first, layers, last=last))
        )
        same = tuple(_content(share, by_layer=by_layer) for share in held)
        parts_kept = tuple((id(share.part), share.layers) for share in cached)
        like = known.setdefault((same, parts_kept), number)
        yield Stage(number, like, first, layers, tuple(held), cached, tuple(read))
        first += layers


def _content(share: Shard, *, by_layer: bool) -> tuple[object, ...]:
    """What a rank has of a tensor: in which layers matters only to a recipe that names some."""
    where = share.depths.runs if by_layer else share.layers
    return id(share.tensor), share.tensor.module, where


def _cached_layers(part: CachePart, first: int, layers: int, *, last: bool) -> int:
    if part.draft:
        return part.layers if last else 0
    return part.depths.within(first, layers).count


def _part_layers(kinds: tuple[tuple[Layer, Depths], ...], stage: Stage) -> dict[str, int]:
    """How many layers of a stage have each part."""
    found: dict[str, int] = {}
    for layer, depths in kinds:
        here = depths.within(stage.first, stage.layers).count
        for name in layer.parts if here else ():
            found[name] = found.get(name, 0) + here
    return found


def _before_experts(
    model: Model, kinds: tuple[tuple[Layer, Depths], ...]
) -> tuple[tuple[Layer, Depths], ...]:
    """The layers that have experts behind their other parts."""
    return tuple(
        (layer, depths)
        for layer, depths in kinds
        if any(isinstance(model.parts[name], Moe) for name in layer.parts)
    )


def _replica_classes(subject: Subject) -> Iterator[tuple[int, int]]:
    """(replica, how many lie on the hardware as it does). On hardware that repeats only one
    period is walked."""
    degrees, topology = subject.degrees, subject.topology
    size = degrees.size * degrees.pp
    outermost = degrees.order[0] == "replicas"
    period = degrees.replicas
    if topology.uniform and outermost:
        period = min(period, lcm(size, topology.period) // size)
    walked = min(period, SAMPLED_REPLICAS)
    for replica in range(walked):
        yield replica, (degrees.replicas - replica + walked - 1) // walked


def _rank_classes(subject: Subject, replicas: list[tuple[int, int]]) -> tuple[RankClass, ...]:
    degrees, topology = subject.degrees, subject.topology
    found: dict[tuple[int, int], RankClass] = {}
    one_kind = topology.device(0) if topology.uniform else None
    for replica, times in replicas:
        for stage in range(degrees.pp):
            if one_kind is not None:
                _count(found, stage, one_kind, degrees.size * times)
                continue
            for rank in range(degrees.size):
                device = topology.device(place(degrees, replica, stage, rank))
                _count(found, stage, device, times)
    return tuple(found.values())


def _count(found: dict[tuple[int, int], RankClass], stage: int, device: Device, times: int) -> None:
    key = (stage, id(device))
    known = found.get(key)
    found[key] = RankClass(stage, device, times + (known.count if known else 0))


def _holders(
    subject: Subject, classes: tuple[RankClass, ...], replicas: list[tuple[int, int]]
) -> tuple[Holder, ...]:
    degrees, topology = subject.degrees, subject.topology
    if topology.uniform:
        return (Holder(classes, degrees.holders),)
    by_key = {(c.stage, id(c.device)): c for c in classes}
    mesh = meshes(degrees)["attention"]
    shares = mesh.groups([axis for axis, _ in mesh.axes if axis != "dp"])
    found: dict[tuple[tuple[int, int], ...], int] = {}
    for replica, times in replicas:
        for ranks in shares:
            keys = {
                (stage, id(topology.device(place(degrees, replica, stage, rank))))
                for stage in range(degrees.pp)
                for rank in ranks
            }
            key = tuple(sorted(keys))
            found[key] = found.get(key, 0) + times
    return tuple(Holder(tuple(by_key[k] for k in keys), count) for keys, count in found.items())


def _groups(
    subject: Subject, replicas: list[tuple[int, int]], axes: list[tuple[str, int]]
) -> tuple[Group, ...]:
    degrees, topology = subject.degrees, subject.topology
    lines = {
        (replica, stage): line(degrees, replica, stage)
        for replica, _ in replicas
        for stage in range(degrees.pp)
    }
    shares = {axis: _sharing(degrees, axis) for axis in dict.fromkeys(axis for axis, _ in axes)}
    found: dict[tuple[str, int, int], Group] = {}
    for axis, stage in axes:
        for replica, times in replicas:
            own = lines[replica, stage]
            after = lines[replica, stage + 1] if axis == "pp" else ()
            for ranks in shares[axis]:
                places = tuple(held[rank] for held in (own, after) if held for rank in ranks)
                reach = topology.reach(places)
                key = (axis, stage, id(reach))  # equal ones are the same, and hashes are long
                known = found.get(key)
                count = times + (known.count if known else 0)
                example = known.places if known else places
                found[key] = Group(axis, len(places), stage, reach, count, example)
    return tuple(found.values())


def _sharing(degrees: Degrees, axis: str) -> list[tuple[int, ...]]:
    """The groups of an axis by their ranks: `attention.cp+tp`, `stage` (all), `pp` (sends)."""
    if axis == "pp":
        return [(rank,) for rank in range(degrees.size)]
    if axis == "stage":
        return [tuple(range(degrees.size))]
    mesh, _, names = axis.partition(".")
    return meshes(degrees)[mesh].groups(names.split("+"))
