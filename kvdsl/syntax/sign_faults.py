"""What is wrong with a sign: a character, quote or comparison of another language.

Comes in: a fault. Goes out: a diagnostic, or None where the fault is another's. Not its job: all
other faults, and the order in which they are tried (faults).
"""

from __future__ import annotations

import unicodedata

from kvdsl.diagnostics import Diagnostic, Fix
from kvdsl.syntax import messages as say
from kvdsl.syntax.expected import OPENING_WORDS
from kvdsl.syntax.fault import Fault, rest_of_statement
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

_ADVICE = {
    "^": "there is no power: multiply, as in `2 * 2 * 2`",
    "$": "money is a quantity, as in `2 USD/h`; nothing is put in from outside a spec",
    "`": "names and values stand without it",
    "\u221e": "leave out what has no bound, or write a figure",
    "@": "a unit or name has no such sign",
    "~": "what is near is written `within 5 % of`",
}


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
    return _character(fault)


def _character(fault: Fault) -> Diagnostic:
    """A character by itself: named where it may look like another."""
    text, span, behind = fault.found.text, fault.span(fault.found), fault.token(1)
    number = behind.kind is Kind.NUMBER and behind.start == fault.found.end
    if text == "'" and number and fault.before.end == fault.found.start:
        problem = "digits are grouped with `_`, not with `'`"
        digits = fault.span(fault.before, behind)
        instead = f"{fault.before.text}_{behind.text}"
        return say.BadNumber(digits, problem, instead).diagnostic(fix=Fix("write `_`", span, "_"))
    character = f"`{text}`" if text.isprintable() else f"the character U+{ord(text[0]):04X}"
    if text == "`":
        character = "a back quote"
    advice, plain = _ADVICE.get(text, ""), unicodedata.normalize("NFKC", text)
    if text == "$" and number:
        advice = f"money is a quantity: write `{behind.text} USD`"
    instead = _SIGNS.get(text, "") or (plain if plain.isascii() and plain != text else "")
    if text.isalpha() and not text.isascii():
        character = f"{character} ({unicodedata.name(text, 'a letter').lower()})"
        advice = "names have the letters A to Z, digits and `_`"
    return say.StrangeCharacter(span, character, instead, advice).diagnostic()


def _colon(fault: Fault) -> Diagnostic:
    span = fault.span(fault.found)
    first = fault.statement[0].text
    head = fault.text(fault.statement[0], fault.before)
    if first in (*OPENING_WORDS, "kvspec", "import") and first != "let":
        problem = f"`{first}` opens a statement without `:`"
        instead = head + (" because" if first == "allow" and len(fault.statement) > 1 else "")
        return say.WrongSign(span, problem, f"{instead} …").diagnostic()
    if fault.token(1).text == "{":
        problem = "a block opens with its `{`, without `:`"
        fix = Fix("delete the `:`", span, "")
        return say.WrongSign(span, problem, f"{head} {{").diagnostic(fix=fix)
    sign = ":"
    if fault.token(1).text == "=" and fault.token(1).start == fault.found.end:
        sign, span = ":=", fault.span(fault.found, fault.token(1))
    problem = f"an attribute gets its value with `=`, not `{sign}`"
    value = rest_of_statement(fault.source, span.end)
    if not value and fault.opened:
        instead = f"{head} {{ … }}"
        return say.WrongSign(span, "a block stands between `{` and `}`", instead).diagnostic()
    fix = Fix("write `=`", span, " =")
    return say.WrongSign(span, problem, f"{head} = {value or '…'}").diagnostic(fix=fix)


def unclosed_text(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if found.kind is Kind.TEXT and (len(found.text) == 1 or not found.text.endswith('"')):
        return say.UnclosedText(fault.span(found)).diagnostic()
    return None
