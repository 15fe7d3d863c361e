"""What is wrong with a sign: a character, quote or comparison of another language.

Comes in: a fault. Goes out: a diagnostic, or None where the fault is another's. Not its job: all
other faults, and the order in which they are tried (faults).
"""

from __future__ import annotations

from kvdsl.diagnostics import Diagnostic, Fix
from kvdsl.syntax import messages as say
from kvdsl.syntax.fault import Fault
from kvdsl.syntax.outline import Kind
from kvdsl.units import MISTAKEN

_SIGNS = {
    "×": "x",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "−": "-",
    "–": "-",
    "—": "-",
    "÷": "/",
    "·": "*",
    "“": '"',
    "”": '"',
    "„": '"',
    "‘": '"',
    "’": '"',
    "…": "..",
    "&": "and",
    "|": "or",
    "!": "not",
    "\u00a0": " ",
    "\u202f": " ",
}
"""What word processors and other languages write, and what it is here."""


def strange_character(fault: Fault) -> Diagnostic | None:
    found, text = fault.found, fault.found.text
    if found.kind is not Kind.STRANGE:
        return None
    span = fault.span(found)
    if text.startswith("'") and len(text) > 1:
        instead = f'"{text[1:-1]}"'
        fix = Fix("use double quotes", span, instead)
        return say.WrongQuotes(span, instead).diagnostic(fix=fix)
    if text == ":" and fault.opened and fault.opened[-1].text == "[":
        behind = fault.token(1)
        end = behind.text if behind.kind is Kind.NUMBER else "…"
        problem = "a range is written with `..`, both ends included"
        fix = Fix("write `..`", span, "..")
        return say.WrongSign(span, problem, f"{fault.before.text}..{end}").diagnostic(fix=fix)
    if text == ":" and fault.statement:
        return _colon(fault)
    unit, span_of_unit = text, span
    behind = fault.token(1)
    if behind.kind is Kind.WORD and behind.start == found.end:  # a micro sign and its `s`
        unit, span_of_unit = text + behind.text, fault.span(found, behind)
    if fault.before.kind is Kind.NUMBER and unit in MISTAKEN:
        meant = MISTAKEN[unit]
        unknown = say.UnknownUnit(span_of_unit, unit, f"`{meant}`")
        return unknown.diagnostic(fix=Fix(f"write {meant}", span_of_unit, meant))
    character = f"`{text}`" if text.isprintable() else f"the character U+{ord(text[0]):04X}"
    advice = ""
    if text.isalpha():
        advice = "names have the letters A to Z, digits and `_`"
    return say.StrangeCharacter(span, character, _SIGNS.get(text, ""), advice).diagnostic()


def _colon(fault: Fault) -> Diagnostic:
    span = fault.span(fault.found)
    head = fault.text(fault.statement[0], fault.before)
    if fault.token(1).text == "{":
        problem = "a block opens with its `{`, without `:`"
        fix = Fix("delete the `:`", span, "")
        return say.WrongSign(span, problem, f"{head} {{").diagnostic(fix=fix)
    problem = "an attribute gets its value with `=`, not `:`"
    fix = Fix("write `=`", span, " =")
    return say.WrongSign(span, problem, f"{head} =").diagnostic(fix=fix)


def unclosed_text(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if found.kind is Kind.TEXT and (len(found.text) == 1 or not found.text.endswith('"')):
        return say.UnclosedText(fault.span(found)).diagnostic()
    return None
