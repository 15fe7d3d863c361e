"""Overrides from outside: `--layout tp16`, or one point of a sweep.

Comes in: a deployment's raw block and a change. Goes out: the raw block with it, as a child would
write it. Not its job: whether the value fits (building).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from kvdsl.resolve.blocks import PLURAL_KEYS, Body, Entry, Raw
from kvdsl.resolve.combination_messages import ChangeWithoutEffect
from kvdsl.resolve.declarations import Declarations
from kvdsl.resolve.deployments import POOL_KEYS
from kvdsl.resolve.names import Scope
from kvdsl.resolve.naming_messages import NoSuchChange, like
from kvdsl.resolve.schema import schema_of
from kvdsl.source import SourceFile, Span
from kvdsl.spec.deployment import Deployment
from kvdsl.syntax.nodes import Assign, Block, Declare, Expr, Name

CHANGEABLE = (*POOL_KEYS, *(n for n in schema_of(Deployment).names if n != "search"))
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One override. `path` is `layout`, `layout.tp`, `pools.decode.layout`; `value` is a tree, or
    a text such as `tp16` or `8 ktok`."""

    path: str
    value: Expr | str


def changed(
    context: Declarations, raw: Raw, change: Change, scope_of: Callable[[SourceFile], Scope]
) -> Raw | None:
    """The block with the change merged in; None where a diagnostic was told."""
    value = _parsed(context, change) if isinstance(change.value, str) else change.value
    if value is None:
        return None
    scope = context.remembered(value) or scope_of(value.span.file)
    if not _PATH.fullmatch(change.path):
        _refuse(context, change, value.span, "it is no path", None)
        return None
    names = change.path.split(".")
    first = names[0]
    sort = PLURAL_KEYS.get(first)
    if sort == "pool" and len(names) > 2:
        key = f"pool {names[1]}"
        if key not in raw.entries:
            pools = [k.removeprefix("pool ") for k in raw.entries if k.startswith("pool ")]
            near = like(names[1], pools)
            _refuse(context, change, value.span, f"there is no pool `{names[1]}`", near)
            return None
        return _written(raw, (key, *names[2:]), value, scope)
    if first not in CHANGEABLE:
        _refuse(
            context,
            change,
            value.span,
            f"a deployment has no attribute `{first}`",
            like(first, CHANGEABLE),
        )
        return None
    if not _has_effect(context, raw, change, value.span):
        return None
    return _written(raw, tuple(names), value, scope)


def _refuse(
    context: Declarations, change: Change, span: Span, reason: str, near: str | None
) -> None:
    hint = None if near else "write, for example, `layout`, `layout.tp` or `workload.context`"
    context.tell(NoSuchChange(span, change.path, reason, near, hint))


def _has_effect(context: Declarations, raw: Raw, change: Change, span: Span) -> bool:
    """Whether some pool takes the attribute from the deployment."""
    first = change.path.split(".")[0]
    pools = {k: e for k, e in raw.entries.items() if k.startswith("pool ")}
    if not pools or first not in POOL_KEYS:
        return True
    if any(not _says_itself(entry, first) for entry in pools.values()):
        return True
    name = next(iter(pools)).removeprefix("pool ")
    example = f"pools.{name}.{change.path}"
    context.tell(ChangeWithoutEffect(span, change.path, first, example))
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


def _written(raw: Raw, names: tuple[str, ...], value: Expr, scope: Scope) -> Raw:
    """`names[0] { names[1] { … = value } }` over the block."""
    first, *rest = names
    name = Name(first.rpartition(" ")[2], value.span)
    below = raw.entries.get(first)
    entry: Entry
    if rest:
        inner = _written(Raw(value.span), tuple(rest), value, scope)
        entry = Entry(first, name, Body(inner, "inherit"), scope, value.span)
    else:
        entry = Entry(first, name, value, scope, value.span)
    if below is not None:
        entry = entry.over(below)
    return replace(raw, entries={**raw.entries, first: entry})


def _parsed(context: Declarations, change: Change) -> Expr | None:
    """The expression of a flag's text, read as a line of a deployment: errors show that line."""
    from kvdsl.syntax.parser import parse

    assert isinstance(change.value, str)
    line = f"{change.path} = {change.value}"
    if change.value.isprintable() and _PATH.fullmatch(change.path):
        text = f"kvspec 1\ndeployment override {{\n{line}\n}}\n"
        module, found = parse(SourceFile(f"<{change.path}>", text))
        match module.statements:
            case (_, Declare(body=Block(statements=(Assign(value=value, source=None),)))) if (
                not found and not isinstance(value, Block)
            ):
                return value
    asked = SourceFile(f"<{change.path}>", line)
    reason = f"`{change.value[:60]}` is no value"
    hint = "write a value as in a spec, such as `tp16`, `8 ktok` or `formats.fp8`"
    span = asked.span(len(line) - len(change.value), len(line))
    context.tell(NoSuchChange(span, change.path, reason, None, hint))
    return None
