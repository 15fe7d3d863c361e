"""Overrides from outside: `--layout tp16`, or one point of a sweep.

Comes in: a deployment's raw block and a change. Goes out: the raw block with it, as a child would
write it. Not its job: whether the value fits (building).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import cast

from kvdsl.diagnostics import Diagnostic
from kvdsl.resolve.blocks import Body, Entry, Raw
from kvdsl.resolve.combination_messages import ChangeWithoutEffect
from kvdsl.resolve.declarations import Declarations
from kvdsl.resolve.foreign_names import own_name
from kvdsl.resolve.names import Scope
from kvdsl.resolve.naming_messages import NoSuchChange, either
from kvdsl.resolve.paths import CHANGEABLE, NoPath, keys_of
from kvdsl.resolve.pools import POOL_KEYS
from kvdsl.source import SourceFile, Span
from kvdsl.spec.vocabulary import INPUTS
from kvdsl.syntax.nodes import Assign, Block, Declare, Expr, Name
from kvdsl.units import Quantity

TELLING = ("KV002", "KV005", "KV010", "KV012", "KV017")
"""Faults of a text that say more of a value than that it is none: of its unit, digits or quotes."""

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One override. `path` is `layout`, `layout.tp`, `pools.decode.layout`; `value` is a tree, or
    a text such as `tp16` or `8 ktok`. `at` is where a spec names the path. `given` is what stands
    behind the option `option` of a command line, and ends in the value. `before` is what stands
    before the path there: whose it is, as in `deployments.chat.`"""

    path: str
    value: Expr | str
    at: Span | None = None
    option: str = ""
    given: str = ""
    before: str = ""

    @property
    def whole(self) -> str:
        """The path as it was written."""
        return self.before + self.path

    @property
    def source(self) -> SourceFile:
        """The text that a fault is shown in."""
        if self.option:
            return _file(self.option, self.given)
        return _file(f"<{self.whole}>", f"{self.whole} = {self.value}")


@lru_cache(256)
def _file(name: str, text: str) -> SourceFile:
    """One file a text, so that a fault that several deployments have alike is one."""
    return SourceFile(name, text)


def changed(
    context: Declarations,
    kind: str,
    raw: Raw,
    change: Change,
    scope_of: Callable[[SourceFile], Scope],
) -> Raw | None:
    """The block of a deployment or fleet with the change merged in; None where a diagnostic was
    told."""
    if not _PATH.fullmatch(change.path):
        at = change.at or change.source.span(0, len(change.whole))
        hint = "a path is names with dots between them, such as `layout.tp`"
        _refuse(context, change, at, NoPath("it is no path", (), hint))
        return None
    value = _parsed(context, change) if isinstance(change.value, str) else change.value
    if value is None:
        return None
    scope = context.remembered(value) or scope_of(value.span.file)
    at = _path_span(change, value)
    keys = keys_of(context, kind, raw, change.path.split("."), change.before)
    if isinstance(keys, NoPath):
        _refuse(context, change, at, keys)
        return None
    if not _has_effect(context, raw, change, at):
        return None
    return _written(raw, keys, value, scope, at)


def _path_span(change: Change, value: Expr) -> Span:
    """Where the path stands: in a sweep, before the value of an option, else at the value."""
    if change.at is not None:
        return change.at
    file, path = value.span.file, change.whole
    return file.span(0, len(path)) if file.text.startswith(path) else value.span


def _refuse(context: Declarations, change: Change, span: Span, found: NoPath) -> None:
    """With whole paths to write instead: one of another tool's name, or without the deployment's
    own name before it."""
    near, hint = found.near, found.hint
    if not near and not hint:
        behind = f".{own_name(change.path)}"
        inputs = (name for name in INPUTS if name.endswith(behind))
        later = change.path.partition(".")[2]
        known = later if later.partition(".")[0] in CHANGEABLE else ""
        instead = min(inputs, key=len, default=known)
        hint = f"write `{change.before}{instead}`" if instead else found.has
    context.tell(NoSuchChange(span, change.whole, found.reason, either(near) or None, hint))


