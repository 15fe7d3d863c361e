"""What is wrong with a bracket or a comma.

Comes in: a fault. Goes out: a diagnostic, or None where the fault is another's. Not its job: all
other faults, and the order in which they are tried (faults).
"""

from __future__ import annotations

from kvdsl.diagnostics import Diagnostic, Fix, Label
from kvdsl.source import SourceFile
from kvdsl.syntax import messages as say
from kvdsl.syntax.expected import wants_value
from kvdsl.syntax.fault import Fault
from kvdsl.syntax.outline import PAIRS, Kind, Token


def brace_on_next_line(fault: Fault) -> Diagnostic | None:
    tokens, at = fault.piece.tokens, fault.at
    while at < len(tokens) and tokens[at].kind is Kind.NEWLINE:
        at += 1
    behind_newline = at > 0 and tokens[at - 1].kind is Kind.NEWLINE
    if at == len(tokens) or tokens[at].text != "{" or not behind_newline:
        return None
    if not fault.statement and fault.before.kind is not Kind.WORD:
        return None
    last = fault.before
    opened = fault.statement or _line_before(fault)
    gap = fault.source.span(last.end, tokens[at].start)
    fix = Fix("join the lines", gap, " ") if not gap.text.strip() else None
    message = say.BraceOnNextLine(fault.span(tokens[at]), fault.text(opened[0], opened[-1]))
    return message.diagnostic(fix=fix)


def _line_before(fault: Fault) -> tuple[Token, ...]:
    """The words on the line above the fault."""
    line: list[Token] = []
    for index in range(1, fault.at + 1):
        token = fault.token(-index)
        if token.kind is Kind.NEWLINE and not line:
            continue
        if token.kind in (Kind.NEWLINE, Kind.SEMICOLON) or token.text in ("{", "}"):
            break
        line.append(token)
    return tuple(reversed(line))


def unclosed_bracket(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if not fault.opened:
        return None
    inner = fault.opened[-1]
    crossed = found.kind is Kind.CLOSE and PAIRS[inner.text] != found.text
    if inner.text == "{":
        if (
            found.kind is not Kind.END
            or fault.piece.unclosed is None
            or wants_value(fault.accepted)
        ):
            return None
        inner = _suspect(fault)
    elif crossed:
        if not any(PAIRS[bracket.text] == found.text for bracket in fault.opened):
            return None
    elif found.kind is not Kind.END and (fault.on_one_line or fault.before.text == ","):
        return None
    message = say.Unclosed(fault.span(inner), inner.text, PAIRS[inner.text])
    label = Label(fault.place, "reading stopped here")
    return message.diagnostic(*(() if found.kind is Kind.END else (label,)))


def _suspect(fault: Fault) -> Token:
    """Of the open braces, the innermost whose line is indented as the closer of another is.

    In an indented file the brace that was forgotten is rarely the outermost: the closers that stand
    there were meant for the lines above which they stand.
    """
    stack: list[Token] = []
    for token in fault.piece.tokens:
        if token.kind is Kind.OPEN:
            stack.append(token)
        elif token.kind is Kind.CLOSE and stack:
            opener = stack.pop()
            first_on_line = not _indent_and_rest(fault.source, token.start)[1]
            if first_on_line and _indent(fault, token) < _indent(fault, opener):
                return opener
    return stack[-1]


def _indent(fault: Fault, token: Token) -> int:
    return _indent_and_rest(fault.source, token.start)[0]


def _indent_and_rest(source: SourceFile, offset: int) -> tuple[int, str]:
    """The indentation of a place's line, and what stands between it and the place."""
    line = source.text[source.text.rfind("\n", 0, offset) + 1 : offset]
    rest = line.lstrip(" \t")
    if rest:
        return len(line) - len(rest), rest
    return len(line), ""


def stray_closer(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if found.kind is not Kind.CLOSE:
        return None
    if any(PAIRS[bracket.text] == found.text for bracket in fault.opened):
        return None
    return say.StrayCloser(fault.span(found), found.text).diagnostic()


def stray_comma(fault: Fault) -> Diagnostic | None:
    found, before = fault.found, fault.before
    if before.text == "," and found.text in ("]", ")", ","):
        comma = fault.span(before)
        fix = Fix("delete the comma", comma, "")
        problem = "a comma stands behind the last item"
        if found.text == ",":
            problem = "no item stands between these commas"
        return say.TrailingComma(comma, problem).diagnostic(fix=fix)
    if found.text != ",":
        return None
    if before.text in ("[", "("):
        comma = fault.span(found)
        fix = Fix("delete the comma", comma, "")
        return say.TrailingComma(comma, "a comma stands before the first item").diagnostic(fix=fix)
    if "_SEP" in fault.accepted and "COMMA" not in fault.accepted:
        fix = Fix("write `;`", fault.span(found), ";")
        conditions = fault.statement and fault.statement[0].text in ("require", "expect")
        if conditions:
            fix = Fix("write `and`", fault.span(found), " and")
        advice = "two conditions are joined by `and`" if conditions else ""
        return say.CommaEndsNothing(fault.span(found), advice).diagnostic(fix=fix)
    return None
