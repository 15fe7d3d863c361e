"""What is wrong with a statement: where it ends, what opens it, what it compares.

Comes in: a fault. Goes out: a diagnostic, or None where the fault is another's. Not its job: all
other faults, and the order in which they are tried (faults).
"""

from __future__ import annotations

from kvdsl.diagnostics import Diagnostic, Fix
from kvdsl.spelling import nearest
from kvdsl.syntax import messages as say
from kvdsl.syntax.block_faults import WRITTEN, lone_count
from kvdsl.syntax.expected import CLAUSE_WORDS, OPENING_WORDS, expected_words
from kvdsl.syntax.fault import Fault
from kvdsl.syntax.outline import Kind, Token

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "within")


_CLAUSES = {
    **dict.fromkeys(("if", "where", "unless", "whenever"), "when"),
    **dict.fromkeys(("since", "reason", "why"), "because"),
    **dict.fromkeys(("named", "called"), "as"),
    **dict.fromkeys(("around", "about", "near"), "within"),
    "expires": "until",
}
"""Words that limit, explain or name elsewhere, and the clause that does so here."""


def chained_comparison(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if found.text not in COMPARISONS or "AND" not in fault.accepted:
        return None
    if "COMPARISON" in fault.accepted:
        return None
    statement = fault.statement
    signs = [i for i, token in enumerate(statement) if token.text in COMPARISONS]
    if not signs:
        return None
    start = 1 if statement[0].text in ("require", "expect") else 0
    for index, token in enumerate(statement[: signs[-1]]):
        if token.text in ("when", "and", "or", "=", "not"):
            start = index + 1
    middle = fault.text(statement[signs[-1] + 1], statement[-1])
    first = fault.text(statement[start], statement[-1])
    end = _line_end(fault)
    second = f"{middle} {fault.text(found, end)}"
    gap = fault.source.span(fault.before.end, found.start)
    fix = Fix("split it in two", gap, f" and {middle} ")
    return say.ChainedComparison(fault.span(found), first, second).diagnostic(fix=fix)


def _line_end(fault: Fault) -> Token:
    """The last token of what is compared: up to a clause, separator or closer."""
    index = 0
    while True:
        following = fault.token(index + 1)
        stops = following.kind in (Kind.NEWLINE, Kind.END, Kind.SEMICOLON, Kind.CLOSE)
        if stops or following.text in ("when", "as", "because", "and", "or"):
            return fault.token(index)
        index += 1


def single_equals(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if found.text != "=" or not fault.statement:
        return None
    if fault.token(1).text in ("<", ">", "=") and fault.token(1).start == found.end:
        sign = fault.token(1).text + "="
        span = fault.span(found, fault.token(1))
        fix = Fix(f"write `{sign}`", span, sign)
        return say.WrongSign(span, f"`{span.text}` is no comparison", sign).diagnostic(fix=fix)
    if "COMPARISON" in fault.accepted and fault.statement[0].text in ("require", "expect"):
        span = fault.span(found)
        fix = Fix("write `==`", span, "==")
        return say.WrongSign(span, "`=` gives a value; `==` compares", "==").diagnostic(fix=fix)
    return None


def misplaced_word(fault: Fault) -> Diagnostic | None:
    found, before, statement = fault.found, fault.before, fault.statement
    if len(statement) != 1 or before.kind is not Kind.WORD:
        return None
    word, span = before.text, fault.span(before)
    if word in OPENING_WORDS and found.text in ("=", "{"):
        problem = "opens a statement of its own, so no attribute can have that name"
        return say.MisplacedWord(span, word, problem, WRITTEN.get(word, "")).diagnostic()
    if word == "import" and found.kind is Kind.TEXT and fault.opened:
        problem = "stands at the top of a file, not in a block"
        return say.MisplacedWord(span, word, problem).diagnostic()
    if word == "kvspec" and found.kind is Kind.NUMBER and fault.opened:
        problem = "stands at the top of a file, not in a block"
        return say.MisplacedWord(span, word, problem).diagnostic()
    return None


def unfinished(fault: Fault) -> Diagnostic | None:
    closes = fault.found.kind is Kind.CLOSE
    if not (fault.line_ends or closes) or not fault.statement:
        return None
    message = say.Unfinished(
        fault.place,
        expected_words(fault.accepted),
        fault.after,
        fault.sight,
        _advice(fault),
    )
    return message.diagnostic()


def swallowed_line(fault: Fault) -> Diagnostic | None:
    """A line that ends in an operator or comma goes on, here into the next statement."""
    index = 1
    if fault.found.text not in ("=", "{") and fault.found.kind not in (Kind.WORD, Kind.NUMBER):
        return None
    while fault.token(-index).kind is Kind.WORD or fault.token(-index).text == ".":
        index += 1
    line_end = fault.token(-index)
    while fault.token(-index).kind is Kind.NEWLINE:
        index += 1
    last = fault.token(-index)
    if line_end.kind is not Kind.NEWLINE or last not in fault.statement:
        return None
    first = fault.statement[0]
    place = fault.source.span(last.end, last.end)
    after = f" after `{fault.text(first, last)}`"
    advice = f"the line goes on behind `{last.text}`, so the next one was read as its rest"
    return say.Unfinished(place, "a value", after, "the line ends", advice).diagnostic()


def _advice(fault: Fault) -> str:
    if fault.before.text == "=":
        return "a value starts on the line of its `=`"
    first, said = fault.statement[0].text, fault.text(fault.statement[0], fault.before)
    if first == "allow" and len(fault.statement) == 2:
        return f'say why: `{said} because "…"`'
    if len(fault.statement) == 1 and first in WRITTEN:
        return WRITTEN[first]
    return lone_count(fault)


def two_statements(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if not fault.on_one_line or "_SEP" not in fault.accepted:
        return None
    if found.kind not in (Kind.WORD, Kind.NUMBER):
        return None
    starts = fault.token(1).text in ("=", "{")
    known = near_clause(fault) or found.text == "between"
    if not starts and ("COMMA" in fault.accepted or known):
        return None  # rather a comma that is missing, or a word misspelt
    span = fault.span(found)
    gap = fault.source.span(fault.before.end, found.start)
    fix = Fix("write `;`", gap, "; ")
    return say.TwoStatements(span, found.text).diagnostic(fix=fix)


def near_clause(fault: Fault) -> str:
    """A clause or operator that the word at fault looks like and that could stand there."""
    if fault.found.kind is not Kind.WORD or fault.token(1).text in ("=", "{"):
        return ""
    meant = _CLAUSES.get(fault.found.text, "")
    if meant and CLAUSE_WORDS[meant] in fault.accepted:
        return meant
    known = [word for word, terminal in CLAUSE_WORDS.items() if terminal in fault.accepted]
    return next(iter(nearest(fault.found.text, known, 1)), "")
