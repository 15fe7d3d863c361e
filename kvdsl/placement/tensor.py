"""One logical tensor of a model, and how a checkpoint's count names it.

Comes in: shapes. Goes out: a frozen tensor. Not its job: which tensors a part has
(attention_tensors, mixer_tensors, feed_forward_tensors) or where one goes (shares).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

Runs = tuple[tuple[int, int], ...]
"""Runs of layers, each its first layer and how many: what lies in every other layer has many."""


def within(runs: Runs, first: int, layers: int) -> Runs:
    """What of the runs lies in `layers` layers from `first` on."""
    cut = ((max(a, first), min(a + n, first + layers)) for a, n in runs)
    return tuple((start, end - start) for start, end in cut if start < end)


@dataclass(frozen=True, slots=True)
class Tensor:
    """`count` equal matrices (or vectors: one row) in each layer of its `runs`.

    `module` is a word of the recipes; `cut` the dimension that is placed: query_heads, kv_heads,
    latent_projection, width, experts, vocabulary, norm, router; `atoms` how many it has.
    """

    module: str
    part: str
    name: str
    rows: int
    columns: int
    cut: str
    atoms: int
    count: int = 1
    runs: Runs = ((0, 1),)
    place: str = "layer"
    """`layer`, or `first` and `last` for what belongs to the first or last stage."""
    group: str = ""
    """The group that counts it where that is not its module: `extra` for what stands beside the
    modules, `attention` for a mixer that a checkpoint stores as one."""

    @property
    def layers(self) -> int:
        return sum(count for _, count in self.runs)

    @property
    def parameters(self) -> int:
        """In one layer."""
        return self.rows * self.columns * self.count

    @property
    def in_all(self) -> int:
        return self.parameters * self.layers

    @property
    def counted_in(self) -> str:
        return self.group or self.module


def vector(module: str, part: str, name: str, width: int, cut: str = "norm") -> Tensor:
    """One row of so many values."""
    return Tensor(module, part, name, 1, width, cut, width)


def gathered(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Equal tensors of several runs as one, in the order in which each is met first."""
    runs: dict[Tensor, list[tuple[int, int]]] = {}
    for tensor in tensors:
        runs.setdefault(replace(tensor, runs=()), []).extend(tensor.runs)
    return tuple(replace(tensor, runs=tuple(found)) for tensor, found in runs.items())
