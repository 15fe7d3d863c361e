"""A catalog entry as it was: figures of a lock over what the catalog says now.

Comes in: the raw block of an entry, and the figures that it had. Goes out: the block with them, as
a child of the entry would write it. A figure that cannot be written so is left as it is. Not its
job: which figures those are (review's lock).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvdsl.diagnostics import Diagnostic
from kvdsl.resolve.blocks import Raw, merged, read_block
from kvdsl.resolve.names import Declared, Scope
from kvdsl.source import SourceFile
from kvdsl.syntax.nodes import Declare

Figures = Mapping[str, str | None]
"""By path in the entry; None where it had no such attribute."""

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_NAMED = {"parts": "attention", "towers": "tower", "algorithms": "algorithm"}
"""How a block with a name is written: `parts.a.kv_heads` is `attention a { kv_heads }`."""

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
        own = _read(declared, _statement(path, value))
        if own is None:
            continue
        found: list[Diagnostic] = []
        changed = merged(raw, own, found)
        raw = raw if found else changed
    return raw


def _statement(path: str, value: str | None) -> str:
    if value is None:
        return f"drop {path}"
    names = list(_heads(path.split(".")))
    *blocks, last = names
    return " { ".join([*blocks, f"{last} = {value}"]) + " }" * len(blocks)


def _heads(names: list[str]) -> Iterator[str]:
    if names[0] in _NAMED and len(names) > 2:
        yield f"{_NAMED[names[0]]} {names[1]}"
        yield from names[2:]
    else:
        yield from names


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
