"""What a block may hold, read off the spec models: attributes, their slots, what must be given.

Comes in: a pydantic model. Goes out: its `Schema`. Not its job: reading values (attributes).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, ForwardRef, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from kvdsl.source import Span
from kvdsl.spec.declaration import FRAME, Block, Declaration
from kvdsl.spec.deployment import Deployment, Fleet, Policy
from kvdsl.spec.engine import Engine
from kvdsl.spec.formats import Format, Recipe
from kvdsl.spec.hardware import Cluster, Device, Link, Node, Rack, Tier
from kvdsl.spec.layout import Layout
from kvdsl.spec.library import Library
from kvdsl.spec.model import Model
from kvdsl.spec.slots import (
    Count,
    Counted,
    Flag,
    Listed,
    Measured,
    Nested,
    PerScope,
    Quoted,
    Ratio,
    Referred,
    Selected,
    Slot,
    Special,
    Table,
    Word,
)
from kvdsl.spec.workload import Workload

KINDS: Mapping[str, type[Declaration]] = MappingProxyType(
    {
        "model": Model,
        "device": Device,
        "link": Link,
        "node": Node,
        "rack": Rack,
        "cluster": Cluster,
        "format": Format,
        "recipe": Recipe,
        "tier": Tier,
        "engine": Engine,
        "library": Library,
        "layout": Layout,
        "workload": Workload,
        "deployment": Deployment,
        "fleet": Fleet,
        "policy": Policy,
    }
)

_KIND_OF = {model: kind for kind, model in KINDS.items()}


def kind_of(model: type[Declaration]) -> str:
    """`device` for Device."""
    return _KIND_OF[model]


def left_behind(kind: str, replaced: Collection[str]) -> tuple[str, ...]:
    """Attributes that a child does not inherit, as it replaces what they belong to."""
    belongs = KINDS[kind].belongs if kind in KINDS else {}
    return tuple(name for name, of in belongs.items() if of in replaced)


SLOTS = (
    Measured, Count, Ratio, Flag, Word, Quoted, Listed, Referred, Counted, Selected, Nested, Table,
    PerScope, Special,
)  # fmt: skip

B = TypeVar("B", bound=Block)


def make(model: type[B], at: Span | None, /, **values: object) -> B:
    """A spec model of values that were read through their slots, so nothing is checked again: the
    schemas that pydantic would need take longer to build than a file takes to resolve. A test has
    pydantic check what comes out."""
    construct = cast("Callable[..., B]", model.model_construct)
    return construct(None, **values, at=at)


def is_whole(block: Block) -> bool:
    """Whether it has all that must be given: one of an abstract declaration may wait for a child
    to give it, and then has no value there at all."""
    attributes = schema_of(type(block)).attributes.values()
    return all(a.name in block.model_fields_set for a in attributes if a.required)


_FRAME = FRAME | set(Block.model_fields)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: how its expression is read. `block` is the model of its block, if it takes
    one; `item` is what a counted attribute holds (`ManyDevices`)."""

    name: str
    slots: tuple[Slot, ...]
    required: bool
    block: type[Block] | None

    @property
    def special(self) -> bool:
        return any(isinstance(slot, Special) for slot in self.slots)


@dataclass(frozen=True, slots=True)
class Schema:
    model: type[Block]
    attributes: Mapping[str, Attribute]

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that are written `name = …` or `name { … }`."""
        return tuple(name for name, a in self.attributes.items() if not a.special)


@cache
def schema_of(model: type[Block]) -> Schema:
    fields = {n: f for n, f in model.model_fields.items() if n not in _FRAME and n != "form"}
    late = any(_is_late(field.annotation) for field in fields.values())
    # A class that names one written further down has its annotation as text until it is asked.
    hints = get_type_hints(model, include_extras=True) if late else {}
    attributes = {}
    for name, field in fields.items():
        kind = hints[name] if _is_late(field.annotation) else field.annotation
        slots = _slots_in(field.metadata) or _slots_of(kind)
        if slots:
            attributes[name] = Attribute(name, slots, field.is_required(), _block_in(kind))
    return Schema(model, MappingProxyType(attributes))


def _is_late(annotation: object) -> bool:
    return isinstance(annotation, ForwardRef | str)


def _slots_in(metadata: object) -> tuple[Slot, ...]:
    parts = metadata if isinstance(metadata, list | tuple) else ()
    return tuple(part for part in parts if isinstance(part, SLOTS))


def _slots_of(annotation: object) -> tuple[Slot, ...]:
    """Slots of `Annotated[…]`, also inside `… | None`."""
    if get_origin(annotation) is Annotated:
        return _slots_in(annotation.__metadata__)  # type: ignore[attr-defined]
    if get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            if slots := _slots_of(member):
                return slots
    return ()


def _block_in(annotation: object) -> type[Block] | None:
    """The one spec model in an annotation: of an optional block, or of the items of a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return annotation
    for member in get_args(annotation):
        if found := _block_in(member):
            return found
    return None
