"""What a model's `config` brings: the attributes of a config.json, which the model's own override.

Comes in: the statements of a model, and what it inherits. Goes out: a base for them. A config that
cannot be read is one diagnostic, where it is named. Not its job: reading it (project.configs).
"""

from __future__ import annotations

from dataclasses import replace

from kvdsl.resolve.blocks import Body, Entry, Raw, merged, read_block
from kvdsl.resolve.combination_messages import ConfigNotRead
from kvdsl.resolve.context import Context
from kvdsl.resolve.names import Scope
from kvdsl.syntax.nodes import Text

KEY = "config"


def over_config(context: Context, base: Raw, own: Raw, scope: Scope) -> Raw:
    """The base with what the config of `own` says over it."""
    found = _config(context, own, scope)
    return base if found is None else merged(base, found, context.found)


def with_config(context: Context, raw: Raw) -> Raw | None:
    """A model's block, merged with all that it inherits, over its config; None where that cannot
    be read. A declaration's is in it already; that of a model that stands inline is not."""
    entry = raw.entries.get(KEY)
    if entry is None or not isinstance(entry.value, Text) or _has(raw, entry):
        return raw
    found = _config(context, raw, entry.scope)
    if found is None:
        return None
    entries = dict(found.entries)
    for key, own in raw.entries.items():
        below = entries.get(key)
        entries[key] = own if below is None else _over(own, below)
    return replace(raw, entries=entries)


def _has(raw: Raw, entry: Entry) -> bool:
    """Whether the config is merged: each of its attributes stands where it is named."""
    others = (each for key, each in raw.entries.items() if key != KEY)
    return any(entry.span == each.span or entry.span in each.overridden for each in others)


def _config(context: Context, own: Raw, scope: Scope) -> Raw | None:
    entry = own.entries.get(KEY)
    if entry is None or not isinstance(entry.value, Text):
        return None
    path, read = entry.value.value, context.config(entry.value.span)
    if read is None:
        context.tell(ConfigNotRead(entry.span, path, "only a file of the project can name one"))
    elif read.block is None and read.way_out is None:
        context.tell(ConfigNotRead(entry.span, path, read.reason))
    elif read.block is None:
        context.tell(ConfigNotRead(entry.span, path, read.reason, read.way_out))
    else:
        return read_block(read.block, scope, entry.span, context.found)
    return None


def _over(own: Entry, below: Entry) -> Entry:
    """An entry over one that lies under everything that it inherits."""
    value = own.value
    if isinstance(value, Body) and isinstance(value.base, Entry):
        inner = _over(value.base, below)
        return replace(own, value=Body(value.own, inner), form=own.form or inner.form)
    return own.over(below)
