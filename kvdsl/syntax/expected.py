"""What could stand somewhere, in a user's words.

Comes in: the terminals that the grammar accepts at a place. Goes out: a phrase such as "a value".
A terminal's name never reaches a user. Not its job: what is wrong there (faults).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

OPENING_WORDS = ("let", "require", "expect", "allow", "compare", "drop")
"""The words that no attribute can have for a name."""

CLAUSE_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "when": "WHEN",
        "as": "AS",
        "because": "BECAUSE",
        "until": "_UNTIL",
        "from": "_FROM",
        "extends": "_EXTENDS",
        "per": "PER",
        "within": "_WITHIN",
        "of": "_OF",
        "and": "AND",
        "or": "OR",
        "x": "X",
    }
)
"""Words that stand behind something, and their terminals."""

_VALUE = frozenset(("QUANTITY", "LSQB"))
_PHRASES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset(("QUANTITY", "LSQB")), "a value"),
    (frozenset(("_LET", "REQUIRE")), "a statement"),
    (frozenset(("_OF",)), "`of`"),
    (frozenset(("STAR", "COMMA", "RSQB")), "`,` or `]`"),
    (frozenset(("STAR", "COMMA", "RPAR")), "`,` or `)`"),
    (frozenset(("COMMA", "RSQB")), "`,` or `]`"),
    (frozenset(("STAR", "COMMA")), "`,` or the end of the line"),
    (frozenset(("STAR", "RPAR")), "`)`"),
    (frozenset(("EQUAL", "LBRACE", "NAME")), "`=`, `{` or a name"),
    (frozenset(("EQUAL", "LBRACE")), "`=` or `{`"),
    (frozenset(("EQUAL",)), "`=`"),
    (frozenset(("LBRACE",)), "`{`"),
    (frozenset(("BECAUSE", "WHEN")), "the end of the line or a clause"),
    (frozenset(("BECAUSE",)), "`because`"),
    (frozenset(("_UNTIL",)), "`until` or the end of the line"),
    (frozenset(("STAR", "_SEP")), "the end of the line"),
    (frozenset(("STAR", "RBRACE")), "the end of the line"),
    (frozenset(("X",)), "`x`"),
    (frozenset(("NAME",)), "a name"),
    (frozenset(("TEXT",)), "a text in double quotes"),
    (frozenset(("NUMBER",)), "a whole number"),
    (frozenset(("RSQB",)), "`]`"),
    (frozenset(("_SEP",)), "the end of the line"),
    (frozenset(("$END",)), "the end of the line"),
    (frozenset(("RBRACE",)), "`}`"),
)
"""The first row whose terminals are all accepted gives the phrase."""


def wants_value(accepted: Iterable[str]) -> bool:
    return _VALUE.issubset(accepted)


def expected_words(accepted: frozenset[str]) -> str:
    return next((phrase for needed, phrase in _PHRASES if needed <= accepted), "something else")
