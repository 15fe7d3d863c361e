"""Expressions: exact arithmetic on quantities, lists, so many of one, for each of one.

Comes in: the tree of an expression and its scope. Goes out: a value, or None where a diagnostic was
told. Not its job: conditions, which stay expressions (conditions), and names (lookup).

A chain such as `a + b + c` leans to the left in the tree; it is walked in a loop, so only brackets
cost depth.
"""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from kvdsl import units
from kvdsl.resolve.context import EXPRESSION, Context
from kvdsl.resolve.lookup import look_up
from kvdsl.resolve.names import FUNCTIONS, Scope
from kvdsl.resolve.naming_messages import UnknownName, like
from kvdsl.resolve.value_messages import (
    BadCall,
    DivisionByZero,
    MixedDimensions,
    NoCondition,
    TooLarge,
    WrongType,
)
from kvdsl.resolve.values import (
    Each,
    Many,
    Picked,
    Quotation,
    Reference,
    Series,
    Value,
    described,
)
from kvdsl.source import Span
from kvdsl.syntax import nodes
from kvdsl.syntax.nodes import Binary, Call, Expr, Items, Unary, Within
from kvdsl.units import Quantity, counted, tidy

MOST_BITS = 2_000
"""No figure of a plan has 600 digits; one that does comes of a mistake and would only be slow."""

MOST_COUNT = 10**12
ARITHMETIC = frozenset({"+", "-", "*", "/"})
SCOPES = ("device", "node", "rack", "cluster")
SCOPE_NAMES = {
    **{scope: scope for scope in SCOPES},
    **dict.fromkeys(("gpu", "gpus", "GPU", "GPUs", "card", "accelerator", "devices"), "device"),
    **dict.fromkeys(("host", "server", "machine", "box", "nodes"), "node"),
}
"""What people call those for each of which something is."""

MADE_OF = frozenset({"device", "node", "rack", "cluster", "link", "tier"})


def evaluate(context: Context, expr: Expr, scope: Scope) -> Value | None:
    """The value of an expression."""
    if not context.deeper(EXPRESSION, expr.span):
        return None
    try:
        return _evaluated(context, expr, scope)
    finally:
        context.shallower(EXPRESSION)


def _evaluated(context: Context, expr: Expr, scope: Scope) -> Value | None:
    match expr:
        case nodes.Number() | nodes.Measure() | nodes.Text() | nodes.Truth():
            return _literal(context, expr)
        case nodes.Path():
            return look_up(context, expr, scope)
        case nodes.Name(span=span):
            return look_up(context, nodes.Path((expr,), (), span), scope)
        case Items():
            return _series(context, expr, scope)
        case Call():
            return _called(context, expr, scope)
        case Unary() | Binary() | Within():
            return _operation(context, expr, scope)
        case _:
            assert_never(expr)


def _literal(
    context: Context, expr: nodes.Number | nodes.Measure | nodes.Text | nodes.Truth
) -> Value | None:
    match expr:
        case nodes.Number(value=value, span=span):
            return bounded(context, Quantity(tidy(value)), span)
        case nodes.Measure(quantity=quantity, span=span):
            return bounded(context, quantity, span)
        case nodes.Text(value=text):
            return Quotation(text)
        case nodes.Truth(value=truth):
            return truth
        case _:
            assert_never(expr)


def _operation(context: Context, expr: Unary | Binary | Within, scope: Scope) -> Value | None:
    match expr:
        case Unary(operator="-"):
            return _negative(context, expr, scope)
        case Binary(operator="x"):
            return _many(context, expr, scope)
        case Binary(operator="per"):
            return _each(context, expr, scope)
        case Binary(operator=operator) if operator in ARITHMETIC:
            return _chain(context, expr, scope)
        case _:
            way = "conditions stand behind `require`, `expect` and `when`"
            context.tell(NoCondition(expr.span, "this is a condition, and a value is wanted", way))
            return None


def bounded(context: Context, quantity: Quantity, span: Span) -> Quantity | None:
    """The quantity, unless it has more digits than any plan needs."""
    value = quantity.value
    assert not isinstance(value, float)
    sizes = (value.numerator.bit_length(), value.denominator.bit_length())
    if max(sizes) <= MOST_BITS:
        return quantity
    context.tell(TooLarge(span, "any figure of a plan can be"))
    return None


def quantity(context: Context, expr: Expr, scope: Scope, place: str) -> Quantity | None:
    """The value of an expression that must be a quantity."""
    value = evaluate(context, expr, scope)
    if value is None or isinstance(value, Quantity):
        return value
    context.tell(WrongType(expr.span, place, "a number or quantity", described(value)))
    return None


# --- arithmetic --------------------------------------------------------------------------------


