"""A spec with every kind, broken at every token as an editor's buffer or a slip would break it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvdsl.diagnostics import Diagnostic
from kvdsl.project.loader import load_text
from kvdsl.render.diagnostics import concise, drawn
from kvdsl.resolve.resolver import Resolver
from kvdsl.source import SourceFile
from kvdsl.syntax.outline import Kind, Token, scan

SPEC = Path(__file__).resolve().parent / "errors" / "every_kind.kvspec"
TEXT = SPEC.read_text(encoding="utf-8")
BLANK = (Kind.NEWLINE, Kind.COMMENT, Kind.END)
TOKENS = [token for token in scan(SourceFile(SPEC.name, TEXT)) if token.kind not in BLANK]
TERMINALS = re.compile(
    r"\b(LBRACE|RBRACE|LSQB|RSQB|LPAR|RPAR|EQUAL|COMMA|QUANTITY|_SEP|\$END|__ANON\w*)\b"
)
"""Names that only the grammar knows."""


def problems_of(text: str) -> tuple[Diagnostic, ...]:
    return Resolver(load_text(text, SPEC.name, SPEC.parent)).check()


def words_of(problem: Diagnostic) -> str:
    return "\n".join((problem.headline, problem.primary.text, *problem.notes, *problem.helps))


def broken(token: Token, way: str) -> str:
    before, after = TEXT[: token.start], TEXT[token.end :]
    match way:
        case "ends here":
            return TEXT[: token.end]
        case "missing":
            return before + after
        case "twice":
            return f"{before}{token.text} {token.text}{after}"
        case "half":
            return before + token.text[: len(token.text) // 2] + after
        case _:
            return before + way + after


WAYS = ("ends here", "missing", "twice", "half", "{", "}", "=", "8 KB", "x", "\n", ";", "?", '"')


EVERYWHERE = ("ends here", "missing")


def places(way: str) -> list[Token]:
    """Every token for the ways that happen most; for the others every fourth, each its own."""
    return TOKENS if way in EVERYWHERE else TOKENS[WAYS.index(way) % 4 :: 4]


def test_the_spec_is_sound() -> None:
    assert problems_of(TEXT) == ()


@pytest.mark.parametrize("way", WAYS)
def test_each_break_is_told_in_words_and_in_few_of_them(way: str) -> None:
    for token in places(way):
        text = broken(token, way)
        problems = problems_of(text)
        where = f"{way} at {token.text!r} of line {TEXT[: token.start].count(chr(10)) + 1}"
        assert len(problems) <= 6, f"{where}\n" + "\n".join(map(concise, problems))
        for problem in problems:
            words = words_of(problem)
            assert not TERMINALS.search(words), f"{where}\n{words}"
            assert "None" not in words, f"{where}\n{words}"
            drawn(problem)
            concise(problem)


def test_what_ends_in_the_middle_is_always_told() -> None:
    """Up to a closing brace of depth 0, nothing is whole."""
    for token in TOKENS[2:]:
        text = TEXT[: token.end]
        inside = text.count("{") > text.count("}")
        if inside:
            assert problems_of(text), text[-60:]


def test_a_broken_token_leaves_the_other_declarations_alone() -> None:
    """One fault gives one message: a few where a declaration that others use is lost."""
    counts = [
        len(problems_of(broken(token, "?"))) for token in TOKENS[::4] if token.kind is not Kind.TEXT
    ]
    assert sum(counts) / len(counts) < 1.5
