"""Two invariants of every placement, and what follows from them.

The shards of each tensor cover it completely, exactly as many times as its copies say; and the
bytes over all devices add up to logical bytes times copies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import Any

from hypothesis import given, settings

from kvdsl.costs import cache, memory, weights
from kvdsl.placement.graph import graph
from kvdsl.placement.meshes import meshes, place
from kvdsl.placement.placement import Placement, build
from kvdsl.placement.shares import redundancy
from tests.laws.worlds import AXES, World, worlds

Interval = tuple[Fraction, Fraction]
Node = tuple[str, dict[str, Any]]

few = settings(max_examples=60)


def nodes(placement: Placement, kind: str, *, expanded: bool = True) -> list[Node]:
    made = graph(placement, expanded=expanded)
    return [(name, data) for name, data in made.nodes(data=True) if data["kind"] == kind]


def covered(boxes: Iterable[tuple[Interval, ...]]) -> set[int]:
    """How many boxes lie over each point of the unit box: the different answers."""
    every = list(boxes)
    edges = [sorted({e for piece in pieces for e in piece} | {Fraction(0), Fraction(1)})
             for pieces in zip(*every, strict=True)]  # fmt: skip
    cells = product(*(list(pairwise(e)) for e in edges))
    return {sum(all(a <= s and t <= b for (a, b), (s, t) in zip(box, cell, strict=True))
                for box in every) for cell in cells}  # fmt: skip


@few
@given(worlds())
def test_the_shards_of_a_tensor_cover_it_as_often_as_its_copies_say(world: World) -> None:
    placement = build(world.subject)
    boxes = defaultdict(list)
    for name, data in nodes(placement, "shard"):
        if "tensor" not in data:  # a share of the cache: it is cut by tokens too
            continue
        index = int(name.rpartition(".")[2])
        boxes[data["replica"], data["stage"], index].append(data["pieces"])
    replicas = range(placement.degrees.replicas)
    wanted = {
        (replica, stage.number, index): {int(shard.copies)}
        for replica in replicas
        for stage in placement.stages
        for index, shard in enumerate(stage.shards)
    }
    assert {key: covered(found) for key, found in boxes.items()} == wanted


@few
@given(worlds())
def test_parameters_over_all_devices_are_the_logical_ones_times_copies(world: World) -> None:
    placement = build(world.subject)
    found: dict[str, Fraction] = defaultdict(Fraction)
    for _, data in nodes(placement, "shard"):
        if "tensor" not in data:
            continue
        found[data["tensor"]] += Fraction(data["parameters"])
    copies = {
        _title(s.tensor): s.copies * redundancy(s.tensor, placement.degrees)
        for stage in placement.stages
        for s in stage.shards
    }
    logical = {_title(t): t.in_all for t in placement.tensors}
    tied = "head..tokens.0.last"  # with several stages both ends keep the one matrix
    twice = placement.subject.model.tied_embeddings and placement.degrees.pp > 1
    if twice:
        logical[tied] = logical["embedding..tokens.0.first"]
    replicas = placement.degrees.replicas
    assert found == {title: n * copies[title] * replicas for title, n in logical.items()}


def _title(tensor: Any) -> str:
    return f"{tensor.module}.{tensor.part}.{tensor.name}.{tensor.depths.first}.{tensor.place}"


@few
@given(worlds())
def test_bytes_of_weights_over_all_devices_are_the_stored_ones_times_copies(world: World) -> None:
    placement = build(world.subject)
    subject, degrees = placement.subject, placement.degrees
    on_devices = sum(Fraction(b.weights.value) * b.rank.count for b in memory.ledgers(placement))
    stored = sum(
        weights.tensor_bytes(subject, s.tensor, s.depths) * s.copies
        for stage in placement.stages
        for s in stage.shards
    )
    assert on_devices == stored * degrees.replicas


@few
@given(worlds())
def test_redundant_experts_add_their_share_of_the_routed_weights_and_nothing_else(
    world: World,
) -> None:
    degrees = world.degrees
    plain = replace(world, degrees=replace(degrees, experts=replace(degrees.experts, redundant=0)))
    before, after = _by_module(plain), _by_module(world)
    routed = "routed_experts"
    if routed in before:
        experts = next(t.atoms for t in build(world.subject).tensors if t.module == routed)
        before[routed] *= 1 + Fraction(degrees.experts.redundant, experts)
    assert after == before


def _by_module(world: World) -> dict[str, Fraction]:
    """Bytes over all devices."""
    found: dict[str, Fraction] = defaultdict(Fraction)
    for book in memory.ledgers(build(world.subject)):
        for module, term in book.modules:
            found[module] += Fraction(term.value) * book.rank.count
    return found


@few
@given(worlds())
def test_cache_bytes_over_all_ranks_of_a_request_are_one_copy_times_copies(world: World) -> None:
    placement = build(world.subject)
    a = placement.degrees.attention
    one = sum(cache.record_bytes(p) * p.layers for p in placement.parts)
    spread = sum(
        cache.rank_record(s) * s.layers * s.ranks for stage in placement.stages for s in stage.cache
    )
    assert spread == one * Fraction(cache.copies_term(placement).value)
    heads = sum(
        cache.component_bytes(c) * c.heads * cut.copies * s.layers
        for stage in placement.stages
        for s in stage.cache
        for c, cut in s.heads
    )
    assert spread == heads * a.pcp


@few
@given(worlds())
def test_every_rank_stands_on_one_device_and_no_device_holds_two(world: World) -> None:
    made = graph(build(world.subject), expanded=True)
    hosts = [(s, e) for s, e, data in made.edges(data=True) if data["kind"] == "hosts"]
    ranks = [name for name, data in made.nodes(data=True) if data["kind"] == "rank"]
    assert sorted(rank for _, rank in hosts) == sorted(ranks)
    assert len({device for device, _ in hosts}) == len(hosts) == world.degrees.devices
    assert {made.nodes[device]["kind"] for device, _ in hosts} == {"device"}


@few
@given(worlds())
def test_the_groups_of_an_axis_partition_the_ranks_of_each_stage(world: World) -> None:
    made = graph(build(world.subject), expanded=True)
    joined: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for start, end, data in made.edges(data=True):
        if data["kind"] == "joins":
            replica, stage, _ = end.split(".")
            joined[made.nodes[start]["label"], replica, stage].append(end)
    assert joined
    for (_, replica, stage), found in joined.items():
        wanted = [f"{replica}.{stage}.{rank}" for rank in range(world.degrees.size)]
        assert sorted(found) == sorted(wanted)


@few
@given(worlds())
def test_folded_classes_count_the_ranks_that_the_expanded_graph_has(world: World) -> None:
    placement = build(world.subject)
    made = graph(placement, expanded=True)
    counted: Counter[tuple[str, str]] = Counter()
    for device, rank, data in made.edges(data=True):
        if data["kind"] == "hosts":
            counted[f"stage {rank.split('.')[1][1:]}", made.nodes[device]["label"]] += 1
    folded = Counter({(f"stage {c.stage}", c.device.title): c.count for c in placement.classes})
    assert folded == counted
    labels = [
        (data["label"], data["count"]) for _, data in nodes(placement, "rank", expanded=False)
    ]
    assert sorted(labels) == sorted((stage, count) for (stage, _), count in counted.items())


@given(worlds())
def test_folded_groups_count_the_groups_walked_one_by_one_by_how_far_they_reach(
    world: World,
) -> None:
    placement = build(world.subject)
    folded = {(g.axis, g.stage, g.size, g.reach): g.count for g in placement.groups}
    axes = {(g.axis, g.stage) for g in placement.groups}
    walked: Counter[Any] = Counter()
    for (axis, stage), replica in product(axes, range(placement.degrees.replicas)):
        for places in _groups(placement, axis, stage, replica):
            reach = placement.subject.topology.reach(places)
            walked[axis, stage, len(places), reach] += 1
    assert Counter(folded) == walked


def _groups(placement: Placement, axis: str, stage: int, replica: int) -> list[tuple[int, ...]]:
    """The groups of an axis as devices in line, from the meshes alone."""
    degrees = placement.degrees
    if axis == "pp":
        ends = (stage, stage + 1)
        ranks = range(degrees.size)
        return [tuple(place(degrees, replica, s, rank) for s in ends) for rank in ranks]
    mesh, _, names = axis.partition(".")
    cut = meshes(degrees)
    every = [tuple(range(degrees.size))]
    members = every if axis == "stage" else cut[mesh].groups(names.split("+"))
    return [tuple(place(degrees, replica, stage, rank) for rank in group) for group in members]


@given(worlds())
def test_a_mesh_numbers_its_ranks_from_0_the_last_axis_innermost(world: World) -> None:
    for mesh in meshes(world.degrees).values():
        at = [mesh.coordinates(number) for number in range(mesh.size)]
        assert [mesh.number(c) for c in at] == list(range(world.degrees.size))
        in_order = [tuple(c[axis] for axis, _ in mesh.axes) for c in at]
        assert in_order == list(product(*(range(size) for _, size in mesh.axes)))


@given(worlds())
def test_ranks_stand_in_line_as_the_order_of_axes_says(world: World) -> None:
    degrees = replace(world.degrees, order=AXES)
    line = [
        place(degrees, replica, stage, rank)
        for replica in range(degrees.replicas)
        for stage in range(degrees.pp)
        for rank in range(degrees.size)
    ]
    assert line == list(range(degrees.devices))


@given(worlds())
def test_the_size_of_a_group_is_the_product_of_its_axes(world: World) -> None:
    placement = build(world.subject)
    cut = meshes(placement.degrees)
    for group in placement.groups:
        mesh, _, names = group.axis.partition(".")
        if names:
            assert group.size == prod(cut[mesh].degree(axis) for axis in names.split("+"))
    layers = [stage.layers for stage in placement.stages]
    assert sum(layers) == placement.subject.model.layers
