"""A catalog entry as it was: figures of a lock over what the catalog says now.

Comes in: the raw block of an entry, and the figures that it had. Goes out: the block with them, as
a child of the entry would write it. A figure that cannot be written so is left as it is. Not its
job: which figures those are (review's lock).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvdsl.diagnostics import Diagnostic
from kvdsl.resolve.blocks import Body, Entry, Raw, merged, read_block
from kvdsl.resolve.names import Declared, Scope
from kvdsl.source import SourceFile
from kvdsl.syntax.nodes import Declare

Figures = Mapping[str, str | None]
"""By path in the entry; None where it had no such attribute."""

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_NAMED = {"parts": "part", "towers": "tower", "algorithms": "algorithm", "sizes": "size"}
"""How a raw block calls what has a name of its own: `parts.a.kv_heads` is in `part a`."""

_WHOLE = frozenset({"stack", "mtp", "lines"})


def replayable(path: str) -> bool:
    """Whether a figure can be written over the entry's own."""
    names = path.split(".")
    return _PATH.fullmatch(path) is not None and names[0] not in _WHOLE and names[-1] != "form"


def as_it_was(declared: Declared, raw: Raw, figures: Figures) -> Raw:
    """The block of an entry with the figures that it had."""
    for path, value in figures.items():
        if not replayable(path):
            continue
        statement = _statement(raw, path, value)
        own = None if statement is None else _read(declared, statement)
        if own is None:
            continue
        found: list[Diagnostic] = []
        changed = merged(raw, own, found)
        raw = raw if found else changed
    return raw


def _statement(raw: Raw, path: str, value: str | None) -> str | None:
    """The line of a child that gives an attribute this value; None where the entry has no such
    block any more."""
    if value is None:
        return f"drop {path}"
    heads = []
    names = path.split(".")
    inner: Raw | Body | None = raw
    while len(names) > 1:
        word = _NAMED.get(names[0])
        count = 2 if word and len(names) > 2 else 1
        key = f"{word} {names[1]}" if count == 2 else names[0]
        entry = _entry(inner, key)
        if count == 2:
            if entry is None:
                return None
            heads.append(f"{entry.sort or word} {names[1]}")
        elif entry is not None and not isinstance(entry.value, Body):
            names = names[:1]  # one value for a whole table: `efficiency = 80 %`
            break
        else:
            heads.append(names[0])
        inner = entry.value if entry is not None and isinstance(entry.value, Body) else None
        names = names[count:]
    opened = "".join(f"{head} {{ " for head in heads)
    return f"{opened}{names[0]} = {value}{' }' * len(heads)}"


def _entry(block: Raw | Body | None, key: str) -> Entry | None:
    """An attribute of a block, or of the nearest that it goes on from."""
    while isinstance(block, Body):
        own = block.own.entries.get(key)
        if own is not None:
            return own
        base = block.base
        block = base.value if isinstance(base, Entry) and isinstance(base.value, Body) else None
    return block.entries.get(key) if block is not None else None


def _read(declared: Declared, statement: str) -> Raw | None:
    from kvdsl.syntax.parser import parse

    text = f"kvspec 1\n{declared.kind} {declared.name} {{\n{statement}\n}}\n"
    module, faults = parse(SourceFile(f"<lock {declared.title}>", text))
    for node in module.statements:
        if isinstance(node, Declare) and not faults:
            # Names in it mean what they mean in the entry's own file.
            scope = Scope(module.source, declared.scope.names, declared.scope.lets)
            return read_block(node.body, scope, declared.span, [])
    return None
