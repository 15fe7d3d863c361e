"""Libraries and engines: the algorithms and sizes that stand in them, each a named block.

Comes in: a raw block. Goes out: a `Library` or an `Engine`, or None where a diagnostic was told.
Not its job: what an algorithm's form means (costs), or which size holds (placement).
"""

from __future__ import annotations

from collections.abc import Callable

from kvdsl.resolve.blocks import PLURAL_KEYS, Entry, Raw
from kvdsl.resolve.building import Gathered, finished, gathered, origin_of
from kvdsl.resolve.context import Context
from kvdsl.resolve.inheritance import flat
from kvdsl.resolve.lookup import in_catalog
from kvdsl.resolve.naming_messages import MissingAttribute
from kvdsl.resolve.values import Reference
from kvdsl.spec.declaration import Block
from kvdsl.spec.engine import Engine, Size
from kvdsl.spec.hardware import Device
from kvdsl.spec.library import Algorithm, Library

UNNAMED = "unnamed"
"""What the catalog calls the library that stands in where nothing was measured."""


def build_library(context: Context, raw: Raw, owner: str) -> Library | None:
    parts = _with_named(context, Library, raw, owner, "algorithms", _algorithm)
    if not parts.values["algorithms"] and parts.sound and not context.lenient:
        example = "`algorithm ring { … }`, as in `kvdsl catalog show libraries.nccl`"
        context.tell(MissingAttribute(raw.at, owner, "an `algorithm`", example))
        parts.sound = False
    return finished(Library, parts)


def build_engine(context: Context, raw: Raw, owner: str) -> Engine | None:
    return finished(Engine, _with_named(context, Engine, raw, owner, "sizes", _size))


def _with_named(
    context: Context,
    model: type[Library | Engine],
    raw: Raw,
    owner: str,
    attribute: str,
    build: Callable[[Context, Entry], Block | None],
) -> Gathered:
    """What a block says, with the blocks in it that have a word and a name: `size small { … }`."""
    word = f"{PLURAL_KEYS[attribute]} "
    named = {key: entry for key, entry in raw.entries.items() if key.startswith(word)}
    parts = gathered(context, model, raw, owner, named)
    built = {key.removeprefix(word): build(context, entry) for key, entry in named.items()}
    parts.sound &= all(value is not None for value in built.values())
    parts.values[attribute] = built
    parts.origins |= {key: origin_of(entry) for key, entry in named.items()}
    return parts


def _size(context: Context, entry: Entry) -> Size | None:
    raw = flat(context, entry, "", "", ())
    if raw is None:
        return None
    parts = gathered(context, Size, raw, f"`size {entry.name.text}`")
    parts.values["name"] = entry.name.text
    return finished(Size, parts)


def _algorithm(context: Context, entry: Entry) -> Algorithm | None:
    raw = flat(context, entry, "", "", ())
    if raw is None:
        return None
    parts = gathered(context, Algorithm, raw, f"`algorithm {entry.name.text}`")
    parts.values["name"] = entry.name.text
    for table in ("launch", "efficiency"):
        if parts.values.get(table) == {}:
            row = f"`{table} {{ hopper = …; other = … }}`"
            context.tell(
                MissingAttribute(
                    raw.at, f"`algorithm {entry.name.text}`", f"a row of `{table}`", row
                )
            )
            parts.sound = False
    return finished(Algorithm, parts)


def own_library(context: Context, device: Device) -> Library | None:
    """The library that a device's maker gives, by its name in the catalog."""
    name = device.library
    declared = in_catalog(context, "libraries", name or UNNAMED)
    at = device.at
    if declared is None or at is None:
        return None
    found = context.spec(Reference(declared.kind, declared.title, declared), at)
    return found if isinstance(found, Library) else None
