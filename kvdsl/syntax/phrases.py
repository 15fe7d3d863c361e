"""What is written on one line: expressions and the parts of statements.

Comes in: nodes. Goes out: their canonical text, with as few parentheses as keep the tree. Not its
job: lines, columns and comments (formatter, columns).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import assert_never

from kvdsl.syntax import nodes as n
from kvdsl.syntax.numbers import NUMBER, read_number

_NEGATION, _COMPARISON, _SIGN, _ATOM = 3, 4, 7, 10
_BINDING: Mapping[str, int] = MappingProxyType(
    {
        "or": 1,
        "and": 2,
        **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), _COMPARISON),
        **dict.fromkeys("+-", 5),
        **dict.fromkeys("*/", 6),
        "per": 8,
        "x": 9,
    }
)
"""How tightly an operator binds: the order of the grammar's rules for expressions."""


def expression(node: n.Expr) -> str:
    match node:
        case n.Unary(operator="not"):
            return f"not {_inside(node.operand, _NEGATION)}"
        case n.Unary():
            return f"{node.operator}{_inside(node.operand, _SIGN)}"
        case n.Binary():
            left, right = operands(node)
            return f"{left} {node.operator} {right}"
        case n.Within():
            value, tolerance, target = (
                _inside(part, _COMPARISON + 1) for part in (node.value, node.tolerance, node.target)
            )
            return f"{value} within {tolerance} of {target}"
        case _:
            return _atom(node)


_Atom = n.Name | n.Number | n.Measure | n.Text | n.Truth | n.Path | n.Items | n.Call


def _atom(node: _Atom) -> str:
    match node:
        case n.Name(text=text):
            return text
        case n.Number():
            return number(node)
        case n.Measure():
            return f"{node.number} {node.unit}"
        case n.Text():
            return f'"{node.value}"'
        case n.Truth():
            return "true" if node.value else "false"
        case n.Path():
            return path(node)
        case n.Items():
            return f"[{', '.join(map(expression, node.items))}]"
        case n.Call():
            return f"{node.function.text}({', '.join(map(expression, node.arguments))})"
        case _:
            assert_never(node)


def operands(node: n.Binary) -> tuple[str, str]:
    """Both sides: a chain leans to the left, a comparison to neither, and `x` holds an atom."""
    binding = _BINDING[node.operator]
    left = _ATOM if node.operator == "x" else binding + (binding == _COMPARISON)
    return _inside(node.left, left), _inside(node.right, binding + 1)


def _inside(node: n.Expr, least: int) -> str:
    text = expression(node)
    return text if _binding(node) >= least else f"({text})"


def _binding(node: n.Expr) -> int:
    match node:
        case n.Binary():
            return _BINDING[node.operator]
        case n.Within():
            return _COMPARISON
        case n.Unary():
            return _NEGATION if node.operator == "not" else _SIGN
        case _:
            return _ATOM


def number(node: n.Number) -> str:
    """As written, where the span still shows it: `1_402_348` and `1.4e6` read differently."""
    written = node.span.text
    if NUMBER.fullmatch(written) and read_number(written) == node.value:
        return written
    if isinstance(node.value, Fraction):
        return _decimal(node.value)
    return str(node.value)


def _decimal(value: Fraction) -> str:
    """Every number of the language is a whole number over a power of ten."""
    places = 0
    while value.denominator != 1:
        value, places = value * 10, places + 1
    digits = str(value.numerator).zfill(places + 1)
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def path(node: n.Path) -> str:
    ranges = ", ".join(map(_range, node.ranges))
    return f"{node.dotted}[{ranges}]" if ranges else node.dotted


def _range(node: n.Range) -> str:
    return str(node.first) if node.first == node.last else f"{node.first}..{node.last}"


def head_of(statement: n.Assign | n.Declare | n.Part | n.Repeat) -> str:
    """The words before the sign or brace that a column aligns."""
    match statement:
        case n.Assign():
            return path(statement.path)
        case n.Declare(name=None):
            return statement.kind.text
        case n.Declare(name=n.Name(text=name)) | n.Part(name=n.Name(text=name)):
            return f"{statement.kind.text} {name}"
        case n.Repeat():
            return number(statement.count)
        case _:
            raise AssertionError(statement)


def before_brace(statement: n.Assign | n.Declare | n.Part | n.Repeat) -> str:
    """What stands between those words and the `{`, with a blank behind it."""
    match statement:
        case n.Assign():
            return "= "
        case n.Declare(extends=n.Path() as parent):
            return f"extends {path(parent)} "
        case n.Part():
            return f"= {statement.form.text} "
        case n.Repeat():
            return f"x {statement.kind.text} "
        case _:
            return ""


def clauses(statement: n.Require) -> str:
    """In one order, whatever the order they were written in."""
    text = ""
    if statement.when is not None:
        text += f" when {expression(statement.when)}"
    if statement.label is not None:
        text += f" as {statement.label.text}"
    if statement.because is not None:
        text += f" because {expression(statement.because)}"
    return text


def source_clause(statement: n.Assign) -> str:
    return f" from {expression(statement.source)}" if statement.source is not None else ""


def in_one_line(statement: n.Statement) -> str:
    """A whole statement, its block included, unaligned."""
    match statement:
        case n.Assign(value=n.Block()) | n.Declare() | n.Part() | n.Repeat():
            body = statement.value if isinstance(statement, n.Assign) else statement.body
            assert isinstance(body, n.Block)
            return f"{head_of(statement)} {before_brace(statement)}{block_in_one_line(body)}"
        case n.Assign():
            assert not isinstance(statement.value, n.Block)
            value = expression(statement.value)
            return f"{path(statement.path)} = {value}{source_clause(statement)}"
        case _:
            return _sentence(statement)


_Sentence = (
    n.Mention | n.Require | n.Allow | n.Compare | n.Drop | n.Let | n.Import | n.Edition | n.Broken
)


def _sentence(statement: _Sentence) -> str:
    match statement:
        case n.Mention():
            text = statement.name.text
        case n.Require():
            words = f"{statement.keyword.text} {expression(statement.condition)}"
            text = words + clauses(statement)
        case n.Allow():
            text = f"allow {statement.code.text} because {expression(statement.because)}"
            if statement.until is not None:
                text += f" until {expression(statement.until)}"
        case n.Compare():
            text = f"compare {', '.join(map(expression, statement.items))}"
        case n.Drop():
            text = f"drop {path(statement.path)}"
        case n.Let():
            text = f"let {statement.name.text} = {expression(statement.value)}"
        case n.Import():
            alias = f" as {statement.alias.text}" if statement.alias is not None else ""
            text = f"import {expression(statement.path)}{alias}"
        case n.Edition():
            text = f"kvspec {number(statement.number)}"
        case n.Broken():
            text = statement.span.text
        case _:
            assert_never(statement)
    return text


def block_in_one_line(block: n.Block) -> str:
    if not block.statements:
        return "{ }"
    return f"{{ {'; '.join(map(in_one_line, block.statements))} }}"
