"""Weight blocks: values that share a scale, and the ranks' parts of a matrix that cut them.

Comes in: a shard and the format of its tensor. Goes out: where a part ends inside a block, and the
tensor as an engine pads it, so that each part holds whole blocks. Not its job: whether an engine
pads or refuses to start (checks).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from kvdsl.placement.shares import Shard, shard
from kvdsl.placement.subject import Subject
from kvdsl.placement.tensor import Tensor
from kvdsl.spec.formats import Format

UNQUANTIZED = ("embedding", "head", "norms", "router", "tower")
"""Modules that engines keep in 16 bits whatever the checkpoint's scheme: their blocks cut nothing.
Source: ignored layers of published FP8 and 4-bit checkpoints."""


@dataclass(frozen=True, slots=True)
class CutBlock:
    """`size` rows or columns over `ways` ranks, in blocks of `step`: a rank's part ends inside."""

    size: int
    ways: int
    step: int
    form: Format

    @property
    def each(self) -> Fraction:
        """On a rank."""
        return Fraction(self.size, self.ways)

    @property
    def padded(self) -> int:
        """On a rank, in whole blocks."""
        return -(-self.size // (self.ways * self.step)) * self.step


def block_of(form: Format) -> tuple[int, int] | None:
    """Rows and columns of a block with a scale of its own."""
    inner = form.of or form
    if inner.block is None or inner.scale is None:
        return None
    return (1, inner.block[0]) if len(inner.block) == 1 else (inner.block[0], inner.block[1])


def cut_block(share: Shard, form: Format) -> CutBlock | None:
    """Where a rank's part of a tensor ends inside a block."""
    tensor = share.tensor
    if tensor.module in UNQUANTIZED or tensor.made or tensor.rows == 1:
        return None
    if tensor.cut in ("norm", "indexer"):  # small tables and whole matrices
        return None
    block = block_of(form)
    cuts = [c for c in share.cuts if c.axis != "experts.ep"]
    ways = prod(c.size for c in cuts)
    if block is None or ways == 1:
        return None
    size, step = (
        (tensor.columns, block[1]) if tensor.along == "columns" else (tensor.rows, block[0])
    )
    part = size * prod((c.held for c in cuts), start=Fraction(1))
    return CutBlock(size, ways, step, form) if step > 1 and part % step else None


def padded(subject: Subject, tensor: Tensor) -> Tensor:
    """The tensor as an engine keeps it that pads parts to whole blocks."""
    engine = subject.engine
    form = tensor.stored_as or subject.weights.format_of(tensor.module, tensor.part)
    if engine is None or engine.partial_block != "pad" or form is None:
        return tensor
    found = cut_block(shard(tensor, tensor.depths, subject.degrees, engine), form)
    if found is None:
        return tensor
    size = found.padded * found.ways
    return (
        replace(tensor, columns=size) if tensor.along == "columns" else replace(tensor, rows=size)
    )
