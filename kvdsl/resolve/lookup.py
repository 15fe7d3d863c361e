"""Names in values: what a path leads to, through imports, the catalog and attributes.

Comes in: a path and its scope. Goes out: a value, or None where a diagnostic was told. Not its job:
the vocabulary of a plan, which conditions look up first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import assert_never

from kvdsl import units
from kvdsl.project.catalog import PLURALS
from kvdsl.resolve.context import Context
from kvdsl.resolve.names import Bound, Declared, Named, Scope, Stem
from kvdsl.resolve.naming_messages import UnknownName, either, like
from kvdsl.resolve.schema import Attribute, kind_of, schema_of
from kvdsl.resolve.suggestions import concrete, grown, suggested
from kvdsl.resolve.value_messages import BadSelection, NoValue, WrongType
from kvdsl.resolve.values import Picked, Quotation, Reference, Series, Value, described
from kvdsl.source import Span
from kvdsl.spec.declaration import Block, Declaration
from kvdsl.spec.slots import Count, Flag, Listed, Measured, Quoted, Ratio
from kvdsl.spelling import nearest
from kvdsl.syntax.nodes import Name, Path
from kvdsl.units import Dimension, Quantity

LEVELS = ("devices", "nodes", "racks", "clusters")

_LEVEL_NAMES = {
    **dict.fromkeys(("node", "host", "hosts", "servers", "machines", "trays", ""), "nodes"),
    "rack": "racks",
}
"""What people call the levels of hardware; anything else are its devices."""

MOST_NAMES = 8
"""Names of the catalog that are told where none is near."""


def look_up(context: Context, path: Path, scope: Scope) -> Value | None:
    """The value that a path stands for."""
    found = find(context, path, scope)
    if found is None:
        return None
    named, rest = found
    match named:
        case Declared():
            value: Value | None = Reference(named.kind, named.title, named)
        case Bound():
            value = context.bound(named, path.span)
        case _:
            assert_never(named)
    return None if value is None else _further(context, value, rest, path)


def find(
    context: Context, path: Path, scope: Scope
) -> tuple[Declared | Bound, Sequence[Name]] | None:
    """The declaration or `let` that a path begins with, and the names behind it."""
    first, *rest = path.names
    named: Named | None = scope.find(first.text)
    if isinstance(named, Stem):
        return _in_import(context, named, rest, path)
    if named is not None:
        return named, rest
    if first.text in PLURALS:
        return _in_catalog(context, first, rest, path)
    plural = next((p for p, kind in PLURALS.items() if kind == first.text), "")
    if rest and plural and not path.ranges:
        way = f"write `{plural}.{rest[0].text}`"
        context.tell(UnknownName(first.span, "name", first.text, None, way))
        return None
    if not _told(context, first.span):
        span = grown(path.span)
        span = span if span.end > path.span.end else first.span
        context.tell(UnknownName(span, "name", span.text, *suggested(context, scope, span.text)))
    return None


def _told(context: Context, span: Span) -> bool:
    """Whether a name lies in one that has just been told as unknown, `b` in `a-b/c`."""
    last = context.found[-1].span if context.found else span
    return last.file is span.file and last.start < span.start and span.end <= last.end


def _in_import(
    context: Context, stem: Stem, rest: Sequence[Name], path: Path
) -> tuple[Declared | Bound, Sequence[Name]] | None:
    file = stem.imported.file
    if file is None:
        return None
    if not rest:
        inside = context.names(file).scope.names.items()
        some = [
            f"{stem.name}.{name}"
            for name, n in inside
            if isinstance(n, Declared) and (not context.wanted or n.kind in context.wanted)
        ]
        way = f"a name in it is written `{stem.name}.NAME`"
        way = f"write {either(some[:MOST_NAMES])}" if some else way
        given = f"the import `{stem.name}` itself"
        context.tell(WrongType(path.span, "a value", "a name in a file", given, way))
        return None
    names = context.names(file).scope.names
    named = names.get(rest[0].text)
    if isinstance(named, Declared | Bound):
        return named, rest[1:]
    hint = None
    if isinstance(named, Stem):
        hint = "imports are not passed on: import that file here too"
    known = [name for name, n in names.items() if not isinstance(n, Stem)]
    near = like(rest[0].text, known)
    where = f"name in `{file.source.name}` called"
    context.tell(UnknownName(rest[0].span, where, rest[0].text, near, hint))
    return None


def _in_catalog(
    context: Context, plural: Name, rest: Sequence[Name], path: Path
) -> tuple[Declared, Sequence[Name]] | None:
    if not rest:
        way = f"one of them is written `{plural.text}.NAME`"
        wanted = f"one of the catalog's {plural.text}"
        context.tell(WrongType(path.span, "a value", wanted, f"`{plural.text}` itself", way))
        return None
    declared = in_catalog(context, plural.text, rest[0].text)
    if declared is not None:
        return declared, rest[1:]
    names = context.catalog.names(plural.text)
    if rest[0].text not in names:
        span = grown(rest[0].span)
        near = either(concrete(context, plural.text, nearest(span.text, names))) or None
        kind = PLURALS[plural.text]
        some = ", ".join(names[:MOST_NAMES])
        hint = None if near else f"there are {some}" if names else f"it has no {plural.text} yet"
        what = f"{kind} in the catalog called"
        context.tell(UnknownName(span, what, span.text, near, hint))
    return None


def in_catalog(context: Context, plural: str, name: str) -> Declared | None:
    """A catalog declaration; None if there is none of that name, or its file is broken."""
    file = context.catalog.file(plural, name)
    if file is None:
        return None
    names = context.names(file, plural)
    named = names.scope.names.get(name)
    return named if isinstance(named, Declared) else None


# --- what stands behind a declaration's name ---------------------------------------------------


def _further(context: Context, value: Value, rest: Sequence[Name], path: Path) -> Value | None:
    if path.ranges:
        return _picked(context, value, rest, path)
    if not rest:
        return value
    if not isinstance(value, Reference):
        given = described(value)
        context.tell(NoValue(rest[0].span, given, f"has no attribute `{rest[0].text}`"))
        return None
    spec = context.spec(value, path.span)
    return None if spec is None else _attribute(context, spec, f"`{value.title}`", rest)


def _attribute(context: Context, spec: Block, owner: str, rest: Sequence[Name]) -> Value | None:
    """The value of `memory`, `scale_up.link.bandwidth` and the like, defaults included."""
    for index, name in enumerate(rest):
        schema = schema_of(type(spec))
        attribute = schema.attributes.get(name.text)
        value = vars(spec).get(name.text) if attribute else None
        if attribute is None or attribute.special:
            near = like(name.text, schema.names)
            context.tell(NoValue(name.span, owner, f"has no value `{name.text}`", near))
            return None
        if value is None:
            context.tell(NoValue(name.span, owner, f"does not say `{name.text}`"))
            return None
        last = index == len(rest) - 1
        if isinstance(value, Block) and not last:
            spec, owner = value, f"{owner}'s `{name.text}`"
            continue
        if last and (result := _read_back(attribute, value, name.span)) is not None:
            return result
        hint = None
        if last and name.text in LEVELS:
            hint = f"{owner} names all of them; `[0..1]` behind `{name.text}` chooses some"
        what = f"{owner}'s `{name.text}`"
        context.tell(NoValue(name.span, what, "cannot stand in a value", hint=hint))
        return None
    return None


def _read_back(attribute: Attribute, value: object, at: Span) -> Value | None:
    """An attribute's value as an expression would have it."""
    if isinstance(value, Declaration):
        return Reference(kind_of(type(value)), value.title, None, value)
    for slot in attribute.slots:
        match slot:
            case Measured(dimension=dimension) if not isinstance(value, Block):
                return _quantity(value, dimension)
            case Count() | Ratio():
                return _quantity(value, units.NONE)
            case Flag():
                return value if isinstance(value, bool) else None
            case Quoted():
                return Quotation(value) if isinstance(value, str) else None
            case Listed(item=Measured() | Count() as item) if isinstance(value, tuple):
                dimension = item.dimension if isinstance(item, Measured) else units.NONE
                return _series(value, dimension, at)
            case _:
                pass
    return None


