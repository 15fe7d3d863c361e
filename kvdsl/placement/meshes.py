"""Meshes: named axes over the devices of a stage, and which ranks share an axis.

A stage's ranks are numbered from 0; a mesh gives each number a coordinate on every axis, the first
axis outermost. Attention, the dense feed-forward, the vocabulary and the experts each have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from kvdsl.placement.degrees import Degrees


@dataclass(frozen=True, slots=True)
class Mesh:
    name: str
    axes: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        return prod(size for _, size in self.axes)

    def degree(self, axis: str) -> int:
        return dict(self.axes)[axis]

    def coordinates(self, number: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for axis, size in reversed(self.axes):
            number, found[axis] = divmod(number, size)
        return found

    def number(self, coordinates: dict[str, int]) -> int:
        number = 0
        for axis, size in self.axes:
            number = number * size + coordinates[axis]
        return number

    def groups(self, axes: Sequence[str]) -> list[tuple[int, ...]]:
        """Ranks that differ on these axes alone, as tuples in the order of their numbers."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for number in range(self.size):
            at = self.coordinates(number)
            key = tuple(at[axis] for axis, _ in self.axes if axis not in axes)
            groups.setdefault(key, []).append(number)
        return [tuple(group) for group in groups.values()]


def meshes(degrees: Degrees) -> dict[str, Mesh]:
    """The meshes of a stage by the module that they place."""
    a, e = degrees.attention, degrees.experts
    sizes = {"dp": a.dp, "cp": a.cp, "pcp": a.pcp, "tp": a.tp}
    order = [axis for axis in degrees.order if axis in sizes]
    found = {"attention": Mesh("attention", tuple((axis, sizes[axis]) for axis in order))}
    for name, wide in (
        ("ffn", degrees.ffn),
        ("shared_experts", degrees.shared),
        ("vocab", degrees.vocab),
    ):
        found[name] = Mesh(name, (("dp", wide.dp), ("tp", wide.tp)))
    found["experts"] = Mesh("experts", (("ep", e.ep), ("tp", e.tp)))
    return found


def place(degrees: Degrees, replica: int, stage: int, rank: int) -> int:
    """The device in line that a rank stands on: `order`, outermost first."""
    attention = meshes_attention(degrees)
    at = attention.coordinates(rank) | {"replicas": replica, "pp": stage}
    sizes = dict(attention.axes) | {"replicas": degrees.replicas, "pp": degrees.pp}
    number = 0
    for axis in degrees.order:
        number = number * sizes[axis] + at[axis]
    return number


def line(degrees: Degrees, replica: int, stage: int) -> tuple[int, ...]:
    """The devices in line that the ranks of a stage stand on, by their numbers: `place` of each."""
    mesh = meshes_attention(degrees)
    sizes = dict(mesh.axes) | {"replicas": degrees.replicas, "pp": degrees.pp}
    strides, reach = {}, 1
    for axis in reversed(degrees.order):
        strides[axis] = reach
        reach *= sizes[axis]
    start = replica * strides["replicas"] + stage * strides["pp"]
    steps = (range(0, size * strides[axis], strides[axis]) for axis, size in mesh.axes)
    return tuple(start + sum(taken) for taken in product(*steps))


def meshes_attention(degrees: Degrees) -> Mesh:
    """The attention mesh alone: it decides where a rank stands."""
    a = degrees.attention
    sizes = {"dp": a.dp, "cp": a.cp, "pcp": a.pcp, "tp": a.tp}
    return Mesh("attention", tuple((x, sizes[x]) for x in degrees.order if x in sizes))