def _has_effect(context: Declarations, raw: Raw, change: Change, span: Span) -> bool:
    """Whether some pool takes the attribute from the deployment."""
    first = change.path.split(".")[0]
    pools = {k: e for k, e in raw.entries.items() if k.startswith("pool ")}
    if not pools or first not in POOL_KEYS:
        return True
    if any(not _says_itself(entry, first) for entry in pools.values()):
        return True
    name = next(iter(pools)).removeprefix("pool ")
    example = f"{change.before}pools.{name}.{change.path}"
    context.tell(ChangeWithoutEffect(span, change.whole, first, example))
    return False


def _says_itself(pool: Entry, attribute: str) -> bool:
    """Whether a pool, or one that it inherits, replaces what the deployment says."""
    entry: Entry | None = pool
    while entry is not None and isinstance(entry.value, Body):
        own = entry.value.own.entries.get(attribute)
        if own is not None and not (isinstance(own.value, Body) and own.value.base == "inherit"):
            return True
        entry = entry.value.base if isinstance(entry.value.base, Entry) else None
    return False


def _written(raw: Raw, names: tuple[str, ...], value: Expr, scope: Scope, at: Span) -> Raw:
    """`names[0] { names[1] { … = value } }` over the block. `at` is where the path stands."""
    first, *rest = names
    name = Name(first.rpartition(" ")[2], at)
    below = raw.entries.get(first)
    entry: Entry
    if rest:
        inner = _written(Raw(value.span), tuple(rest), value, scope, at)
        entry = Entry(first, name, Body(inner, "inherit"), scope, value.span)
    else:
        entry = Entry(first, name, value, scope, value.span)
    if below is not None:
        entry = entry.over(below)
    return replace(raw, entries={**raw.entries, first: entry})


def _parsed(context: Declarations, change: Change) -> Expr | None:
    """The expression of a text, read as a line of a deployment and placed in what was given."""
    from kvdsl.syntax.parser import parse

    assert isinstance(change.value, str)
    asked = change.source
    start = len(asked.text) - len(change.value)
    before = f"kvspec 1\ndeployment override {{\n{change.path} = "
    if change.value.isprintable():
        module, found = parse(SourceFile(asked.name, f"{before}{change.value}\n}}\n"))
        match module.statements:
            case (_, Declare(body=Block(statements=(Assign(value=value, source=None),)))) if (
                not found and not isinstance(value, Block)
            ):
                return cast("Expr", _moved(value, asked, start - len(before)))
        told = found and found[0].code in TELLING and found[0].span.start >= len(before)
        if told:
            first = cast("Diagnostic", _moved(found[0], asked, start - len(before)))
            if first.span.end <= len(asked.text):
                context.found.append(first)
                return None
    shown = " ".join(change.value[:60].split())
    reason = f"`{shown}` is no value" if change.value.strip() else "it gets no value"
    hint = "write a value as in a spec, such as `tp16`, `8 ktok` or `formats.fp8`"
    if change.path == "layout" and "=" in change.value:
        hint = "an attribute of the layout is changed by `--set layout.tp=16`"
    span = asked.span(start, len(asked.text))
    context.tell(NoSuchChange(span, change.whole, reason, None, hint))
    return None


def _moved(node: object, file: SourceFile, by: int) -> object:
    """A tree with its places in another text, so many characters further on."""
    if isinstance(node, Span):
        return file.span(node.start + by, node.end + by)
    if isinstance(node, tuple):
        return tuple(_moved(each, file, by) for each in node)
    if not is_dataclass(node) or isinstance(node, type | Quantity):
        return node
    inner = {f.name: _moved(getattr(node, f.name), file, by) for f in fields(node)}
    return replace(node, **inner)
