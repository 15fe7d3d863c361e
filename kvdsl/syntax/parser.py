"""Text becomes a tree.

Comes in: a file. Goes out: its module and diagnostics; nothing is raised, whatever the text. Not
its job: reading files (project) or what names mean (resolve).

A file is read piece by piece, a piece being what stands between separators at brace depth 0. A
piece that cannot be read gives one diagnostic and one Broken; the others are read as if it were
whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kvdsl.diagnostics import Diagnostic, Fix, Label
from kvdsl.source import SourceFile, Span
from kvdsl.syntax.builder import Builder
from kvdsl.syntax.fault import Fault
from kvdsl.syntax.faults import explain, too_deep
from kvdsl.syntax.foreign_syntax import HABITS, foreign_language, statements_start
from kvdsl.syntax.messages import (
    EDITION,
    EmptyFile,
    ForeignText,
    HiddenCharacter,
    MisplacedEdition,
    MissingEdition,
    OtherEdition,
)
from kvdsl.syntax.nodes import Broken, Edition, Module, Name, Statement
from kvdsl.syntax.outline import Kind, Piece, Token, outline
from kvdsl.syntax.tables import acceptable, parser
from kvdsl.syntax.trivia import Comments, attach, file_doc

if TYPE_CHECKING:
    from lark.exceptions import UnexpectedInput

_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufff9-\ufffb\U000e0000-\U000e007f]|(?!\\A)\ufeff"
)
"""Control characters, and those that make a line read otherwise than it is (bidirectional) or that
nobody sees. A byte order mark at the start of a text is none of its characters."""


def parse(source: SourceFile) -> tuple[Module, tuple[Diagnostic, ...]]:
    """The tree of a file and what is wrong with its text, in the order of the text."""
    found = outline(source)
    comments = Comments(found.comments)
    statements: list[Statement] = []
    problems = _hidden_characters(source)
    seen = {problem.span.start for problem in problems}

    at = 0
    while at < len(found.pieces):
        piece = found.pieces[at]
        read, faults = _read(source, piece, comments)
        statements.extend(read)
        spilt = _spilt(source, found.pieces, at + 1, after_fault=bool(faults))
        statements.extend(_broken(source, each) for each in spilt)
        at += 1 + len(spilt)
        if spilt and not faults:
            faults = [_closed_early(source, piece, spilt[-1], comments)]
        problems.extend(fault for fault in faults if fault.span.start not in seen)
    language = "" if _has_edition(statements) else foreign_language(source.text)
    if language:  # one fault: whatever else would be told of such a text is noise
        statements = [Broken(None, None, source.span(0, len(source.text)))]
        problems = [ForeignText(_first_line(source), language).diagnostic()]
    else:
        problems = [*_once(problems), *_check_edition(source, statements)]

    attached = attach(statements, source.text, 0, len(source.text), comments)
    module = Module(source, attached.statements, file_doc(attached.statements), attached.dangling)
    return module, tuple(sorted(problems, key=lambda problem: problem.sort_key))


def _once(problems: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Habits are told of where they start, with their number."""
    counts = Counter(problem.headline for problem in problems)
    for problem in problems:
        more = counts.pop(problem.headline, 0) - 1
        if problem.headline not in HABITS or more == 0:
            yield problem
        elif more > 0:
            yield replace(problem, notes=(f"this file holds {more} more",), fix=None)


def _spilt(
    source: SourceFile, pieces: Sequence[Piece], first: int, *, after_fault: bool
) -> Sequence[Piece]:
    """What a declaration lost by a brace too many or a `{` too few: indented pieces, and the `}`
    that then closes nothing. None of it is wrong for itself, and one message is enough."""
    at = first
    while at < len(pieces) and source.position(pieces[at].start)[1] > 1:
        if pieces[at].tokens[0].text == "}":
            break
        at += 1
    closed = at < len(pieces) and pieces[at].tokens[0].text == "}"
    headless = after_fault and _is_headless(pieces[first - 1])
    if closed and (at > first or after_fault):
        return pieces[first : at + 1]
    return pieces[first:at] if headless else ()


def _is_headless(piece: Piece) -> bool:
    """`deployment prod` without its `{`."""
    words = [token for token in piece.tokens if token.kind is not Kind.NEWLINE]
    named = len(words) > 1 and words[0].kind is words[1].kind is Kind.WORD
    return named and words[0].text != "let" and all(token.text != "{" for token in words)


def _closed_early(
    source: SourceFile, whole: Piece, closer: Piece, comments: Comments
) -> Diagnostic:
    """The brace that closes nothing, beside the one that closed in its place."""
    _, (fault, *_) = _read(source, closer, comments)
    last = whole.tokens[-1]
    if last.text != "}":
        return fault
    label = Label(source.span(last.start, last.end), "what it would close ends here")
    return replace(fault, labels=(*fault.labels, label))


