"""Values of attributes: what an expression must be to stand in a slot.

Comes in: an attribute with its slots, and the entry that was written. Goes out: the value in its
python type, or None where a diagnostic was told. Not its job: blocks and references (building).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import assert_never

from kvdsl import units
from kvdsl.resolve.blocks import Body, Choices, Entry, Verbatim
from kvdsl.resolve.combination_messages import ListedTwice
from kvdsl.resolve.context import Context
from kvdsl.resolve.expressions import MOST_COUNT
from kvdsl.resolve.hardware import read_counted, read_selected
from kvdsl.resolve.names import Scope
from kvdsl.resolve.naming_messages import either, like
from kvdsl.resolve.schema import Attribute, make, schema_of
from kvdsl.resolve.value_messages import (
    MissingScope,
    NotWhole,
    OutOfBounds,
    TooLarge,
    UnknownWord,
    WrongDimension,
    WrongType,
    example_of,
    way_to,
)
from kvdsl.resolve.values import Each, Quotation, Reference, Series, Value, described
from kvdsl.source import Span
from kvdsl.spec.deployment import Rate
from kvdsl.spec.library import ANY
from kvdsl.spec.slots import (
    Count,
    Counted,
    Flag,
    Listed,
    Measured,
    Nested,
    PerScope,
    Quoted,
    Ratio,
    Referred,
    Selected,
    Slot,
    Special,
    Table,
    Word,
)
from kvdsl.spec.vocabulary import INPUTS
from kvdsl.syntax.nodes import Expr, Items, Path, Text
from kvdsl.units import Exact, Quantity

_LONG = 40
"""Characters from which on a list is not shown again."""

MOST_MEASURED = 10**30
"""In base units. Powers of a time or a length beyond it are none that a float holds."""


def read_value(context: Context, attribute: Attribute, entry: Entry) -> object | None:
    """The value of an attribute that is written `a = expression`."""
    assert not isinstance(entry.value, Body | Verbatim | Choices)
    slot = attribute.slots[0]
    return read_slot(context, slot, attribute, entry.value, entry.scope)


def read_slot(  # one case a slot
    context: Context, slot: Slot, attribute: Attribute, expr: Expr, scope: Scope
) -> object | None:
    name = attribute.name
    match slot:
        case Word(choices=choices):
            return word(context, expr, name, choices)
        case Nested(words=words) if words:
            return word(context, expr, name, words)
        case Listed():
            return _listed(context, slot, attribute, expr, scope)
        case Counted():
            return read_counted(context, slot.kind, attribute, expr, scope)
        case Selected():
            return read_selected(context, name, expr, scope)
        case Table(bare=True):
            value = read_slot(context, slot.item, attribute, expr, scope)
            return None if value is None else {ANY: value}
        case Nested() | Table():
            way = f"write `{name} {{ {_inside(attribute, expr)} }}`"
            context.tell(WrongType(expr.span, f"`{name}`", "a block", _shown(expr), way))
            return None
        case Measured() | Count() | Ratio() | Flag() | Quoted() | PerScope():
            value = context.evaluate(expr, scope)
            return None if value is None else simple(context, slot, name, value, expr)
        case Referred() | Special():
            return None
        case _:
            assert_never(slot)


def _inside(attribute: Attribute, expr: Expr) -> str:
    """What the block of an attribute holds where a value stands for it: its one needed attribute
    with that value, if it needs one."""
    inner = schema_of(attribute.block).attributes.values() if attribute.block else ()
    needed = [each.name for each in inner if each.required]
    if len(needed) != 1:
        return "…"
    return f"{needed[0]} = {expr.span.text if len(expr.span.text) < 60 else '…'}"


def _shown(expr: Expr) -> str:
    return f"`{expr.span.text}`" if len(expr.span.text) < 60 else "an expression"


def word(context: Context, expr: Expr, name: str, choices: tuple[str, ...]) -> str | None:
    """A bare word, out of choices if there are any."""
    match expr:
        case Path(names=(only,), ranges=()):
            text = only.text
        case Text(value=value) if not choices or value in choices:
            way = f"write `{name} = {value}`" if value.isidentifier() else None
            context.tell(WrongType(expr.span, f"`{name}`", "a bare word", "a text", way))
            return None
        case _:
            wanted = either(choices) if choices else "a bare word"
            context.tell(WrongType(expr.span, f"`{name}`", wanted, _shown(expr)))
            return None
    if not choices or text in choices:
        return text
    near = like(text, choices)
    context.tell(UnknownWord(expr.span, name, text, either(choices), near))
    return None


def simple(
    context: Context,
    slot: Measured | Count | Ratio | Flag | Quoted | PerScope,
    name: str,
    value: Value,
    expr: Expr,
) -> object | None:
    """A single value: a quantity, `true`, a string, so much for each."""
    match slot:
        case Flag():
            if isinstance(value, bool):
                return value
            way = f"write `{name} = true` or `{name} = false`"
            context.tell(WrongType(expr.span, f"`{name}`", "true or false", described(value), way))
        case Quoted(blank=blank):
            if isinstance(value, Quotation):
                if blank or value.text.strip():
                    return value.text
                way = "write some words, or leave it out"
                context.tell(WrongType(expr.span, f"`{name}`", "a text", "an empty one", way))
                return None
            way = 'write it in double quotes, as in `"1.2"`'
            context.tell(WrongType(expr.span, f"`{name}`", "a text", described(value), way))
        case PerScope():
            return _each(context, slot, name, value, expr)
        case Measured() | Count() | Ratio():
            return number(context, slot, name, value, expr.span, expr)
        case _:
            assert_never(slot)
    return None


# --- numbers -----------------------------------------------------------------------------------


def number(
    context: Context,
    slot: Measured | Count | Ratio,
    name: str,
    value: Value,
    span: Span,
    expr: Expr,
) -> Exact | None:
    """A quantity of the slot's dimension, whole where it must be, within its bounds."""
    dimension = slot.dimension if isinstance(slot, Measured) else units.NONE
    if isinstance(value, Each):
        context.tell(
            MissingScope(
                span,
                name,
                f"not given per {value.scope}",
                f"{name} = {example_of(name, dimension)}",
            )
        )
        return None
    if not isinstance(value, Quantity):
        wanted = dimension.noun if dimension != units.NONE else "a number"
        context.tell(
            WrongType(span, f"`{name}`", wanted, described(value), _instead(name, value, span))
        )
        return None
    if value.dimension != dimension:
        way = way_to(name, dimension, value.dimension, expr)
        context.tell(WrongDimension(span, name, _wanted(slot), value.dimension.noun, way))
        return None
    exact = value.value
    assert not isinstance(exact, float)
    if _needs_whole(slot) and not isinstance(exact, int):
        context.tell(NotWhole(span, name, _precise(value)))
        return None
    return _within(context, slot, name, value, span)


