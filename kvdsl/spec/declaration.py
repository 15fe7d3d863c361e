"""The frame of every spec model: frozen, strict, and each value with where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from kvdsl.source import Span


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written (`span`), what was overridden to get it (nearest last), and the
    figure's own source if it names one (`from`, or the block's `source`)."""

    span: Span
    source: str | None = None
    overridden: tuple[Span, ...] = ()


class Block(BaseModel):
    """A block of attributes. `origins` has an entry for each attribute that was written: one that
    has none is a default. `at` is the block itself."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        defer_build=True,
        protected_namespaces=(),
    )

    origins: Mapping[str, Origin] = Field(default_factory=dict, exclude=True, repr=False)
    at: Span | None = Field(default=None, exclude=True, repr=False)

    def origin(self, attribute: str) -> Origin | None:
        return self.origins.get(attribute)

    def same_meaning(self, other: Block) -> bool:
        """Equal but for where it was written."""
        return type(self) is type(other) and self.model_dump() == other.model_dump()


class Declaration(Block):
    """A block with a name and documentation. `catalog` is its catalog name, as
    `models.llama_3_1_405b`, or empty where a user wrote it; `name` is empty inline."""

    name: str = ""
    doc: str = ""
    catalog: str = ""
    source: str | None = None

    belongs: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Attributes that say something of another, and are not inherited where that is replaced."""

    @property
    def title(self) -> str:
        return self.catalog or self.name or "inline"


FRAME = frozenset(Declaration.model_fields)
"""Fields that are not attributes of the language, `source` apart."""
