"""Sweeps and searches: what to try, and what is best.

Comes in: a block that is replaced whole. Goes out: a `Sweep` or `Search`, or None where a
diagnostic was told. Not its job: whether a value fits its attribute; each is tried as an override
(resolver).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kvdsl.resolve.asked_names import Subject, exists, unanswerable
from kvdsl.resolve.blocks import Entry, Verbatim, path_key, scope_of
from kvdsl.resolve.combination_messages import BadSearch, BadSweep
from kvdsl.resolve.context import Context
from kvdsl.resolve.names import Scope
from kvdsl.resolve.naming_messages import WrittenTwice, like, listed
from kvdsl.resolve.schema import make
from kvdsl.resolve.value_messages import WrongType
from kvdsl.source import Span
from kvdsl.spec.deployment import Axis, Search, Sweep
from kvdsl.spec.slots import Count
from kvdsl.spec.vocabulary import INPUTS
from kvdsl.syntax import nodes
from kvdsl.syntax.nodes import Assign, Expr, Items, Path

MOST_POINTS = 100_000
"""Combinations of one sweep: each is a plan of its own."""

SEARCH_AXES = tuple(name.removeprefix("layout.") for name in INPUTS if name.startswith("layout."))


def read_sweep(context: Context, entry: Entry, subject: Subject) -> Sweep | None:
    """`subject` is what the deployment answers: its pools and tiers."""
    block = _block(context, entry, "sweep", "sweep { layout = [tp8, tp16] }")
    if block is None:
        return None
    scope = scope_of(block, entry.scope, context.found)
    axes: dict[str, Axis] = {}
    asked: Expr | None = None
    sound = True
    for statement in block.statements:
        match statement:
            case nodes.Let():
                continue
            case Assign(path=Path(names=(nodes.Name(text="show"),)), value=value) if not isinstance(
                value, nodes.Block
            ):
                asked = value
            case Assign(path=path, value=value) if not isinstance(value, nodes.Block):
                key = path_key(path)
                if key in axes:
                    context.tell(WrittenTwice(path.span, key))
                    sound = False
                    continue
                axes[key] = _axis(context, key, value, scope, path.span)
            case _:
                way = "write `workload.context = [8 ktok, 32 ktok]`"
                context.tell(BadSweep(statement.span, "a sweep holds lists of values only", way))
                sound = False
    show: tuple[str, ...] | None = ()
    if asked is not None:
        show = _values(context, _swept(subject, axes), scope, "show", asked)
    return _whole_sweep(context, entry, axes, show) if sound and show is not None else None


def _swept(subject: Subject, axes: Iterable[str]) -> Subject:
    """What is asked of the points: an axis over whole tiers may bring others."""
    whole = any(path.split(".")[0] == "tiers" and path.count(".") < 2 for path in axes)
    return replace(subject, tiers=None) if whole else subject


def _whole_sweep(
    context: Context, entry: Entry, axes: dict[str, Axis], show: tuple[str, ...]
) -> Sweep | None:
    if not axes and not context.lenient:
        way = "write what to go through, as in `layout = [tp8, tp16]`"
        context.tell(BadSweep(entry.span, "this sweep goes through nothing", way))
        return None
    empty = next((axis for axis in axes.values() if not axis.values), None)
    if empty is not None:
        reason = f"`{empty.path}` has no values to go through"
        context.tell(BadSweep(empty.at or entry.span, reason, "write some, or leave it out"))
        return None
    points = 1
    for axis in axes.values():
        points *= len(axis.values)
    if points > MOST_POINTS:
        reason = f"this sweep has {points:,} combinations; {MOST_POINTS:,} are the most"
        context.tell(BadSweep(entry.span, reason, "leave out values, or split it by name"))
        return None
    name = entry.key.removeprefix("sweep").strip()
    return make(Sweep, entry.span, name=name, axes=tuple(axes.values()), show=show)


def _axis(context: Context, key: str, value: Expr, scope: Scope, span: Span) -> Axis:
    values = value.items if isinstance(value, Items) else (value,)
    for item in values:
        context.remember(item, scope)
    return make(Axis, span, path=key, values=values)


def _block(context: Context, entry: Entry, name: str, example: str) -> nodes.Block | None:
    if isinstance(entry.value, Verbatim):
        return entry.value.node
    context.tell(WrongType(entry.span, f"`{name}`", "a block", "a value", f"write `{example}`"))
    return None


def _paths(expr: Expr) -> tuple[Path, ...] | None:
    """The paths of a list, or the one that stands without brackets."""
    items = expr.items if isinstance(expr, Items) else (expr,)
    paths = tuple(item for item in items if isinstance(item, Path) and not item.ranges)
    return paths if len(paths) == len(items) else None


def _values(
    context: Context, subject: Subject, scope: Scope, name: str, expr: Expr
) -> tuple[str, ...] | None:
    """Names of the vocabulary, as `show`, `minimize` and `maximize` take them."""
    paths = _paths(expr)
    if paths is None:
        way = (
            f"write `{name} = [kv.tokens, decode.tpot]`"
            if name == "show"
            else (f"write `{name} = decode.tpot`")
        )
        given = "something else"
        context.tell(WrongType(expr.span, f"`{name}`", "values that a plan answers", given, way))
        return None
    sound = True
    for path in paths:
        if subject.asked(path.dotted) is None:
            unanswerable(context, subject, scope, path)
            sound = False
        else:
            sound &= exists(context, subject, path)
    return tuple(path.dotted for path in paths) if sound else None


# --- search ------------------------------------------------------------------------------------


def read_search(context: Context, entry: Entry, subject: Subject) -> Search | None:
    block = _block(context, entry, "search", "search { axes = [tp]; minimize = gpus }")
    if block is None:
        return None
    scope = scope_of(block, entry.scope, context.found)
    values: dict[str, object] = {}
    sound = True
    for statement in block.statements:
        match statement:
            case nodes.Let():
                continue
            case Assign(path=path, value=value) if not isinstance(value, nodes.Block):
                key = path_key(path)
                if key in values:
                    context.tell(WrittenTwice(path.span, key))
                    sound = False
                    continue
                values[key] = _search_value(context, subject, key, value, scope, path.span)
                sound &= values[key] is not None
            case _:
                way = "it has `axes`, `devices`, and `minimize` or `maximize`"
                context.tell(BadSearch(statement.span, "this cannot stand in a search", way))
                sound = False
    goals = {"minimize", "maximize"} & set(values)
    complete = context.lenient  # what is abstract may leave either out
    if sound and not complete and not values.get("axes"):
        way = "write `axes = [tp, attention.dp]`"
        context.tell(BadSearch(entry.span, "this search has nothing to try", way))
        sound = False
    if sound and not complete and len(goals) != 1:
        reason = "a search says one of `minimize` and `maximize`"
        context.tell(BadSearch(entry.span, reason, "write `minimize = cost.per_hour`"))
        sound = False
    return make(Search, entry.span, **values) if sound else None


def _search_value(
    context: Context, subject: Subject, key: str, value: Expr, scope: Scope, span: Span
) -> object | None:
    match key:
        case "axes":
            return _axes(context, value)
        case "devices":
            from kvdsl.resolve.attributes import simple

            found = context.evaluate(value, scope)
            return None if found is None else simple(context, Count(1), key, found, value)
        case "minimize" | "maximize":
            names = _values(context, subject, scope, key, value)
            if names is not None and len(names) != 1:
                way = f"write `{key} = {names[0]}`" if names else None
                context.tell(BadSearch(value.span, "a search has one aim", way))
                return None
            return names[0] if names else None
        case _:
            known = ("axes", "devices", "minimize", "maximize")
            reason = f"a search has no attribute `{key}`"
            context.tell(BadSearch(span, reason, f"it has {listed(known)}", like(key, known)))
            return None


def _axes(context: Context, expr: Expr) -> tuple[str, ...] | None:
    paths = _paths(expr)
    if paths is None:
        way = "write `axes = [tp, attention.dp]`"
        context.tell(BadSearch(expr.span, "axes are attributes of a layout", way))
        return None
    sound = True
    for path in paths:
        if path.dotted not in SEARCH_AXES:
            reason = f"a layout has no axis `{path.dotted}`"
            near = like(path.dotted, SEARCH_AXES)
            example = "write, for example, `axes = [tp, pp, attention.dp]`"
            context.tell(BadSearch(path.span, reason, None if near else example, near))
            sound = False
    return tuple(dict.fromkeys(path.dotted for path in paths)) if sound else None
