"""A place where reading stopped, and what stands around it.

Comes in: a piece, an offset, and what could have stood there. Goes out: tokens, spans and phrases
that describe the place. Not its job: deciding what the fault is (faults).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kvdsl.source import SourceFile, Span
from kvdsl.syntax.outline import CONTINUING, Kind, Piece, Token

_LONGEST_QUOTE = 40


@dataclass(frozen=True)
class Fault:
    """Where reading stopped: at `offset`, where one of the terminals `accepted` could stand."""

    source: SourceFile
    piece: Piece
    offset: int
    accepted: frozenset[str]

    @cached_property
    def at(self) -> int:
        """The index of the token that cannot stand there."""
        tokens = self.piece.tokens
        return next((i for i, t in enumerate(tokens) if t.end > self.offset), len(tokens))

    def token(self, index: int) -> Token:
        """The token so many places behind the fault; END outside the piece."""
        place = self.at + index
        tokens = self.piece.tokens
        if 0 <= place < len(tokens):
            return tokens[place]
        return Token(Kind.END, "", tokens[-1].end if place >= 0 else tokens[0].start)

    @property
    def found(self) -> Token:
        return self.token(0)

    @cached_property
    def _before(self) -> int:
        place = self.at - 1
        while place >= 0 and self.piece.tokens[place].kind is Kind.NEWLINE:
            place -= 1
        return place

    @property
    def before(self) -> Token:
        """The last token that was read."""
        return self.token(self._before - self.at)

    @property
    def on_one_line(self) -> bool:
        """Whether the fault stands on the line of what was read before it."""
        return self._before == self.at - 1

    @property
    def line_ends(self) -> bool:
        return self.found.kind in (Kind.NEWLINE, Kind.END, Kind.SEMICOLON)

    @cached_property
    def statement(self) -> tuple[Token, ...]:
        """What was read of the statement that holds the fault."""
        tokens, first, depth = self.piece.tokens, self.at, 0
        while first > 0:
            token = tokens[first - 1]
            depth += (token.text in ")]") - (token.text in "([") if token.text else 0
            continues = first > 1 and tokens[first - 2].text in CONTINUING
            ends = token.kind is Kind.NEWLINE and not continues
            ends = ends or token.kind is Kind.SEMICOLON or token.text in ("{", "}")
            if ends and depth <= 0:
                break
            first -= 1
        return tuple(t for t in tokens[first : self.at] if t.kind is not Kind.NEWLINE)

    @cached_property
    def opened(self) -> tuple[Token, ...]:
        """The brackets that are open at the fault, outermost first."""
        stack: list[Token] = []
        for token in self.piece.tokens[: self.at]:
            if token.kind is Kind.OPEN:
                stack.append(token)
            elif token.kind is Kind.CLOSE and stack:
                stack.pop()
        return tuple(stack)

    def span(self, first: Token, last: Token | None = None) -> Span:
        return self.source.span(first.start, (last or first).end)

    def text(self, first: Token, last: Token) -> str:
        return " ".join(self.source.text[first.start : last.end].split())

    @cached_property
    def place(self) -> Span:
        """What to underline: the token at fault, or the gap where a line ends too early."""
        if self.found.kind is Kind.NEWLINE or self.found.kind is Kind.END:
            end = self.before.end
            return self.source.span(end, end)
        return self.span(self.found)

    @property
    def after(self) -> str:
        """` after `hidden =``, of the statement that was being read."""
        if not self.statement:
            return ""
        quote = self.text(self.statement[0], self.statement[-1])
        if len(quote) > _LONGEST_QUOTE:
            quote = "…" + quote[-_LONGEST_QUOTE:].partition(" ")[2]
        return f" after `{quote}`"

    @property
    def sight(self) -> str:
        """What stands there instead, as a clause."""
        if self.found.kind is Kind.END:
            rest = self.source.text[self.piece.end :].lstrip(" \t\r")
            if rest.startswith(";"):
                return "the statement ends"
            return "the line ends" if rest.strip() else "the file ends"
        if self.line_ends:
            return "the line ends" if self.found.kind is Kind.NEWLINE else "the statement ends"
        quote = self.found.text
        if len(quote) > _LONGEST_QUOTE:
            quote = quote[:_LONGEST_QUOTE] + "…"
        return f"`{quote}` stands there"


def rest_of_statement(source: SourceFile, start: int) -> str:
    """What stands from a place to the end of its line or statement; a list goes to its bracket."""
    end, depth = start, 0
    while end < len(source.text) and (depth or source.text[end] not in "\n;}#,"):
        if source.text[end] in "\n;}#":
            break
        depth = max(0, depth + (source.text[end] in "([") - (source.text[end] in ")]"))
        end += 1
    return " ".join(source.text[start:end].split())