def _instead(name: str, value: Value, span: Span) -> str | None:
    if isinstance(value, Quotation):
        return f"write it without quotes: `{value.text}`"
    path = next((path for path in INPUTS if path.endswith(f".{name}")), "")
    if isinstance(value, Series) and path:
        listed = span.text if len(span.text) < _LONG else "[…]"
        return f"one holds; a sweep goes through several: `sweep {{ {path} = {listed} }}`"
    return None


def _wanted(slot: Measured | Count | Ratio) -> str:
    if isinstance(slot, Measured):
        return slot.dimension.noun
    return "a whole number" if isinstance(slot, Count) else "a ratio"


def _precise(value: Quantity) -> str:
    exact = value.value
    if isinstance(exact, Fraction) and exact.denominator < 1_000_000:
        unit = "" if value.dimension == units.NONE else f" {value.unit}"
        text = f"{float(exact):,.12g}" if abs(exact) < 10**12 else str(exact)
        return text + unit
    return str(value)


def _needs_whole(slot: Measured | Count | Ratio) -> bool:
    return isinstance(slot, Count) or (isinstance(slot, Measured) and slot.whole)


def _within(
    context: Context, slot: Measured | Count | Ratio, name: str, value: Quantity, span: Span
) -> Exact | None:
    exact = value.value
    assert not isinstance(exact, float)
    least = Fraction(slot.least)
    above = (
        slot.above
        if isinstance(slot, Ratio)
        else (isinstance(slot, Measured) and not slot.inclusive)
    )
    shown = _precise(value)
    percent = span.text.endswith("%")
    if isinstance(slot, Ratio) and slot.most is not None and (percent or type(exact) is not int):
        shown = ratio_text(exact)
    most = slot.most if isinstance(slot, Ratio) else None
    if exact < least or (above and exact == least):
        bound = _bound(slot, least, "above" if above else "at least")
    elif most is not None and exact > most:
        bound = _bound(slot, most, "at most")
        way = (
            f"write `{name} = {exact} %`, if that is meant"
            if 1 < exact <= 100 and exact == int(exact) and not percent
            else None
        )
        context.tell(OutOfBounds(span, name, bound, shown, way))
        return None
    elif isinstance(slot, Count) and exact > MOST_COUNT:
        context.tell(TooLarge(span, f"{MOST_COUNT:,}, the largest count", None))
        return None
    elif isinstance(slot, Measured) and exact > MOST_MEASURED:
        context.tell(
            TooLarge(span, f"10^30 {slot.dimension.base_unit}, more than any plan has", None)
        )
        return None
    else:
        return exact
    context.tell(OutOfBounds(span, name, bound, shown))
    return None


