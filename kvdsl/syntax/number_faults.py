"""What is wrong with a number, its unit, or a count with `x`.

Comes in: a fault. Goes out: a diagnostic, or None where the fault is another's. Not its job: all
other faults, and the order in which they are tried (faults).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvdsl.diagnostics import Diagnostic, Fix
from kvdsl.source import Span
from kvdsl.spelling import nearest
from kvdsl.syntax import messages as say
from kvdsl.syntax.expected import CLAUSE_WORDS, wants_value
from kvdsl.syntax.fault import Fault
from kvdsl.syntax.outline import Kind, Token
from kvdsl.units import MISTAKEN, UNITS
from kvdsl.units import unit as known_unit


def grouped_number(fault: Fault) -> Diagnostic | None:
    """`1,402,348`, where commas touch digits on both sides."""
    grouped = fault.before.kind is Kind.NUMBER and re.fullmatch("[0-9]{3}", fault.token(1).text)
    if fault.found.text != "," or not grouped:
        return None
    last = fault.found
    index, parts = 0, [fault.before.text]
    while fault.token(index).text == "," and fault.token(index + 1).kind is Kind.NUMBER:
        last = fault.token(index + 1)
        if last.start != fault.token(index).end:
            return None
        parts.append(last.text)
        index += 2
    span = fault.span(fault.before, last)
    instead = "_".join(parts)
    fix = Fix("group digits with `_`", span, instead)
    problem = "digits are grouped with `_`, not with a comma"
    return say.BadNumber(span, problem, instead).diagnostic(fix=fix)


def malformed_number(fault: Fault) -> Diagnostic | None:
    found, before = fault.found, fault.before
    touches = before.end == found.start
    if found.text == "." and before.kind is Kind.NUMBER and touches:
        last = fault.token(1)
        if "." in before.text and last.kind is Kind.NUMBER and last.start == found.end:
            problem = f"`{before.text}.{last.text}` is not a number"
            advice = 'a text stands in double quotes, as in `version = "0.33.0"`'
            return say.BadNumber(fault.span(before, last), problem, "", advice).diagnostic()
        span = fault.span(before, found)
        return _digits_both_sides(span, f"{before.text}.0")
    behind = fault.token(1)
    if found.text == "." and behind.kind is Kind.NUMBER and behind.start == found.end:
        if not wants_value(fault.accepted):
            return None
        return _digits_both_sides(fault.span(found, behind), f"0.{behind.text}")
    if found.kind is not Kind.WORD or before.kind is not Kind.NUMBER or not touches:
        return None
    if re.fullmatch(r"_\w*|[eExXbBoO][0-9A-Fa-f_]*", found.text):
        problem = f"`{before.text}{found.text}` is not a number"
        advice = "numbers are written `1_402_348`, `0.5` or `4.8e12`"
        return say.BadNumber(fault.span(before, found), problem, "", advice).diagnostic()
    return None


def _digits_both_sides(span: Span, instead: str) -> Diagnostic:
    problem = "a number has digits on both sides of the point"
    fix = Fix("add the digit", span, instead)
    return say.BadNumber(span, problem, instead).diagnostic(fix=fix)


def times_quantity(fault: Fault) -> Diagnostic | None:
    found, sign, count = fault.found, fault.before, fault.token(-2)
    if sign.text != "x" or found.kind is not Kind.NUMBER:
        return None
    if [token.text for token in fault.statement] == ["let", "x"]:
        return None  # its name
    measured = fault.token(-3)
    if count.kind is Kind.WORD and measured.kind is Kind.NUMBER:  # `80 GB x 8`
        instead = f"{found.text} * {fault.text(measured, count)}"
        span = fault.span(measured, found)
        return say.TimesQuantity(span, "a quantity", instead).diagnostic()
    if count.kind is Kind.WORD and fault.statement:
        thing = _path_before_sign(fault)
        instead = f"{found.text} x {thing}"
        return say.CountBehind(fault.span(found), instead).diagnostic()
    unit = fault.token(1)
    has_unit = unit.kind is Kind.WORD or unit.text == "%"
    last = unit if has_unit else found
    what = "a quantity" if has_unit else "a number"
    instead = f"{count.text} * {fault.text(found, last)}"
    fix = Fix("multiply", fault.span(sign), "*")
    return say.TimesQuantity(fault.span(found, last), what, instead).diagnostic(fix=fix)


def _path_before_sign(fault: Fault) -> str:
    first = fault.at - 2
    tokens = fault.piece.tokens
    while first >= 2 and tokens[first - 1].text == "." and tokens[first - 2].kind is Kind.WORD:
        first -= 2
    return fault.text(tokens[first], tokens[fault.at - 2])


def unknown_unit(fault: Fault) -> Diagnostic | None:
    found, before = fault.found, fault.before
    if found.kind is not Kind.WORD or before.kind is not Kind.NUMBER or not fault.on_one_line:
        return None
    behind = fault.token(1)
    if split := _split_unit(fault):
        return split
    starts_more = behind.text in ("=", "{") or behind.kind in (Kind.WORD, Kind.TEXT)
    if starts_more and behind.text not in CLAUSE_WORDS:
        return None  # rather a second statement
    if not _wants_operator(fault):
        return None
    if behind.text == ".":
        gap = fault.source.span(before.end, found.start)
        thing = "".join(t.text for t in _dotted(fault))
        message = say.MissingTimes(fault.span(found), f"{before.text} x {thing}")
        return message.diagnostic(fix=Fix("write `x`", gap, " x "))
    unit = found.text
    meant = MISTAKEN.get(unit, "")
    if not meant and unit.endswith("ps") and unit[:-2] in UNITS:
        meant = f"{unit[:-2]}/s"
    fix = Fix(f"write {meant}", fault.span(found), meant) if known_unit(meant) else None
    if known_unit(meant):
        meant = f"`{meant}`"
    near = "" if meant else _near_units(unit)
    advice = (
        "" if meant or near else "units look like this: `80 GB`, `30 ms`, `8 ktok`, `3.35 TB/s`"
    )
    return say.UnknownUnit(fault.span(found), unit, meant, near, advice).diagnostic(fix=fix)


def _split_unit(fault: Fault) -> Diagnostic | None:
    """`1.4 M tok`, whose prefix stands apart, and `8x80GB`, whose count is grown to it."""
    found, before, behind = fault.found, fault.before, fault.token(1)
    joined = found.text + behind.text
    if behind.kind is Kind.WORD and len(found.text) <= 2 and joined.lower() in _BY_LETTERS:
        meant = _BY_LETTERS[joined.lower()]
        span = fault.span(found, behind)
        message = say.UnknownUnit(span, span.text, f"`{before.text} {meant}`: one word")
        return message.diagnostic(fix=Fix("join them", span, meant))
    grown = re.fullmatch(r"[xX](\d+)([A-Za-z]+)?", found.text)
    if grown is None or before.end != found.start:
        return None
    symbol = MISTAKEN.get(grown[2], grown[2]) or ""
    if symbol and known_unit(symbol) is None:
        return None
    what = "a quantity" if symbol else "a number"
    instead = f"{before.text} * {grown[1]} {symbol}".rstrip()
    return say.TimesQuantity(fault.span(before, found), what, instead).diagnostic()


_BY_LETTERS = {name.lower(): name for name in UNITS}


def _dotted(fault: Fault) -> Iterator[Token]:
    index = 0
    while fault.token(index).kind is Kind.WORD or fault.token(index).text == ".":
        yield fault.token(index)
        index += 1


def _near_units(unit: str) -> str:
    same_letters = tuple(name for name in UNITS if name.lower() == unit.lower())
    near = [f"`{name}`" for name in same_letters or nearest(unit, UNITS)]
    return " or ".join([", ".join(near[:-1]), near[-1]] if len(near) > 1 else near)


def _wants_operator(fault: Fault) -> bool:
    """Whether a whole value stands before the fault."""
    return "STAR" in fault.accepted
