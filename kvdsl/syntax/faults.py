"""Says in a user's terms what is wrong with a piece that the grammar refuses.

Comes in: the piece, the place where reading stopped, and what could have stood there. Goes out: one
diagnostic. Not its job: finding the place (parser) or wording (messages).

READINGS are tried in order, the particular before the general; the first that knows the fault
speaks.
"""

from __future__ import annotations

from collections.abc import Callable

from kvdsl.diagnostics import Diagnostic, Fix, Label
from kvdsl.source import SourceFile
from kvdsl.spelling import nearest
from kvdsl.syntax import messages as say
from kvdsl.syntax.block_faults import WRITTEN, block_behind_value, lone_count
from kvdsl.syntax.expected import CLAUSE_WORDS, OPENING_WORDS, expected_words, wants_value
from kvdsl.syntax.fault import Fault
from kvdsl.syntax.number_faults import (
    grouped_number,
    malformed_number,
    times_quantity,
    unknown_unit,
)
from kvdsl.syntax.outline import MOST_BRACKETS, PAIRS, Kind, Token
from kvdsl.units import MISTAKEN

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "within")

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


def explain(fault: Fault) -> Diagnostic:
    for reading in READINGS:
        known = reading(fault)
        if known is not None:
            return known
    return _general(fault)


def too_deep(source: SourceFile, bracket: Token) -> Diagnostic:
    advice = "declare the inner parts apart and name them"
    span = source.span(bracket.start, bracket.end)
    problem = f"brackets nest more than {MOST_BRACKETS} deep"
    return say.TooDeep(span, problem, advice).diagnostic()


# --- characters and quotes ---------------------------------------------------------------------


def _strange_character(fault: Fault) -> Diagnostic | None:
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


def _unclosed_text(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if found.kind is Kind.TEXT and (len(found.text) == 1 or not found.text.endswith('"')):
        return say.UnclosedText(fault.span(found)).diagnostic()
    return None


# --- brackets ----------------------------------------------------------------------------------


def _brace_on_next_line(fault: Fault) -> Diagnostic | None:
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


def _unclosed_bracket(fault: Fault) -> Diagnostic | None:
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


def _stray_closer(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if found.kind is not Kind.CLOSE:
        return None
    if any(PAIRS[bracket.text] == found.text for bracket in fault.opened):
        return None
    return say.StrayCloser(fault.span(found), found.text).diagnostic()


# --- commas ------------------------------------------------------------------------------------


def _stray_comma(fault: Fault) -> Diagnostic | None:
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
        return say.CommaEndsNothing(fault.span(found)).diagnostic(fix=fix)
    return None


# --- statements --------------------------------------------------------------------------------


def _chained_comparison(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if found.text not in _COMPARISONS or "AND" not in fault.accepted:
        return None
    if "COMPARISON" in fault.accepted:
        return None
    statement = fault.statement
    signs = [i for i, token in enumerate(statement) if token.text in _COMPARISONS]
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


def _single_equals(fault: Fault) -> Diagnostic | None:
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


def _misplaced_word(fault: Fault) -> Diagnostic | None:
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


def _unfinished(fault: Fault) -> Diagnostic | None:
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


def _swallowed_line(fault: Fault) -> Diagnostic | None:
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
    return lone_count(fault)


def _two_statements(fault: Fault) -> Diagnostic | None:
    found = fault.found
    if not fault.on_one_line or "_SEP" not in fault.accepted:
        return None
    if found.kind not in (Kind.WORD, Kind.NUMBER):
        return None
    starts = fault.token(1).text in ("=", "{")
    if not starts and ("COMMA" in fault.accepted or _near_clause(fault)):
        return None  # rather a comma that is missing, or a word misspelt
    span = fault.span(found)
    gap = fault.source.span(fault.before.end, found.start)
    fix = Fix("write `;`", gap, "; ")
    return say.TwoStatements(span, found.text).diagnostic(fix=fix)


def _near_clause(fault: Fault) -> str:
    """A clause or operator that the word at fault looks like and that could stand there."""
    if fault.found.kind is not Kind.WORD or fault.token(1).text in ("=", "{"):
        return ""
    known = [word for word, terminal in CLAUSE_WORDS.items() if terminal in fault.accepted]
    return next(iter(nearest(fault.found.text, known, 1)), "")


def _general(fault: Fault) -> Diagnostic:
    expected = expected_words(fault.accepted)
    advice = lone_count(fault)
    statement = fault.statement
    kinds = [token.kind for token in statement[:2]]
    if kinds == [Kind.WORD, Kind.WORD] and statement[2:3] and statement[2].text == "=":
        advice = f"to give one attribute its value, write `{statement[1].text} = …`"
    if fault.found.text in _COMPARISONS and statement and "EQUAL" in fault.accepted:
        advice = f"a condition is written `require {fault.text(statement[0], statement[-1])} …`"
    if fault.found.text == "." and fault.before.text == "]":
        advice = "units are counted through all that holds them: write `hall.nodes[18..19]`"
    elif expected == "a whole number":
        advice = "units are counted from 0: `[0]`, `[0..3]` or `[0, 4..7]`, both ends included"
    message = say.Unexpected(
        fault.place, expected, fault.after, fault.sight, _near_clause(fault), advice
    )
    return message.diagnostic()


Reading = Callable[[Fault], Diagnostic | None]

READINGS: tuple[Reading, ...] = (
    _strange_character,
    _unclosed_text,
    _brace_on_next_line,
    _misplaced_word,
    block_behind_value,
    grouped_number,
    _stray_comma,
    malformed_number,
    times_quantity,
    _unclosed_bracket,
    _stray_closer,
    _unfinished,
    _swallowed_line,
    _single_equals,
    _chained_comparison,
    unknown_unit,
    _two_statements,
)
