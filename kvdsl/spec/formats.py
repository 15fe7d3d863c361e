"""Formats of numbers, and recipes that give each module or cache component one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.slots import (
    ByteRate,
    Bytes,
    Count,
    Exact,
    Listed,
    PositiveBytes,
    Ratio,
    Referred,
    Special,
    Word,
    Yes,
)

MODULES = (
    "embedding",
    "head",
    "attention",
    "state_mixer",
    "ffn",
    "routed_experts",
    "shared_experts",
    "router",
    "norms",
    "indexer",
    "mtp",
)
COMPONENTS = (
    "key",
    "value",
    "latent",
    "rope_key",
    "index_key",
    "compressed",
    "conv_state",
    "state",
    "draft",
)


class Format(Declaration):
    """How a number is stored. `bits`, `scale` and `zero` are kept in bytes: `4 bit` is 1/2."""

    bits: PositiveBytes | None = Field(default=None, description="of one value")
    scale: Bytes | None = Field(default=None, description="of one scale")
    zero: Bytes | None = Field(default=None, description="of one zero point")
    block: Annotated[tuple[int, ...] | None, Listed(Count(1), single=True)] = Field(
        default=None,
        description="values that share a scale: in a row, or [rows, columns]; else a tensor",
    )
    compute: Annotated[str | None, Word()] = Field(
        default=None, description="row of the device's compute; the format's name unless given"
    )
    lossless: Yes = Field(default=False, description="gives back every bit")
    holds: Annotated[Literal["any", "weights", "kv"], Word(("any", "weights", "kv"))] = Field(
        default="any", description="what may be kept in it"
    )
    of: Annotated[Format | None, Referred(("format",))] = Field(
        default=None, description="a codec's inner format"
    )
    ratio: Annotated[Exact | None, Ratio(most=None, above=True)] = Field(
        default=None, description="a codec: size is that of `of` over this"
    )
    encode: ByteRate | None = Field(default=None, description="a codec's speed")
    decode: ByteRate | None = Field(default=None, description="a codec's speed")

    @property
    def arithmetic(self) -> str:
        """The row of a device's `compute` that this format's products use."""
        return self.compute or self.catalog.rpartition(".")[2] or self.name


class RecipeLine(Block):
    """One line: `default`, a module, component or part (`name`), or some layers."""

    name: str = "default"
    layers: tuple[tuple[int, int], ...] = ()
    format: Format


class Recipe(Declaration):
    """A format for each module of the weights or component of the cache: the narrowest line wins
    (layers, then part, then module or component, then default)."""

    lines: Annotated[tuple[RecipeLine, ...], Special()] = Field(
        default=(),
        description="the format of a module, component or part, of some layers, or of all else",
    )

    @property
    def uniform(self) -> Format | None:
        """The one format of everything, if there is just a default."""
        return self.lines[0].format if len(self.lines) == 1 and self._default() else None

    def _default(self) -> Format | None:
        for line in self.lines:
            if line.name == "default" and not line.layers:
                return line.format
        return None

    def format_of(self, module: str, part: str = "", layer: int | None = None) -> Format | None:
        """The format of a module or component, in a part, in a layer (counted from 0)."""
        if layer is not None:
            for line in reversed(self.lines):
                if any(first <= layer <= last for first, last in line.layers):
                    return line.format
        for wanted in (part, module):
            for line in self.lines:
                if wanted and line.name == wanted and not line.layers:
                    return line.format
        return self._default()

    @property
    def layer_cuts(self) -> tuple[int, ...]:
        """Layers before which the format may change."""
        if not any(line.layers for line in self.lines):
            return ()
        cuts = {edge for line in self.lines for a, b in line.layers for edge in (a, b + 1)}
        return tuple(sorted(cuts))
