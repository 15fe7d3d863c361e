"""Where in a stack equal layers stand: runs of neighbours, however often others come between.

Comes in: a model. Goes out: each of its kinds of layer once, with its `Depths`, so that a stack
costs its kinds and not its length. Not its job: what a layer holds (tensors, cache).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from kvdsl.recall import Recall
from kvdsl.spec.model import Layer, Model


@dataclass(frozen=True, slots=True)
class Depths:
    """Layers by their number from 0: `runs` are (first, how many), in order and apart."""

    runs: tuple[tuple[int, int], ...]
    count: int

    @staticmethod
    def of(runs: Iterable[tuple[int, int]]) -> Depths:
        """Of runs in order; neighbours become one."""
        joined: list[tuple[int, int]] = []
        for first, count in runs:
            if joined and sum(joined[-1]) == first:
                joined[-1] = (joined[-1][0], joined[-1][1] + count)
            else:
                joined.append((first, count))
        return Depths(tuple(joined), sum(count for _, count in joined))

    @property
    def first(self) -> int:
        return self.runs[0][0]

    def within(self, first: int, count: int) -> Depths:
        """Those of `count` layers from `first` on."""
        end = first + count
        if self.runs and first <= self.runs[0][0] and sum(self.runs[-1]) <= end:
            return self
        at = max(0, bisect_right(self.runs, first, key=lambda run: run[0]) - 1)
        found = []
        for start, many in self.runs[at:]:
            if start >= end:
                break
            inside = min(start + many, end) - max(start, first)
            if inside > 0:
                found.append((max(start, first), inside))
        return Depths(tuple(found), sum(many for _, many in found))

    def cut(self, edges: Iterable[int]) -> Iterator[Depths]:
        """Pieces between edges, in order, without empty ones."""
        last = sum(self.runs[-1]) if self.runs else 0
        for start, end in pairwise((0, *(edge for edge in edges if 0 < edge < last), last)):
            piece = self.within(start, end - start)
            if piece.count:
                yield piece


ONE = Depths(((0, 1),), 1)


def joined(one: Depths, other: Depths) -> Depths:
    """The layers of both, which have none in common."""
    return Depths.of(sorted((*one.runs, *other.runs)))


def kinds_of_layer(model: Model) -> tuple[tuple[Layer, Depths], ...]:
    """Each layer that the stack names, in the order of its first place, and where it stands."""
    return _KINDS.get((model,), (), lambda: _kinds(model))


_KINDS: Recall[tuple[tuple[Layer, Depths], ...]] = Recall(64)


def _kinds(model: Model) -> tuple[tuple[Layer, Depths], ...]:
    found: dict[int, tuple[Layer, list[tuple[int, int]]]] = {}
    first = 0
    for count, layer in model.sequence():
        found.setdefault(id(layer), (layer, []))[1].append((first, count))
        first += count
    return tuple((layer, Depths.of(runs)) for layer, runs in found.values())
