"""Says in a user's terms what is wrong with a piece that the grammar refuses.

Comes in: the piece, the place where reading stopped, and what could have stood there. Goes out: one
diagnostic. Not its job: finding the place (parser) or wording (messages).

READINGS are tried in order, the particular before the general; the first that knows the fault
speaks.
"""

from __future__ import annotations

from collections.abc import Callable

from kvdsl.diagnostics import Diagnostic
from kvdsl.source import SourceFile
from kvdsl.syntax import messages as say
from kvdsl.syntax.block_faults import (
    WRITTEN,
    block_behind_value,
    block_without_braces,
    lone_count,
)
from kvdsl.syntax.bracket_faults import (
    brace_on_next_line,
    stray_closer,
    stray_comma,
    unclosed_bracket,
)
from kvdsl.syntax.expected import OPENING_WORDS, expected_words
from kvdsl.syntax.fault import Fault
from kvdsl.syntax.foreign_syntax import (
    foreign_comment,
    foreign_sign,
    foreign_statement,
    mark_of_tools,
    third_point,
)
from kvdsl.syntax.head_faults import (
    edition_line,
    import_line,
    missing_equals,
    quoted_name,
    unreadable_name,
    wrong_opener,
)
from kvdsl.syntax.number_faults import (
    grouped_number,
    malformed_number,
    times_quantity,
    unknown_unit,
)
from kvdsl.syntax.outline import MOST_BRACKETS, Kind, Token
from kvdsl.syntax.sign_faults import strange_character, unclosed_text
from kvdsl.syntax.statement_faults import (
    COMPARISONS,
    chained_comparison,
    misplaced_word,
    near_clause,
    single_equals,
    swallowed_line,
    two_statements,
    unfinished,
)


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


def _general(fault: Fault) -> Diagnostic:
    expected = expected_words(fault.accepted)
    near = near_clause(fault)
    advice = "" if near else _advice(fault, expected)
    message = say.Unexpected(fault.place, expected, fault.after, fault.sight, near, advice)
    return message.diagnostic()


def _advice(fault: Fault, expected: str) -> str:
    """Of several that fit, the first: what the statement is, then what stands at the place."""
    return _of_statement(fault) or _of_place(fault, expected) or lone_count(fault)


def _of_statement(fault: Fault) -> str:
    statement, found = fault.statement, fault.found
    if not statement:
        return ""
    first = statement[0].text
    if found.text in COMPARISONS and "EQUAL" in fault.accepted:
        return f"a condition is written `require {fault.text(statement[0], statement[-1])} …`"
    if first in ("allow", "compare"):
        return f"{WRITTEN[first]}{', one code a line' if first == 'allow' else ''}"
    if first in OPENING_WORDS:
        return ""
    if first.lower() in OPENING_WORDS:
        return f"write `{first.lower()}`, in small letters"
    kinds = [token.kind for token in statement[:2]]
    if kinds == [Kind.WORD, Kind.WORD] and statement[2:3] and statement[2].text == "=":
        return f"to give one attribute its value, write `{statement[1].text} = …`"
    return ""


def _of_place(fault: Fault, expected: str) -> str:
    statement, found = fault.statement, fault.found
    advice = ""
    if found.text == "{" and fault.before.text == "=":
        advice = "a list stands in brackets, as in `[8 ktok, 32 ktok]`"
    elif found.text == "." and fault.before.text == "]":
        advice = "units are counted through all that holds them: write `hall.nodes[18..19]`"
    elif found.text == "between":
        value = fault.before.text if len(statement) < 2 else fault.text(statement[1], fault.before)
        advice = f"two bounds are two comparisons: `{value} >= … and {value} <= …`"
    elif found.text == "..":
        advice = "several values are a list, as in `[8 ktok, 16 ktok]`"
    elif expected == "a text in double quotes" and found.kind is Kind.WORD:
        advice = f'write `"{found.text}"`'
    elif expected == "a whole number" and found.kind is Kind.TEXT and len(statement) > 1:
        name = found.text.strip('"')
        catalog = fault.text(statement[-2], statement[-2])
        advice = f"one of the catalog is written `{catalog}.{name}`"
    elif expected == "a whole number":
        advice = "units are counted from 0: `[0]`, `[0..3]` or `[0, 4..7]`, both ends included"
    return advice


Reading = Callable[[Fault], Diagnostic | None]

READINGS: tuple[Reading, ...] = (
    mark_of_tools,
    foreign_comment,
    strange_character,
    unclosed_text,
    brace_on_next_line,
    misplaced_word,
    edition_line,
    import_line,
    foreign_statement,
    unreadable_name,
    block_without_braces,
    wrong_opener,
    foreign_sign,
    third_point,
    missing_equals,
    quoted_name,
    block_behind_value,
    grouped_number,
    stray_comma,
    malformed_number,
    times_quantity,
    unclosed_bracket,
    stray_closer,
    unfinished,
    swallowed_line,
    single_equals,
    chained_comparison,
    unknown_unit,
    two_statements,
)
