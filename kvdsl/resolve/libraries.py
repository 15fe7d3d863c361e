"""Libraries: the algorithms that stand in them, each a named block.

Comes in: a raw block. Goes out: a `Library`, or None where a diagnostic was told. Not its job: what
an algorithm's form means (costs).
"""

from __future__ import annotations

from kvdsl.resolve.blocks import Entry, Raw
from kvdsl.resolve.building import finished, gathered, origin_of
from kvdsl.resolve.context import Context
from kvdsl.resolve.inheritance import flat
from kvdsl.resolve.naming_messages import MissingAttribute
from kvdsl.spec.library import Algorithm, Library

ALGORITHM = "algorithm "


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
    return finished(Algorithm, parts)
