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
from kvdsl.syntax.block_faults import block_behind_value, lone_count
from kvdsl.syntax.bracket_faults import (
    brace_on_next_line,
    stray_closer,
    stray_comma,
    unclosed_bracket,
)
from kvdsl.syntax.expected import expected_words
from kvdsl.syntax.fault import Fault
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
    advice = lone_count(fault)
    statement = fault.statement
    kinds = [token.kind for token in statement[:2]]
    if kinds == [Kind.WORD, Kind.WORD] and statement[2:3] and statement[2].text == "=":
        advice = f"to give one attribute its value, write `{statement[1].text} = …`"
    if fault.found.text in COMPARISONS and statement and "EQUAL" in fault.accepted:
        advice = f"a condition is written `require {fault.text(statement[0], statement[-1])} …`"
    if fault.found.text == "." and fault.before.text == "]":
        advice = "units are counted through all that holds them: write `hall.nodes[18..19]`"
    elif expected == "a whole number":
        advice = "units are counted from 0: `[0]`, `[0..3]` or `[0, 4..7]`, both ends included"
    message = say.Unexpected(
        fault.place, expected, fault.after, fault.sight, near_clause(fault), advice
    )
    return message.diagnostic()


Reading = Callable[[Fault], Diagnostic | None]

READINGS: tuple[Reading, ...] = (
    strange_character,
    unclosed_text,
    brace_on_next_line,
    misplaced_word,
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