def _quantity(value: object, dimension: Dimension) -> Quantity | None:
    return Quantity(value, dimension) if isinstance(value, int | Fraction) else None


def _series(values: tuple[object, ...], dimension: Dimension, at: Span) -> Series:
    items = [_quantity(value, dimension) for value in values]
    return Series(tuple((item, at) for item in items if item is not None))


def _picked(context: Context, value: Value, rest: Sequence[Name], path: Path) -> Value | None:
    """`pod.nodes[0..1]`: the runs, in order and apart; whether there are so many comes later."""
    if not isinstance(value, Reference) or len(rest) != 1 or rest[0].text not in LEVELS:
        way = "write `pod.nodes[0..1]`: counted from 0, both ends included"
        if isinstance(value, Reference) and value.kind in ("cluster", "rack", "node"):
            level = _LEVEL_NAMES.get(rest[0].text if rest else "", "devices")
            picks = path.span.text[path.span.text.index("[") :]
            way = f"write `{value.title}.{level}{picks}`: counted from 0, both ends included"
        reason = "`[…]` picks devices, nodes, racks or clusters of one piece of hardware"
        context.tell(BadSelection(path.span, reason, way))
        return None
    if value.kind not in ("cluster", "rack", "node"):
        context.tell(WrongType(path.span, "`[…]`", "a cluster, rack or node", described(value)))
        return None
    runs = tuple((r.first, r.last) for r in path.ranges)
    for span, (first, last) in zip((r.span for r in path.ranges), runs, strict=True):
        if first > last:
            context.tell(
                BadSelection(span, f"{first}..{last} runs backwards", f"write `{last}..{first}`")
            )
            return None
    if not _apart(context, path, runs):
        return None
    return Picked(value, rest[0].text, runs)


def _apart(context: Context, path: Path, runs: tuple[tuple[int, int], ...]) -> bool:
    order = sorted(range(len(runs)), key=lambda index: runs[index])
    for before, after in itertools.pairwise(order):
        if runs[after][0] <= runs[before][1]:
            span: Span = path.ranges[after].span
            head, each = path.span.text.partition("[")[0], _merged(runs)
            way = f"write `{head}[{each}]`" if len(each) < 60 else None
            context.tell(BadSelection(span, f"{runs[after][0]} is picked twice", way))
            return False
    return True


def _merged(runs: tuple[tuple[int, int], ...]) -> str:
    """The same units, each once and in order."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in merged)
