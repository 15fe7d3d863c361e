"""The outline of a file: its pieces, brackets and comments, before any grammar is asked.

Comes in: text. Goes out: tokens, the pieces between separators at brace depth 0, and comments. A
piece is what one declaration needs, so a fault in it does not reach the next. Not its job: deciding
whether a piece is right (the grammar) or what is wrong with it (faults).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from kvdsl.source import SourceFile
from kvdsl.syntax.nodes import Comment


class Kind(Enum):
    WORD = "word"
    NUMBER = "number"
    TEXT = "text"
    OPEN = "open"
    CLOSE = "close"
    MARK = "mark"
    SEMICOLON = "semicolon"
    NEWLINE = "newline"
    COMMENT = "comment"
    STRANGE = "strange"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


_TOKEN = re.compile(
    r"""
    (?P<word> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<newline> \n )
  | (?P<open> [({\[] )
  | (?P<close> [)}\]] )
  | (?P<number> [0-9]+(?:_[0-9]+)* (?:\.[0-9]+(?:_[0-9]+)*)? (?:[eE][+-]?[0-9]+)? )
  | (?P<semicolon> ; )
  | (?P<comment> \#[^\n]* )
  | (?P<text> "[^"\n]*"? )
  | (?P<mark> == | != | <= | >= | \.\. | [=<>+\-*/.,%] )
  | (?P<strange> '[^'\n]*' | . )
    """,
    re.VERBOSE,
)
_SKIPPED = re.compile(r"[ \t\r]*")
_BYTE_ORDER_MARK = "\ufeff"

PAIRS = {"(": ")", "[": "]", "{": "}"}
OPERATORS = frozenset(
    ("or", "and", "within", "of", "per", "x", "+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=")
)
CONTINUING = OPERATORS | {","}
"""Behind these a newline does not count, if an operand stands before them."""


def scan(source: SourceFile) -> Iterator[Token]:
    """All tokens but blanks, in order. Nothing fails here: what is no token is STRANGE."""
    text = source.text
    position = 1 if text.startswith(_BYTE_ORDER_MARK) else 0
    kinds = {kind.value: kind for kind in Kind}
    while True:
        position = _SKIPPED.match(text, position).end()  # type: ignore[union-attr]
        found = _TOKEN.match(text, position)
        if found is None:
            return
        kind = found.lastgroup
        assert kind is not None
        value = found.group()
        position = found.end()
        if kind in ("comment", "text"):
            value = value.rstrip()  # a text has its quote at the end, unless it is not closed
        yield Token(kinds[kind], value, found.start())


class LineEnds:
    """Says of each newline whether it ends a statement, seeing what came before it and no more.

    The lexer's filter must not look ahead: the contextual lexer reads the next word in the state
    that the parser has reached, and a token held back leaves that state stale.
    """

    def __init__(self) -> None:
        self._open: list[str] = []
        self._operand = False
        self._continues = False
        self._separated = True

    def feed(self, text: str) -> None:
        """Takes one token that is neither newline nor comment."""
        # An operator is one only behind an operand: `-` may be a sign and `x` a name.
        self._continues = text == "," or (self._operand and text in OPERATORS)
        self._separated = text == "{"
        self._operand = not self._continues and (text[0].isalnum() or text[0] in '_")]%')
        if text in PAIRS:
            self._open.append(text)
        elif text in PAIRS.values() and self._open:
            self._open.pop()

    def separates(self, text: str) -> bool:
        """Whether a newline or semicolon here is the first separator after a statement."""
        inside = bool(self._open) and self._open[-1] != "{"
        if text == "\n" and (self._continues or inside):
            return False
        if self._separated and not inside:
            return False
        self._separated = True
        self._continues = self._operand = False
        return True


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands between two separators at depth 0. `tokens` holds its newlines, no comments.

    `unclosed` is the outermost bracket that no bracket closes, `too_deep` the first one that
    nests deeper than allowed.
    """

    tokens: tuple[Token, ...]
    unclosed: Token | None = None
    too_deep: Token | None = None

    @property
    def start(self) -> int:
        return self.tokens[0].start

    @property
    def end(self) -> int:
        return self.tokens[-1].end


@dataclass(frozen=True, slots=True)
class Outline:
    pieces: tuple[Piece, ...]
    comments: tuple[Comment, ...]


MOST_BRACKETS = 64
"""Brackets inside one another. No plan needs ten; walkers of the tree may recurse below this."""


def outline(source: SourceFile) -> Outline:
    tokens: list[Token] = []
    comments: list[Comment] = []
    for token in scan(source):
        if token.kind is Kind.COMMENT:
            comments.append(Comment(token.text, source.span(token.start, token.end)))
        else:
            tokens.append(token)
    return Outline(tuple(_pieces(source.text, tokens)), tuple(comments))


def _pieces(text: str, tokens: list[Token]) -> Iterator[Piece]:
    # Where a bracket is never closed, a piece would run to the end of the file. From then on a line
    # that starts like a declaration at the margin starts a new piece; at most one piece is read
    # twice, so the time stays linear.
    at, cautious = 0, False
    while at < len(tokens):
        piece, following = _piece(text, tokens, at, cautious=cautious)
        if piece is not None and piece.unclosed is not None and not cautious:
            cautious = True
            piece, following = _piece(text, tokens, at, cautious=True)
        if piece is not None:
            yield piece
        at = following


def _piece(
    text: str, tokens: list[Token], first: int, *, cautious: bool
) -> tuple[Piece | None, int]:
    """The piece that starts at a token, and where the next may start; None between two of them."""
    ends = LineEnds()
    opened: list[Token] = []
    too_deep: Token | None = None
    at = first
    while at < len(tokens):
        token = tokens[at]
        if token.kind is Kind.NEWLINE:
            if not opened and ends.separates("\n") and not _brace_follows(tokens, at):
                break
            # No value looks like a declaration at the margin: a line that goes on ends before it.
            may_end = at > first and (cautious or not opened)
            if may_end and _starts_declaration(text, tokens, at + 1):
                break
        elif token.kind is Kind.SEMICOLON and not opened:
            break
        else:
            ends.feed(token.text)
            if token.kind is Kind.OPEN:
                opened.append(token)
                if len(opened) > MOST_BRACKETS and too_deep is None:
                    too_deep = token
            elif token.kind is Kind.CLOSE:
                _close(opened, token)
        at += 1
    inside = tokens[first:at]
    while inside and inside[-1].kind is Kind.NEWLINE:
        inside.pop()
    while inside and inside[0].kind is Kind.NEWLINE:
        inside.pop(0)
    following = at + 1 if at < len(tokens) and tokens[at].kind is Kind.SEMICOLON else at
    if not inside:
        return None, following
    return Piece(tuple(inside), opened[0] if opened else None, too_deep), following


def _close(opened: list[Token], closer: Token) -> None:
    """A closer ends the innermost bracket of its own shape, and what is open inside that."""
    for depth in range(len(opened) - 1, -1, -1):
        if PAIRS[opened[depth].text] == closer.text:
            del opened[depth:]
            return
        if opened[depth].text == "{":
            return


def _brace_follows(tokens: list[Token], newline: int) -> bool:
    """Whether the next line starts with a `{`: a mistake, told of the piece that it belongs to."""
    if tokens[newline - 1].text == "}":
        return False
    at = newline
    while at < len(tokens) and tokens[at].kind is Kind.NEWLINE:
        at += 1
    return at < len(tokens) and tokens[at].text == "{"


def _starts_declaration(text: str, tokens: list[Token], at: int) -> bool:
    if at >= len(tokens):
        return False
    head = [token.text for token in tokens[at : at + 3]]
    words = [token.kind is Kind.WORD for token in tokens[at : at + 3]]
    start = tokens[at].start
    if len(head) < 3 or not words[0] or text[start - 1 : start] != "\n":
        return False
    if head[0] in ("let", "import"):
        return True
    return words[1] and head[2] in ("{", "extends")
