"""Blocks over what they inherit where that is a reference: followed when the value is read.

Comes in: an entry whose value is a block, and what kind its attribute takes. Goes out: one raw
block with the base merged in, or None where a diagnostic was told. Not its job: merging two blocks
that are both written out (blocks).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from kvdsl.resolve.blocks import Body, Choices, Entry, Raw, Verbatim, merged
from kvdsl.resolve.context import Context
from kvdsl.resolve.naming_messages import BadExtends, NothingToMerge
from kvdsl.resolve.schema import left_behind
from kvdsl.resolve.values import Reference, described
from kvdsl.syntax.nodes import Path


def flat(
    context: Context,
    entry: Entry,
    kind: str,
    wrap: str,
    accepts: Iterable[str],
    words: Collection[str] = (),
) -> Raw | None:
    """The block of an entry with its base merged in, which may be a reference to a `kind`."""
    body, layers = layered(entry)
    base: Raw | None = Raw(entry.span)
    if isinstance(body.base, Path):
        base = _extended(context, body.base, entry, kind, wrap, tuple(accepts))
    elif isinstance(body.base, Entry):
        base = _below(context, body.base, entry, kind, wrap, tuple(accepts), words)
    if base is None:
        return None
    for own in layers:
        base = merged(base.without(*left_behind(kind, own.entries)), own, context.found)
    return base


def layered(entry: Entry) -> tuple[Body, list[Raw]]:
    """The lowest block that an entry merges into, and every block from there up. A loop, since a
    long line of children may each merge into the one before."""
    assert isinstance(entry.value, Body)
    body = entry.value
    layers = [body.own]
    while isinstance(body.base, Entry) and isinstance(body.base.value, Body):
        body = body.base.value
        layers.append(body.own)
    return body, layers[::-1]


def _below(
    context: Context,
    below: Entry,
    entry: Entry,
    kind: str,
    wrap: str,
    accepts: tuple[str, ...],
    words: Collection[str],
) -> Raw | None:
    if isinstance(below.value, Body | Verbatim | Choices):
        return Raw(entry.span)
    if isinstance(below.value, Path) and below.value.dotted in words:
        return Raw(entry.span)
    value = context.evaluate(below.value, below.scope)
    if value is None:
        return None
    if isinstance(value, Reference) and value.declared is not None:
        if value.kind == kind:
            raw = context.raw(value.declared, below.span)
            return None if raw is None else replace(raw.without("abstract"), at=entry.span)
        if value.kind in accepts:
            return Raw(entry.span, {wrap: replace(below, key=wrap)})
        if not value.kind:
            return None
    reason = f"it is {described(value)}"
    context.tell(NothingToMerge(entry.span, entry.key, reason))
    return None


def _extended(
    context: Context, path: Path, entry: Entry, kind: str, wrap: str, accepts: tuple[str, ...]
) -> Raw | None:
    """`a extends R { … }`: a block that starts from a declaration."""
    value = context.evaluate(path, entry.scope)
    if value is None:
        return None
    if isinstance(value, Reference) and value.declared is not None:
        if value.kind == kind:
            raw = context.raw(value.declared, path.span)
            return None if raw is None else replace(raw.without("abstract"), at=entry.span)
        if value.kind in accepts:
            name = replace(entry.name, text=wrap)
            bare = Entry(wrap, name, path, entry.scope, path.span, entry.source)
            return Raw(entry.span, {wrap: bare})
        if not value.kind:
            return None
    wanted = f"a {kind} is wanted" if kind else "only declarations can be extended"
    reason = f"it is {described(value)}, and {wanted}"
    context.tell(BadExtends(path.span, f"`{entry.key}`", path.dotted, reason))
    return None
