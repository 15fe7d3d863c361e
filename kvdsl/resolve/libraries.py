"""Libraries: the algorithms that stand in them, each a named block.

Comes in: a raw block. Goes out: a `Library`, or None where a diagnostic was told. Not its job: what
an algorithm's form means (costs).
"""

from __future__ import annotations

from kvdsl.resolve.blocks import Entry, Raw
from kvdsl.resolve.building import finished, gathered, origin_of
from kvdsl.resolve.context import Context
from kvdsl.resolve.inheritance import flat
from kvdsl.resolve.lookup import in_catalog
from kvdsl.resolve.naming_messages import MissingAttribute
from kvdsl.resolve.values import Reference
from kvdsl.spec.hardware import Device
from kvdsl.spec.library import Algorithm, Library

ALGORITHM = "algorithm "

UNNAMED = "unnamed"
"""What the catalog calls the library that stands in where nothing was measured."""


def build_library(context: Context, raw: Raw, owner: str) -> Library | None:
    named = {key: entry for key, entry in raw.entries.items() if key.startswith(ALGORITHM)}
    parts = gathered(context, Library, raw, owner, named)
    built = {key.removeprefix(ALGORITHM): _algorithm(context, e) for key, e in named.items()}
    parts.sound &= all(value is not None for value in built.values())
    parts.values["algorithms"] = built
    parts.origins |= {key: origin_of(entry) for key, entry in named.items()}
    if not built and parts.sound and not context.lenient:
        example = "`algorithm ring { … }`, as in `kvdsl catalog show libraries.nccl`"
        context.tell(MissingAttribute(raw.at, owner, "an `algorithm`", example))
        parts.sound = False
    return finished(Library, parts)


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