def _chain(context: Context, expr: Binary, scope: Scope) -> Quantity | None:
    links: list[Binary] = []
    first: Expr = expr
    while isinstance(first, Binary) and first.operator in ARITHMETIC:
        links.append(first)
        first = first.left
    if links[-1].left is first and _meant_times(context, links[-1], scope):
        return None
    total = quantity(context, first, scope, f"`{links[-1].operator}`")
    for link in reversed(links):
        if _spaced_rate(context, link, scope):
            total = None
            continue
        right = quantity(context, link.right, scope, f"`{link.operator}`")
        if total is None or right is None:
            total = None  # the rest is still looked at: it may hold another fault
            continue
        total = combined(context, link, total, right)
    return total


def _meant_times(context: Context, link: Binary, scope: Scope) -> bool:
    """Whether this is `2 * nodes.hgx_h100`, where `x` says how many, and told so."""
    sides = (link.left, link.right)
    numbers = [side for side in sides if isinstance(side, nodes.Number)]
    paths = [side for side in sides if isinstance(side, nodes.Path)]
    if link.operator != "*" or len(numbers) != 1 or len(paths) != 1:
        return False
    of = look_up(context, paths[0], scope)
    if isinstance(of, Reference) and of.kind in MADE_OF:
        way = f"write `{numbers[0].span.text} x {paths[0].span.text}`"
        place = paths[0].span
        context.tell(WrongType(place, "`*`", "a number or quantity", described(of), way))
    return not isinstance(of, Quantity)


def _spaced_rate(context: Context, link: Binary, scope: Scope) -> bool:
    """Whether this is `900 GB / s`: a rate with spaces in its unit, or `3 GB/device`, and told."""
    match link:
        case Binary(operator="/", left=nodes.Measure(), right=nodes.Path(names=(name,))) if (
            level := SCOPE_NAMES.get(name.text)
        ) and scope.find(name.text) is None:
            way = f"so much for each is written `{link.left.span.text} per {level}`"
            context.tell(UnknownName(name.span, "name", name.text, None, way))
            return True
        case Binary(operator="/", left=nodes.Measure() as left, right=nodes.Path(names=(name,))):
            unit = f"{left.unit}/{name.text}"
            if units.unit(unit) is None or scope.find(name.text) is not None:
                return False
            way = f"write `{left.number} {unit}`: a rate has no space in its unit"
            context.tell(UnknownName(name.span, "name", name.text, None, way))
            return True
        case _:
            return False


def combined(context: Context, node: Binary, left: Quantity, right: Quantity) -> Quantity | None:
    """`+ - * /` on two quantities."""
    a, b = left.value, right.value
    assert not isinstance(a, float)
    assert not isinstance(b, float)
    if node.operator in "+-":
        if left.dimension != right.dimension:
            mixed(context, node, left, right)
            return None
        result = Quantity(tidy(a + b if node.operator == "+" else a - b), left.dimension)
    elif node.operator == "*":
        result = Quantity(tidy(a * b), left.dimension * right.dimension)
    elif b == 0:
        context.tell(DivisionByZero(node.span, node.right.span.text, str(right)))
        return None
    else:
        result = Quantity(tidy(Fraction(a) / b), left.dimension / right.dimension)
    return bounded(context, result, node.span)


def mixed(context: Context, node: Binary, left: Quantity, right: Quantity) -> None:
    way = None
    for side, other in ((left, right), (right, left)):
        if side.dimension == units.NONE and other.dimension in units.EXAMPLES:
            unit = units.EXAMPLES[other.dimension].split(" ", 1)[1]
            way = f"give the plain number a unit, such as `{unit}`"
    nouns = (left.dimension.noun, right.dimension.noun)
    context.tell(MixedDimensions(node.span, node.operator, *nouns, way))


def _negative(context: Context, expr: Unary, scope: Scope) -> Quantity | None:
    inner: Expr = expr
    sign = 1
    while isinstance(inner, Unary) and inner.operator == "-":
        sign, inner = -sign, inner.operand
    value = quantity(context, inner, scope, "`-`")
    if value is None:
        return None
    assert not isinstance(value.value, float)
    return Quantity(sign * value.value, value.dimension)


# --- functions ---------------------------------------------------------------------------------


def _called(context: Context, expr: Call, scope: Scope) -> Quantity | None:
    name = expr.function.text
    if name not in FUNCTIONS:
        near = like(name, FUNCTIONS)
        way = None if near else "functions are `min`, `max`, `sum`, `ceil` and `floor`"
        context.tell(BadCall(expr.function.span, f"there is no function `{name}`", near, way))
        return None
    arguments = _arguments(context, expr, scope)
    if arguments is None:
        return None
    values = [value for value, _ in arguments]
    if any(value.dimension != values[0].dimension for value in values):
        nouns = (
            values[0].dimension,
            next(v.dimension for v in values if v.dimension != values[0].dimension),
        )
        context.tell(MixedDimensions(expr.span, name, *(n.noun for n in nouns)))
        return None
    return _function(context, expr, name, values)


