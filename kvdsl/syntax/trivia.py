"""Comments find their statements.

Comes in: the statements of a block or file, bare, and the comments of the file. Goes out: the
statements with trivia and documentation. Not its job: printing comments (formatter).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kvdsl.syntax.nodes import (
    Assign,
    Block,
    Broken,
    Comment,
    Declare,
    Edition,
    Part,
    Repeat,
    Statement,
    Trivia,
)


class Comments:
    """All comments of a file, found by place."""

    def __init__(self, comments: Sequence[Comment]) -> None:
        self._comments = tuple(comments)
        self._starts = [comment.span.start for comment in comments]

    def between(self, start: int, end: int) -> tuple[Comment, ...]:
        return self._comments[bisect_left(self._starts, start) : bisect_left(self._starts, end)]


@dataclass(frozen=True, slots=True)
class Attached:
    statements: tuple[Statement, ...]
    opening: Comment | None
    dangling: tuple[Comment, ...]


def body_of(statement: Statement) -> Block | None:
    """The block that a statement opens; it holds its own comments."""
    if isinstance(statement, Declare | Part | Repeat):
        return statement.body
    if isinstance(statement, Assign) and isinstance(statement.value, Block):
        return statement.value
    return None


def attach(
    statements: Sequence[Statement], text: str, start: int, end: int, comments: Comments
) -> Attached:
    """Gives the comments in `start..end` that lie between statements to their neighbours."""
    if not comments.between(start, end) and "\n" not in text[start:end]:
        return Attached(tuple(statements), None, ())
    opening: Comment | None = None
    done: list[Statement] = []
    edge = start
    in_braces = text[start - 1 : start] == "{"  # the first line of a file opens nothing
    for statement in statements:
        gap = comments.between(edge, statement.span.start)
        beside, above = _split(gap, text, edge) if done or in_braces else (None, gap)
        if done:
            done[-1] = _with_trailing(done[-1], beside)
        else:
            opening = beside
        done.append(_with_leading(statement, above, text, edge, comments))
        edge = statement.span.end
    gap = comments.between(edge, end)
    beside, below = _split(gap, text, edge) if done or in_braces else (None, gap)
    if done:
        done[-1] = _with_trailing(done[-1], beside)
    else:
        opening = beside
    return Attached(tuple(done), opening, below)


def _split(
    gap: tuple[Comment, ...], text: str, edge: int
) -> tuple[Comment | None, tuple[Comment, ...]]:
    """The comment on the line that ends at `edge`, and those on the lines below it."""
    if gap and "\n" not in text[edge : gap[0].span.start]:
        return gap[0], gap[1:]
    return None, gap


def _with_trailing(statement: Statement, comment: Comment | None) -> Statement:
    if comment is None:
        return statement
    return replace(statement, trivia=replace(statement.trivia, trailing=comment))


def _with_leading(
    statement: Statement, above: tuple[Comment, ...], text: str, edge: int, comments: Comments
) -> Statement:
    blanks = []
    for place in (*above, statement):
        blanks.append(text.count("\n", edge, place.span.start) > 1)
        edge = place.span.end
    within = _inside(statement, comments)
    # Nodes have no place for a comment inside an expression: it moves to the lines above.
    leading = (*above, *within)
    trivia = Trivia(leading, (*blanks, *(False for _ in within)))
    if isinstance(statement, Declare):
        return replace(statement, trivia=trivia, doc=_doc(trivia))
    return replace(statement, trivia=trivia)


def _inside(statement: Statement, comments: Comments) -> tuple[Comment, ...]:
    start, end = statement.span.start, statement.span.end
    if isinstance(statement, Broken):
        return ()  # printed as it stands, with its comments
    body = body_of(statement)
    if body is None:
        return comments.between(start, end)
    return comments.between(start, body.span.start)


def _doc(trivia: Trivia) -> str:
    """The `##` lines right above: the last unbroken run of them, with no empty line below."""
    lines: list[str] = []
    for comment, blank_below in zip(
        reversed(trivia.leading), reversed(trivia.blanks[1:]), strict=True
    ):
        if blank_below or not comment.documents:
            break
        lines.append(_plain(comment))
    return "\n".join(reversed(lines))


def file_doc(statements: Iterable[Statement]) -> str:
    """The `##` lines that an empty line follows, or that stand above `kvspec 1`."""
    return "\n".join(_plain(c) for statement in statements for c in _file_comments(statement))


def _file_comments(statement: Statement) -> Iterator[Comment]:
    trivia = statement.trivia
    run: list[Comment] = []
    for comment, blank_below in zip(trivia.leading, trivia.blanks[1:], strict=True):
        if comment.documents:
            run.append(comment)
        else:
            run.clear()
        if blank_below:
            yield from run
            run.clear()
    if isinstance(statement, Edition):
        yield from run


def _plain(comment: Comment) -> str:
    return comment.text.lstrip("#").removeprefix(" ")
