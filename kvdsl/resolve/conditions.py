"""Requirements: conditions on what a plan answers, checked for sense before there is a plan.

Comes in: a `require` or `expect` with the scope of its names. Goes out: a `Requirement` that keeps
its expressions, with every name outside the vocabulary computed in `constants`. Not its job:
whether a plan meets it (requirements).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kvdsl import units
from kvdsl.project.catalog import PLURALS
from kvdsl.resolve.asked_names import Subject, exists, unanswerable
from kvdsl.resolve.blocks import Kept
from kvdsl.resolve.context import EXPRESSION, Context
from kvdsl.resolve.expressions import ARITHMETIC, combined
from kvdsl.resolve.names import FUNCTIONS, Scope
from kvdsl.resolve.schema import make
from kvdsl.resolve.value_messages import (
    BadCall,
    ExactTime,
    MixedDimensions,
    NoCondition,
    OutOfBounds,
    WrongType,
)
from kvdsl.resolve.values import described
from kvdsl.source import Span
from kvdsl.spec.deployment import Requirement
from kvdsl.syntax import nodes
from kvdsl.syntax.nodes import Binary, Call, Expr, Items, Path, Require, Unary, Within
from kvdsl.units import Dimension, Quantity, counted

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
ROUNDED = frozenset(
    {
        units.TIME,
        units.BYTE_RATE,
        units.WORK_RATE,
        units.TOKEN_RATE,
        units.REQUEST_RATE,
        units.MONEY_RATE,
        units.MONEY_PER_TOKEN,
    }
)
"""Dimensions of what is computed in floats and rounded."""

Known = Quantity | Dimension
"""A constant, or the dimension of what only a plan knows."""


def read_requirement(
    context: Context, kept: Kept[Require], subject: Subject, at: Span
) -> Requirement | None:
    """`at` is the heading of the declaration that it is judged for."""
    node = kept.node
    reading = _Reading(context, kept.scope, subject)
    sound = _condition(reading, node.condition)
    if node.when is not None:
        sound &= _condition(reading, node.when)
    if not sound:
        return None
    return make(
        Requirement,
        node.span,
        keyword=node.keyword.text,
        condition=node.condition,
        when=node.when,
        label=node.label.text if node.label else None,
        because=node.because.value if node.because else None,
        constants=reading.constants,
        inherited=kept.at != at,
        span=node.span,
    )


@dataclass(slots=True)
class _Reading:
    context: Context
    scope: Scope
    subject: Subject
    constants: dict[str, Quantity] = field(default_factory=dict)


# --- truths ------------------------------------------------------------------------------------


def _condition(reading: _Reading, expr: Expr) -> bool:
    """Whether an expression is a condition that makes sense; says so if not."""
    if not reading.context.deeper(EXPRESSION, expr.span):
        return False
    sound = _truth(reading, expr)
    reading.context.shallower(EXPRESSION)
    return sound


def _truth(reading: _Reading, expr: Expr) -> bool:
    match expr:
        case Binary(operator="and" | "or"):
            return _all_conditions(reading, expr)
        case Unary(operator="not"):
            inner: Expr = expr
            while isinstance(inner, Unary) and inner.operator == "not":
                inner = inner.operand
            return _condition(reading, inner)
        case Binary(operator=operator) if operator in COMPARISONS:
            return _comparison(reading, expr)
        case Within():
            return _within(reading, expr)
        case nodes.Truth():
            return True
        case _:
            known = _measure(reading, expr)
            if known is not None:
                noun = known.dimension.noun if isinstance(known, Quantity) else known.noun
                way = (
                    f"compare it, as in `{expr.span.text} <= …`"
                    if len(expr.span.text) < 60
                    else None
                )
                reason = f"a condition is wanted, and this is {noun}"
                reading.context.tell(NoCondition(expr.span, reason, way))
            return False


def _all_conditions(reading: _Reading, expr: Binary) -> bool:
    """`a and b or c` leans to the left: walked in a loop."""
    sound = True
    first: Expr = expr
    while isinstance(first, Binary) and first.operator in ("and", "or"):
        sound = _condition(reading, first.right) and sound
        first = first.left
    return _condition(reading, first) and sound


def _comparison(reading: _Reading, expr: Binary) -> bool:
    left, right = _measure(reading, expr.left), _measure(reading, expr.right)
    if left is None or right is None:
        return False
    dimension = _dimension(left)
    if dimension != _dimension(right):
        _mixed(reading, expr, left, right)
        return False
    if expr.operator in ("==", "!=") and dimension in ROUNDED:
        sides = (expr.left.span.text, expr.right.span.text)
        reading.context.tell(ExactTime(expr.span, dimension.noun, expr.operator, *sides))
        return False
    return True


def _mixed(reading: _Reading, expr: Binary, left: Known, right: Known) -> None:
    """`kv.tokens >= 4 GB`: bytes are no tokens, and a plain number needs the unit."""
    way = None
    for side, other, written in ((right, left, expr.right), (left, right, expr.left)):
        wanted = _dimension(other)
        if isinstance(side, Quantity) and wanted in units.EXAMPLES:
            unit = units.EXAMPLES[wanted].split(" ", 1)[1]
            if side.dimension == units.NONE and isinstance(written, nodes.Number):
                way = f"write `{written.span.text} {unit}`, or another unit of {wanted.noun}"
            else:
                name = "tokens" if wanted == units.TOKENS else wanted.noun
                way = f"compare it with {name}, as in `{units.EXAMPLES[wanted]}`"
            break
    nouns = (_dimension(left).noun, _dimension(right).noun)
    reading.context.tell(MixedDimensions(expr.span, expr.operator, *nouns, way))


def _within(reading: _Reading, expr: Within) -> bool:
    value, target = _measure(reading, expr.value), _measure(reading, expr.target)
    tolerance = _measure(reading, expr.tolerance)
    if value is None or target is None or tolerance is None:
        return False
    if _dimension(tolerance) != units.NONE:
        noun = _dimension(tolerance).noun
        way = "write `A within 5 % of B`"
        reading.context.tell(WrongType(expr.tolerance.span, "`within`", "a ratio", noun, way))
        return False
    if isinstance(tolerance, Quantity) and not 0 <= tolerance.value <= 1:
        figure = expr.tolerance.span.text
        hint = f"write `within {figure} % of`" if isinstance(expr.tolerance, nodes.Number) else None
        bound, span = "from 0 % to 100 %", expr.tolerance.span
        reading.context.tell(OutOfBounds(span, "within", bound, figure, hint))
        return False
    if _dimension(value) != _dimension(target):
        nouns = (_dimension(value).noun, _dimension(target).noun)
        reading.context.tell(MixedDimensions(expr.span, "within", *nouns))
        return False
    return True


def _dimension(known: Known) -> Dimension:
    return known.dimension if isinstance(known, Quantity) else known


# --- measures ----------------------------------------------------------------------------------


def _measure(reading: _Reading, expr: Expr) -> Known | None:
    """What an expression measures; constants are computed, for the sake of their faults."""
    if not reading.context.deeper(EXPRESSION, expr.span):
        return None
    known = _measured(reading, expr)
    reading.context.shallower(EXPRESSION)
    return known


def _measured(reading: _Reading, expr: Expr) -> Known | None:
    match expr:
        case Path():
            return _named(reading, expr)
        case Binary(operator=operator) if operator in ARITHMETIC:
            return _chain(reading, expr)
        case Unary(operator="-"):
            inner: Expr = expr
            while isinstance(inner, Unary) and inner.operator == "-":
                inner = inner.operand
            known = _measure(reading, inner)
            return None if known is None else _dimension(known)
        case Call() if expr.function.text in FUNCTIONS:
            return _called(reading, expr)
        case Unary(operator="not") | Within():
            _no_measure(reading, expr)
            return None
        case Binary(operator=operator) if operator in COMPARISONS or operator in ("and", "or"):
            _no_measure(reading, expr)
            return None
        case _:
            value = reading.context.evaluate(expr, reading.scope)
            if value is None or isinstance(value, Quantity):
                return value
            given = described(value)
            reading.context.tell(WrongType(expr.span, "a condition", "quantities", given))
            return None


def _no_measure(reading: _Reading, expr: Expr) -> None:
    way = "join conditions with `and`, `or` and `not` only"
    reading.context.tell(
        NoCondition(expr.span, "a quantity is wanted, and this is a condition", way)
    )


def _chain(reading: _Reading, expr: Binary) -> Known | None:
    links: list[Binary] = []
    first: Expr = expr
    while isinstance(first, Binary) and first.operator in ARITHMETIC:
        links.append(first)
        first = first.left
    total = _measure(reading, first)
    for link in reversed(links):
        right = _measure(reading, link.right)
        total = None if total is None or right is None else _joined(reading, link, total, right)
    return total


def _joined(reading: _Reading, link: Binary, left: Known, right: Known) -> Known | None:
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return combined(reading.context, link, left, right)
    a, b = _dimension(left), _dimension(right)
    if link.operator == "*":
        return a * b
    if link.operator == "/":
        if isinstance(right, Quantity):  # only a constant can be seen to be zero
            one = Quantity(1, a)
            return None if combined(reading.context, link, one, right) is None else a / b
        return a / b
    if a == b:
        return a
    _mixed(reading, link, left, right)
    return None


def _called(reading: _Reading, expr: Call) -> Known | None:
    name = expr.function.text
    arguments: list[Expr] = []
    for argument in expr.arguments:
        arguments += argument.items if isinstance(argument, Items) else (argument,)
    found = [_measure(reading, argument) for argument in arguments]
    if any(known is None for known in found):
        return None
    dimensions = [_dimension(known) for known in found if known is not None]
    wanted = 2 if name in ("ceil", "floor") else 0
    if not dimensions or (wanted and len(dimensions) != wanted):
        way = f"write `{name}(a, step)`" if wanted else f"write `{name}(a, b)`"
        reason = f"`{name}` cannot work on {counted(len(dimensions), 'values')}"
        reading.context.tell(BadCall(expr.span, reason, None, way))
        return None
    for other in dimensions:
        if other != dimensions[0]:
            nouns = (dimensions[0].noun, other.noun)
            reading.context.tell(MixedDimensions(expr.span, name, *nouns))
            return None
    return dimensions[0]


# --- names -------------------------------------------------------------------------------------


def _named(reading: _Reading, path: Path) -> Known | None:
    """A name of the vocabulary before all others; else a constant of the file."""
    if not path.ranges:
        dimension = reading.subject.asked(path.dotted)
        if dimension is not None:
            return dimension if exists(reading.context, reading.subject, path) else None
        first = path.names[0].text
        if reading.scope.find(first) is None and first not in PLURALS:
            unanswerable(reading.context, reading.subject, reading.scope, path)
            return None
    value = reading.context.evaluate(path, reading.scope)
    if isinstance(value, Quantity):
        reading.constants[path.dotted] = value
        return value
    if value is not None:
        given = described(value)
        reading.context.tell(WrongType(path.span, "a condition", "quantities", given))
    return None