def _read(
    source: SourceFile, piece: Piece, comments: Comments
) -> tuple[list[Statement], list[Diagnostic]]:
    if piece.too_deep is not None:
        return [_broken(source, piece)], [too_deep(source, piece.too_deep)]
    from lark.exceptions import UnexpectedInput

    text = source.text[piece.start : piece.end]
    try:
        tree = parser().parse(text)
    except UnexpectedInput as error:
        fault = _fault(source, piece, error)
    else:
        builder = Builder(source, piece.start, comments)
        statements = builder.statements(tree)
        if not builder.problems:
            return statements, []
        return [_broken(source, piece)], builder.problems
    return [_broken(source, piece)], [explain(fault)]


def _fault(source: SourceFile, piece: Piece, error: UnexpectedInput) -> Fault:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    assert error.interactive_parser is not None
    accepted = acceptable(error.interactive_parser)
    if isinstance(error, UnexpectedCharacters):
        offset = piece.start + error.pos_in_stream  # type: ignore[operator]  # typed as None
    elif isinstance(error, UnexpectedToken) and error.token.type != "$END":
        offset = piece.start + (error.token.start_pos or 0)
    else:
        offset = piece.end
    return Fault(source, piece, offset, accepted)


def _broken(source: SourceFile, piece: Piece) -> Broken:
    """What the piece was, as far as its first words tell: what it declares stays known, so that
    those who use it are not told that it is missing."""
    tokens = [token for token in piece.tokens if token.kind is not Kind.NEWLINE]

    def name(token: Token) -> Name:
        start = token.start + token.text.startswith('"')
        return Name(token.text.strip('"'), source.span(start, start + len(token.text.strip('"'))))

    head = _head(tokens)
    kind = name(head[0]) if head and head[0].kind is Kind.WORD else None
    named: Name | None = None
    if kind is not None and kind.text == "import":
        alias = head[3] if len(head) > 3 and head[2].text == "as" else None
        named = name(alias) if alias is not None and alias.kind is Kind.WORD else None
    elif kind is not None and len(head) > 2 and head[1].kind in (Kind.WORD, Kind.TEXT):
        last = head[2] if head[1].kind is Kind.TEXT and head[2].kind is Kind.TEXT else head[1]
        named = name(last) if last.text != "extends" else None
    return Broken(kind, named, source.span(piece.start, piece.end))


def _head(tokens: Sequence[Token]) -> Sequence[Token]:
    """The first words that look like a head, behind signs that belong to none."""
    for at in range(min(len(tokens), _FARTHEST_HEAD)):
        kinds = [token.kind for token in tokens[at : at + 2]]
        if kinds in ([Kind.WORD, Kind.WORD], [Kind.WORD, Kind.TEXT]):
            opens = tokens[at + 2 : at + 3] and tokens[at + 2].text in ("{", "extends")
            if at == 0 or opens:
                return tokens[at : at + 4]
    return tokens[:4]


_FARTHEST_HEAD = 16
"""Tokens of a comment in another language's signs that may stand before a head."""


def _has_edition(statements: Sequence[Statement]) -> bool:
    return any(isinstance(each, Edition) for each in statements)


def _first_line(source: SourceFile) -> Span:
    """The first line with a statement, to underline."""
    start = statements_start(source.text)
    end = source.text.find("\n", start)
    return source.span(start, end if end >= 0 else len(source.text))


def _check_edition(source: SourceFile, statements: list[Statement]) -> list[Diagnostic]:
    problems = []
    for place, statement in enumerate(statements):
        if not isinstance(statement, Edition):
            continue
        if place > 0 and not all(isinstance(each, Broken) for each in statements[:place]):
            first = isinstance(statements[0], Edition)
            advice = "delete this one" if first else "move it to the top of the file"
            problems.append(MisplacedEdition(statement.span, advice).diagnostic())
        elif statement.number.value != EDITION:
            span = statement.number.span
            fix = Fix("write edition 1", span, str(EDITION))
            problems.append(OtherEdition(span, span.text).diagnostic(fix=fix))
    if not problems and not _starts_with_edition(statements):
        start = 1 if source.text.startswith("\ufeff") else 0
        place_before = source.span(start, start)
        fix = Fix("add the edition", place_before, f"kvspec {EDITION}\n\n")
        empty = not source.text[start:].strip()
        missing = EmptyFile(place_before) if empty else MissingEdition(place_before)
        problems.append(missing.diagnostic(fix=fix))
    return problems


def _starts_with_edition(statements: list[Statement]) -> bool:
    """A broken `kvspec` line has its own message."""
    for first in statements:
        if isinstance(first, Broken) and (first.kind is None or first.kind.text != "kvspec"):
            continue
        return isinstance(first, Edition | Broken)
    return False


def _hidden_characters(source: SourceFile) -> list[Diagnostic]:
    """One diagnostic for all of them: a file of noise has thousands."""
    found = _HIDDEN.search(source.text)
    if found is None:
        return []
    character = found.group()
    name = unicodedata.name(character, "control character").lower()
    others = sum(1 for _ in _HIDDEN.finditer(source.text)) - 1
    span = source.span(found.start(), found.end())
    message = HiddenCharacter(span, f"{name} U+{ord(character):04X}", str(others or ""))
    return [message.diagnostic()]
