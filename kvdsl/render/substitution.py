"""A formula's text with figures in the place of its operands: `floor(45.23 GB / 32,256 B/tok)`.

Comes in: a derived term. Goes out: a line, or None. A formula's text is for people, and names its
operands in words that need not be the labels of what was put in. So figures are put in where the
words agree, or else where the arithmetic then gives the term's own value; a line that is not true
is never shown. Not its job: the tree around it (derivation).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, permutations
from math import ceil, floor, isclose

from kvdsl.formulas import Term
from kvdsl.units import Value, shown

MOST_SUMMANDS = 6
"""A sum of more terms is not written out: they stand right below it."""

MOST_ORDERS = 120
"""So many ways to put the figures in are tried: all of them for five operands."""

_OPERAND = re.compile(r"[A-Za-z][A-Za-z_ ]*[A-Za-z_]|[A-Za-z]")
_TIMES = re.compile(r" x ")
_SIDE_BY_SIDE = re.compile(r"(?<=[\w)]) (?=[\w(])")
_GATHERED = {"sum": (" + ", "{}"), "greatest": (", ", "max({})"), "least": (", ", "min({})")}


@dataclass(frozen=True, slots=True)
class _Operand:
    words: str
    start: int
    end: int


def with_numbers(term: Term) -> str | None:
    """The text with a figure for each operand; None where no such line is true."""
    formula = term.formula
    if formula is None or not term.inputs:
        return None
    figures = [shown(child.quantity) for child in term.inputs]
    if formula.name in _GATHERED and formula.text.endswith("the terms"):
        joint, form = _GATHERED[formula.name]
        written_out = 1 < len(figures) <= MOST_SUMMANDS
        return form.format(joint.join(figures)) if written_out else None
    operands = _operands(formula.text)
    order = _order(term, operands)
    if order is None:
        return None
    text = formula.text
    for operand in reversed(operands):
        text = text[: operand.start] + figures[order[operand.words]] + text[operand.end :]
    return text


def _operands(text: str) -> list[_Operand]:
    """The named operands of a formula's text: what stands between operators, not functions."""
    # `x` multiplies: an operator of the same width keeps the places of the others.
    plain = _TIMES.sub(" * ", text)
    return [
        _Operand(match[0], match.start(), match.end())
        for match in _OPERAND.finditer(plain)
        if not plain.startswith("(", match.end())
    ]


def _order(term: Term, operands: Sequence[_Operand]) -> Mapping[str, int] | None:
    """Which input stands for which words."""
    assert term.formula is not None
    words = list(dict.fromkeys(operand.words for operand in operands))
    if len(words) != len(term.inputs):
        return None
    matched = _matched(words, [child.label for child in term.inputs])
    calculation = _calculation(term.formula.text, operands, words)
    if calculation is None:
        return matched
    values = [child.value for child in term.inputs]
    for order in _orders(words, matched):
        given = [values[index] for index in order]
        if _gives(calculation, given, term.value):
            return dict(zip(words, order, strict=True))
    return None


def _orders(words: Sequence[str], matched: Mapping[str, int] | None) -> Iterator[tuple[int, ...]]:
    """Ways to put the inputs in: by their words, as they come, then any other."""
    if matched is not None:
        yield tuple(matched[word] for word in words)
    yield from islice(permutations(range(len(words))), MOST_ORDERS)


# --- by words ----------------------------------------------------------------------------------


def _matched(words: Sequence[str], labels: Sequence[str]) -> dict[str, int] | None:
    """Which input each operand speaks of; None unless all pair off, one to one."""
    found: dict[str, int] = {}
    for exactly in (True, False):
        for word in words:
            free = [i for i in range(len(labels)) if i not in found.values()]
            fits = [i for i in free if _speaks_of(word, labels[i], exactly=exactly)]
            if word not in found and len(fits) == 1:
                found[word] = fits[0]
    left = [word for word in words if word not in found]
    if len(left) == 1:
        found[left[0]] = next(i for i in range(len(labels)) if i not in found.values())
    return found if len(found) == len(words) else None


def _speaks_of(words: str, label: str, *, exactly: bool) -> bool:
    """Whether the words of one stand, in order and together, in the other."""
    a, b = f" {words.lower()} ", f" {label.lower().replace('_', ' ')} "
    return a == b if exactly else a in b or b in a


# --- by the arithmetic -------------------------------------------------------------------------

_BINARY: Mapping[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "min": min,
    "max": max,
    "floor": floor,
    "ceil": ceil,
}


class _NoArithmeticError(Exception):
    """The text is a sentence, or divides by nothing."""


def _calculation(text: str, operands: Sequence[_Operand], words: Sequence[str]) -> ast.expr | None:
    """The text as an expression over `_0`, `_1`, …: the operands in the order of `words`."""
    plain = _TIMES.sub(" * ", text)
    for operand in reversed(operands):
        name = f"_{words.index(operand.words)}"
        plain = plain[: operand.start] + name + plain[operand.end :]
    plain = _SIDE_BY_SIDE.sub(" * ", plain)  # `2 (n - 1) alpha` multiplies without a sign
    try:
        return ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _gives(calculation: ast.expr, given: Sequence[Value], wanted: Value) -> bool:
    try:
        value = _evaluated(calculation, given)
    except (_NoArithmeticError, ArithmeticError, TypeError, ValueError):
        return False
    if isinstance(value, float) or isinstance(wanted, float):
        return isclose(value, wanted, rel_tol=1e-9)
    return value == wanted


def _evaluated(node: ast.expr, given: Sequence[Value]) -> Value:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name[1:].isdigit():
            return given[int(name[1:])]
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            above, below = _evaluated(left, given), _evaluated(right, given)
            if isinstance(above, float) or isinstance(below, float):
                return above / below
            return Fraction(above) / Fraction(below)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _BINARY[type(sign)](_evaluated(left, given), _evaluated(right, given))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluated(each, given) for each in arguments))
        case _:
            raise _NoArithmeticError