def _bound(slot: Measured | Count | Ratio, limit: Fraction, word_before: str) -> str:
    if isinstance(slot, Measured):
        return f"{word_before} {units.grouped(units.tidy(limit))} {slot.dimension.base_unit}"
    if isinstance(slot, Ratio) and slot.most is not None:
        return f"{word_before} {ratio_text(limit)}"
    return f"{word_before} {units.grouped(units.tidy(limit))}"


def ratio_text(value: Exact) -> str:
    """A ratio as people write it: `92 %`."""
    return f"{units.grouped(units.tidy(Fraction(value) * 100))} %"


def _each(context: Context, slot: PerScope, name: str, value: Value, expr: Expr) -> Rate | None:
    example = f"{name} = {example_of(name, slot.dimension)} per {slot.scopes[0]}"
    if isinstance(value, Quantity) and value.dimension == slot.dimension:
        example = f"{name} = {expr.span.text} per {slot.scopes[0]}"
        scopes = ", ".join(slot.scopes[:-1]) + f" or {slot.scopes[-1]}"
        context.tell(MissingScope(expr.span, name, f"per {scopes}, and this says none", example))
        return None
    if not isinstance(value, Each):
        wanted = f"{slot.dimension.noun} per device, node, rack or cluster"
        context.tell(
            WrongType(expr.span, f"`{name}`", wanted, described(value), f"write `{example}`")
        )
        return None
    bare = Measured(slot.dimension)
    amount = number(context, bare, name, value.quantity, expr.span, _before_per(expr))
    if amount is None:
        return None
    return make(Rate, expr.span, value=amount, scope=value.scope)


def _before_per(expr: Expr) -> Expr:
    from kvdsl.syntax.nodes import Binary

    return expr.left if isinstance(expr, Binary) and expr.operator == "per" else expr


# --- lists -------------------------------------------------------------------------------------


def _listed(
    context: Context, slot: Listed, attribute: Attribute, expr: Expr, scope: Scope
) -> tuple[object, ...] | None:
    name = attribute.name
    if isinstance(expr, Items):
        every = [_item(context, slot, attribute, item, scope) for item in expr.items]
        if isinstance(slot.item, Word) and not _each_once(context, name, expr, every):
            return None
        return tuple(every) if all(value is not None for value in every) else None
    if isinstance(slot.item, Word) or (
        isinstance(slot.item, Referred) and not isinstance(expr, Path)
    ):
        way = f"write `{name} = [{expr.span.text}]`" if isinstance(expr, Path) else None
        context.tell(WrongType(expr.span, f"`{name}`", "a list", _shown(expr), way))
        return None
    value = context.evaluate(expr, scope)
    if value is None:
        return None
    if isinstance(value, Series):
        read = [_value_item(context, slot, name, item, span, expr) for item, span in value.items]
        return tuple(read) if all(item is not None for item in read) else None
    if slot.single:
        item = _value_item(context, slot, name, value, expr.span, expr)
        return None if item is None else (item,)
    way = f"write `{name} = [{expr.span.text}]`"
    context.tell(WrongType(expr.span, f"`{name}`", "a list", described(value), way))
    return None


def _each_once(context: Context, name: str, expr: Items, words: Sequence[object]) -> bool:
    for index, given in enumerate(words):
        if given is not None and given in words[:index]:
            context.tell(ListedTwice(expr.items[index].span, str(given), f"`{name}`"))
            return False
    return True


def _item(
    context: Context, slot: Listed, attribute: Attribute, expr: Expr, scope: Scope
) -> object | None:
    if isinstance(slot.item, Word):
        return word(context, expr, attribute.name, slot.item.choices)
    value = context.evaluate(expr, scope)
    if value is None:
        return None
    return _value_item(context, slot, attribute.name, value, expr.span, expr)


def _value_item(
    context: Context, slot: Listed, name: str, value: Value, span: Span, expr: Expr
) -> object | None:
    if isinstance(slot.item, Measured | Count):
        return number(context, slot.item, name, value, span, expr)
    if isinstance(slot.item, Referred) and isinstance(value, Reference):
        if value.kind in slot.item.kinds:
            return context.spec(value, span)
        if not value.kind:
            return None
    wanted = slot.item.kinds[0] if isinstance(slot.item, Referred) else "word"
    context.tell(WrongType(span, f"`{name}`", f"a list of {wanted}s", described(value)))
    return None
