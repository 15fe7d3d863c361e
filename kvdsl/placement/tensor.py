"""One logical tensor of a model, and how a checkpoint's count names it.

Comes in: shapes. Goes out: a frozen tensor. Not its job: which tensors a part has
(attention_tensors, mixer_tensors, feed_forward_tensors) or where one goes (shares).
"""

from __future__ import annotations

from dataclasses import dataclass

from kvdsl.placement.depths import ONE, Depths
from kvdsl.spec.formats import Format


@dataclass(frozen=True, slots=True)
class Tensor:
    """`count` equal matrices (or vectors: one row) in each of the layers at `depths`.

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
    depths: Depths = ONE
    place: str = "layer"
    """`layer`, or `first` and `last` for what belongs to the first or last stage, `each` to all."""
    group: str = ""
    """The group that counts it where that is not its module: `extra` for what stands beside the
    modules, `attention` for a mixer that a checkpoint stores as one."""

    along: str = "rows"
    """What a cut goes along: `rows` (a projection's outputs), or `columns` (what it reads)."""
    stored_as: Format | None = None
    """Its format where the recipe does not say it: copies that an engine makes."""
    made: str = ""
    """What an engine makes of it beside the checkpoint's: `absorbed copies`."""
    draft: bool = False
    """Of a draft layer: kept by the last stage, in the format of `mtp`."""

    @property
    def layers(self) -> int:
        return self.depths.count

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