def _arguments(context: Context, expr: Call, scope: Scope) -> list[tuple[Quantity, Span]] | None:
    """The quantities that a function works on; a single list stands for its items."""
    name = expr.function.text
    found: list[tuple[Quantity, Span]] = []
    sound = True
    for argument in expr.arguments:
        value = evaluate(context, argument, scope)
        items = value.items if isinstance(value, Series) else ((value, argument.span),)
        for item, span in items:
            if isinstance(item, Quantity):
                found.append((item, span))
                continue
            sound = False
            if item is not None:
                context.tell(WrongType(span, f"`{name}`", "numbers or quantities", described(item)))
    if not sound:
        return None
    wanted = {"ceil": (2, 2), "floor": (2, 2)}.get(name, (1, None))
    if len(found) < wanted[0] or (wanted[1] and len(found) > wanted[1]):
        example = "(a, step)" if wanted[1] else "([a, b])" if name == "sum" else "(a, b)"
        context.tell(
            BadCall(
                expr.span,
                f"`{name}` cannot work on {counted(len(found), 'values')}",
                None,
                f"write `{name}{example}`",
            )
        )
        return None
    return found


def _function(
    context: Context, expr: Call, name: str, arguments: list[Quantity]
) -> Quantity | None:
    numbers = [Fraction(a.value) for a in arguments]
    dimension = arguments[0].dimension
    if name in ("ceil", "floor"):
        value, step = numbers
        if step <= 0:
            context.tell(BadCall(expr.span, f"the step of `{name}` must be above zero"))
            return None
        steps = value / step
        whole = (
            -((-steps.numerator) // steps.denominator)
            if name == "ceil"
            else (steps.numerator // steps.denominator)
        )
        result = step * whole
    elif name == "sum":
        result = sum(numbers, Fraction(0))
    else:
        result = min(numbers) if name == "min" else max(numbers)
    return bounded(context, Quantity(tidy(result), dimension), expr.span)


# --- lists, `x`, `per` -------------------------------------------------------------------------


def _series(context: Context, expr: Items, scope: Scope) -> Series | None:
    items = []
    for item in expr.items:
        value = evaluate(context, item, scope)
        if value is not None:
            items.append((value, item.span))
    return Series(tuple(items)) if len(items) == len(expr.items) else None


def _many(context: Context, expr: Binary, scope: Scope) -> Many | None:
    count = quantity(context, expr.left, scope, "`x`")
    of = evaluate(context, expr.right, scope)
    if count is None or of is None:
        return None
    number = whole_count(context, count, expr.left.span)
    if number is None:
        return None
    if not isinstance(of, Reference) or of.kind not in MADE_OF:
        wanted = "hardware or a tier behind it"
        way = f"write `{expr.right.span.text}` alone" if isinstance(of, Picked) else None
        context.tell(WrongType(expr.right.span, "`x`", wanted, described(of), way))
        return None
    return Many(number, of)


def whole_count(context: Context, count: Quantity, span: Span) -> int | None:
    """So many: a whole number from 1 to 10^12."""
    if count.dimension != units.NONE or not isinstance(count.value, int):
        context.tell(WrongType(span, "`x`", "a whole number before it", _shown(count)))
        return None
    if count.value < 1:
        context.tell(WrongType(span, "`x`", "at least 1 before it", str(count)))
        return None
    if count.value > MOST_COUNT:
        context.tell(TooLarge(span, f"{MOST_COUNT:,}, the largest count", None))
        return None
    return count.value


def _shown(value: Quantity) -> str:
    return str(value) if value.dimension == units.NONE else value.dimension.noun


def _each(context: Context, expr: Binary, scope: Scope) -> Each | None:
    amount = quantity(context, expr.left, scope, "`per`")
    match expr.right:
        case nodes.Path(names=(nodes.Name(text=word),), ranges=()) if word in SCOPES:
            return None if amount is None else Each(amount, word)
        case _:
            word = expr.right.span.text
            way = f"write `per {SCOPE_NAMES[word]}`" if word in SCOPE_NAMES else None
            if word in units.UNITS and isinstance(expr.left, nodes.Measure):
                way = f"write `{expr.left.span.text}/{word}`, and `per device` behind it"
            wanted = "`device`, `node`, `rack` or `cluster` behind it"
            context.tell(WrongType(expr.right.span, "`per`", wanted, f"`{word}`", way))
            return None
