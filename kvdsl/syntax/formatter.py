"""The one way to lay out a spec.

Comes in: a module. Goes out: its text, every comment kept, the same when formatted again. Not its
job: the text of one line (phrases) or its columns (columns).

What the author decides and the formatter keeps: whether a block or list stands on one line, empty
lines (one at most), and the column of comments. The rest has one form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass

from kvdsl.syntax import nodes as n
from kvdsl.syntax import phrases
from kvdsl.syntax.columns import Key, Row, lines
from kvdsl.syntax.trivia import body_of

WIDTH = 100
_STEP = 2

_SINGLE = Key("one word")
_OPERATOR = Key("operator", spread=6)
"""Operators of conditions share a column only where that needs little room."""


def format_module(module: n.Module) -> str:
    """Canonical text, with `\\n` for line ends and one at the end."""
    text = "\n".join(_statements(module.statements, module.dangling, 0))
    return text + "\n" if text else ""


def equivalent(a: n.Module, b: n.Module) -> bool:
    """Whether two modules mean the same: equal trees, whatever their places and comments."""
    if a.doc != b.doc:
        return False
    work: list[tuple[object, object]] = [(a.statements, b.statements)]
    while work:
        left, right = work.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return False
            work.extend(zip(left, right, strict=True))
        elif isinstance(left, n.Broken) and isinstance(right, n.Broken):
            if left.span.text.split() != right.span.text.split():
                return False
        elif is_dataclass(left) and not isinstance(left, type):
            names = [field.name for field in fields(left) if field.name not in _LAYOUT]
            work.extend((getattr(left, name), getattr(right, name)) for name in names)
        elif left != right:
            return False
    return True


_LAYOUT = frozenset(("span", "operator_span", "trivia", "dangling", "opening", "one_line"))


def _statements(
    statements: Sequence[n.Statement], dangling: Sequence[n.Comment], indent: int
) -> Iterator[str]:
    paragraph: list[Row] = []
    for index, statement in enumerate(statements):
        trivia = statement.trivia
        if index and any(trivia.blanks):
            yield from lines(paragraph, indent, WIDTH)
            paragraph.clear()
            if trivia.blanks[0]:
                yield ""
        above, near = _comments_above(trivia)
        yield from (" " * indent + text if text else "" for text in above)
        body = None if _fits(statement, indent) else body_of(statement)
        row = _row(statement, near, indent, opens=body is not None)
        paragraph.append(row)
        if body is None:
            continue
        yield from lines(paragraph, indent, WIDTH)
        paragraph.clear()
        yield from _statements(body.statements, body.dangling, indent + _STEP)
        yield from lines([_closer(body, trivia.trailing)], indent, WIDTH)
    yield from lines(paragraph, indent, WIDTH)
    for index, comment in enumerate(dangling):
        if _blank_before(comment) and (index or statements):
            yield ""
        yield " " * indent + comment.text


def _comments_above(trivia: n.Trivia) -> tuple[list[str], tuple[str, ...]]:
    """The lines up to the last empty one, which end a paragraph, and those right above."""
    above: list[str] = []
    near: list[str] = []
    for index, comment in enumerate(trivia.leading):
        near.append(comment.text)
        if trivia.blanks[index + 1]:
            above.extend((*near, ""))
            near.clear()
    return above, tuple(near)


def _blank_before(comment: n.Comment) -> bool:
    text, start = comment.span.file.text, comment.span.start
    while start and text[start - 1].isspace():
        start -= 1
    return text.count("\n", start, comment.span.start) > 1


def _fits(statement: n.Statement, indent: int) -> bool:
    """Whether a block was written on one line, or is empty, and still fits."""
    body = body_of(statement)
    if body is None:
        return True
    if body.opening is not None or body.dangling:
        return False
    written_so = body.one_line or not body.statements
    return written_so and indent + len(phrases.in_one_line(statement)) <= WIDTH


def _row(statement: n.Statement, above: tuple[str, ...], indent: int, *, opens: bool) -> Row:
    cells, keys = _cells(statement, indent, opens=opens)
    body = body_of(statement)
    comment = body.opening if opens and body is not None else statement.trivia.trailing
    if not opens and "\n" in cells[-1]:
        keys = ()
    return Row(
        cells if keys else (" ".join(cells),),
        keys,
        above,
        comment.text if comment is not None else "",
        _column(comment, statement.span.start),
        block=body is not None and not opens,
        opens=opens,
    )


def _closer(body: n.Block, comment: n.Comment | None) -> Row:
    text = comment.text if comment is not None else ""
    return Row(("}",), comment=text, column=_column(comment, body.span.end - 1))


def _column(comment: n.Comment | None, start: int) -> int:
    """Where a comment was written, if what it speaks of, from `start`, had the line for itself."""
    if comment is None:
        return 0
    text = comment.span.file.text
    line = text.rfind("\n", 0, start) + 1
    return comment.span.column - 1 if not text[line:start].strip() else 0


def _cells(
    statement: n.Statement, indent: int, *, opens: bool
) -> tuple[tuple[str, ...], tuple[Key, ...]]:
    """The line cut where columns may start, and with whom each cut is shared."""
    match statement:
        case n.Assign(value=n.Block()) | n.Declare() | n.Part() | n.Repeat():
            return _block_cells(statement, opens=opens)
        case n.Assign():
            assert not isinstance(statement.value, n.Block)
            head = phrases.path(statement.path)
            source = phrases.source_clause(statement)
            return (head, f"= {_value(statement.value, indent, head + source)}{source}"), (_SINGLE,)
        case n.Let():
            head = f"let {statement.name.text}"
            return (head, f"= {_value(statement.value, indent, head)}"), (Key("let"),)
        case n.Require(condition=n.Binary() | n.Within()):
            return _condition_cells(statement)
        case n.Require():
            condition = phrases.expression(statement.condition) + phrases.clauses(statement)
            return (statement.keyword.text, condition), (Key("condition"),)
        case _:
            return (phrases.in_one_line(statement),), ()


def _block_cells(
    statement: n.Assign | n.Declare | n.Part | n.Repeat, *, opens: bool
) -> tuple[tuple[str, ...], tuple[Key, ...]]:
    head = phrases.head_of(statement)
    before = phrases.before_brace(statement)
    shape = _SINGLE
    if isinstance(statement, n.Repeat):
        shape = Key("repeat")
    elif not isinstance(statement, n.Assign) and statement.name is not None:
        shape = Key(("named", statement.kind.text))
    body = body_of(statement)
    assert body is not None
    if opens:
        return (head, f"{before}{{"), (shape,)
    names = tuple(
        phrases.path(inner.path)
        for inner in body.statements
        if isinstance(inner, n.Assign) and not isinstance(inner.value, n.Block)
    )
    if len(names) < 2 or len(names) < len(body.statements):
        return (head, before + phrases.block_in_one_line(body)), (shape,)
    inner = [phrases.in_one_line(s) for s in body.statements]
    cells = [f"{text};" for text in inner[:-1]]
    cells[0] = f"{before}{{ {cells[0]}"
    inner_key = Key((before, names))
    return (head, *cells, f"{inner[-1]} }}"), (shape, *(inner_key for _ in cells))


def _condition_cells(statement: n.Require) -> tuple[tuple[str, ...], tuple[Key, ...]]:
    condition = statement.condition
    if isinstance(condition, n.Binary) and condition.operator not in ("and", "or"):
        left, right = phrases.operands(condition)
        rest = f"{condition.operator} {right}"
    else:
        left, rest = phrases.expression(condition), ""
        return (statement.keyword.text, left + phrases.clauses(statement)), (Key("condition"),)
    words = (statement.keyword.text, left, rest + phrases.clauses(statement))
    return words, (Key("condition"), _OPERATOR)


def _value(value: n.Expr, indent: int, others: str) -> str:
    """An expression; a list that was written on several lines, or is too long, stays so."""
    text = phrases.expression(value)
    if not isinstance(value, n.Items) or not value.items:
        return text
    opening = value.span.file.text[value.span.start : value.items[0].span.start]
    if "\n" not in opening and indent + len(others) + len(" = ") + len(text) <= WIDTH:
        return text
    margin = " " * indent
    items = ",\n".join(f"{margin}  {phrases.expression(item)}" for item in value.items)
    return f"[\n{items}\n{margin}]"
