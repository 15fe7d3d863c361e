"""Lark's tree of a piece becomes nodes.

Comes in: the tree of one piece and the file's comments. Goes out: statements, and problems that a
grammar cannot see. Not its job: the grammar, or recovery (parser).

The tree is walked without recursion: a chain of ten thousand signs is a fault to report, not a
reason to crash. What is built is at most MOST_OPERATORS deep, so later walks may recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kvdsl.diagnostics import Diagnostic, Fix, Message
from kvdsl.source import SourceFile, Span
from kvdsl.syntax import nodes as n
from kvdsl.syntax.messages import BadNumber, MisplacedWord, TooDeep, TruthSpelled, UnknownUnit
from kvdsl.syntax.numbers import MOST_DIGITS, read_number
from kvdsl.syntax.trivia import Comments, attach
from kvdsl.units import MISTAKEN, UNITS, Quantity

if TYPE_CHECKING:
    from lark import Token, Tree

MOST_OPERATORS = 100
"""Operators, lists and calls inside one another in one expression."""

_TRUTHS = ("True", "False", "TRUE", "FALSE")


@dataclass(frozen=True, slots=True)
class _Clause:
    keyword: n.Name
    content: n.Expr | n.Name | n.Text


@dataclass
class Builder:
    """Builds the statements of one piece, which starts `base` characters into the file."""

    source: SourceFile
    base: int
    comments: Comments
    problems: list[Diagnostic] = field(default_factory=list)

    def statements(self, tree: Tree[Token]) -> list[n.Statement]:
        """The statements of a `file` tree; use them only if `problems` stays empty."""
        built: list[tuple[Any, int]] = []
        work: list[tuple[Tree[Token], bool]] = [(tree, False)]
        while work:
            branch, ready = work.pop()
            inner = [child for child in branch.children if not _is_leaf(child)]
            if not ready:
                work.append((branch, True))
                work.extend((child, False) for child in reversed(inner))  # type: ignore[misc]
                continue
            below = built[len(built) - len(inner) :]
            del built[len(built) - len(inner) :]
            height = max((h for _, h in below), default=0)
            built.append(self._node(branch, iter(below), height))
        statements: list[n.Statement] = built[0][0]
        return statements

    def _node(
        self, branch: Tree[Token], below: Iterator[tuple[Any, int]], height: int
    ) -> tuple[Any, int]:
        parts = [child if _is_leaf(child) else next(below)[0] for child in branch.children]
        rule = str(branch.data)
        if rule == "file":
            return [part for part in parts if part is not None], 0
        span = self._span(branch.meta.start_pos, branch.meta.end_pos)
        if rule in _NESTING:
            height += 1
            if height == MOST_OPERATORS + 1:
                self._say(
                    _too_many_operators(
                        self._span(branch.meta.start_pos, branch.meta.start_pos + 1)
                    )
                )
        elif rule not in _TRANSPARENT:
            height = 0
        return _RULES[rule](self, span, *parts), height

    def _span(self, start: int, end: int) -> Span:
        return Span(self.source, self.base + start, self.base + end)

    def _say(self, message: Message, fix: Fix | None = None) -> None:
        self.problems.append(message.diagnostic(fix=fix))

    # --- leaves --------------------------------------------------------------------------------

    def _token_span(self, token: Token) -> Span:
        start = token.start_pos or 0
        return self._span(start, start + len(token))

    def _name(self, token: Token) -> n.Name:
        return n.Name(str(token), self._token_span(token))

    def _text(self, token: Token) -> n.Text:
        return n.Text(token[1:-1], self._token_span(token))

    def _number(self, token: Token) -> n.Number:
        span = self._token_span(token)
        return n.Number(self._value(str(token), span), span)

    def _value(self, digits: str, span: Span) -> int | Fraction:
        value = read_number(digits)
        if value is None:
            problem = f"numbers here have at most {MOST_DIGITS} digits"
            self._say(BadNumber(span, problem))
            return 0
        return value

    def _whole(self, token: Token) -> int:
        number = self._number(token)
        if isinstance(number.value, int):
            return number.value
        self._say(BadNumber(number.span, f"`{token}` counts nothing: an index is a whole number"))
        return 0

    # --- statements ----------------------------------------------------------------------------

    def edition(self, span: Span, number: Token) -> n.Edition:
        return n.Edition(self._number(number), span)

    def import_file(
        self, span: Span, path: Token, _: Token | None, alias: Token | None
    ) -> n.Import:
        return n.Import(self._text(path), self._name(alias) if alias else None, span)

    def assign(
        self, span: Span, path: n.Path, value: n.Expr | n.Block, source: Token | None = None
    ) -> n.Assign:
        return n.Assign(path, value, self._text(source) if source else None, span)

    def open_block(
        self, span: Span, kind: Token, parent: n.Path | None, body: n.Block
    ) -> n.Declare:
        return n.Declare(self._name(kind), None, parent, body, span)

    def declare(
        self, span: Span, kind: Token, name: Token, parent: n.Path | None, body: n.Block
    ) -> n.Declare:
        return n.Declare(self._name(kind), self._name(name), parent, body, span)

    def part(self, span: Span, kind: Token, name: Token, form: Token, body: n.Block) -> n.Part:
        return n.Part(self._name(kind), self._name(name), self._name(form), body, span)

    def repeat(self, span: Span, count: Token, _: Token, kind: Token, body: n.Block) -> n.Repeat:
        number = self._number(count)
        if not isinstance(number.value, int):
            problem = f"`{count}` counts nothing: a block repeats a whole number of times"
            self._say(BadNumber(number.span, problem))
        return n.Repeat(number, self._name(kind), body, span)

    def mention(self, span: Span, name: Token) -> n.Mention:
        return n.Mention(self._name(name), span)

    def require(
        self, span: Span, keyword: Token, condition: n.Expr, *clauses: _Clause
    ) -> n.Require:
        found: dict[str, _Clause] = {}
        for clause in clauses:
            word = clause.keyword.text
            if word in found:
                advice = "join the conditions with `and`" if word == "when" else ""
                problem = "stands twice in one statement"
                self._say(MisplacedWord(clause.keyword.span, word, problem, advice))
            found[word] = clause
        when, label, because = (found.get(word) for word in ("when", "as", "because"))
        return n.Require(
            self._name(keyword),
            condition,
            when.content if when and not isinstance(when.content, n.Text) else None,
            label.content if label and isinstance(label.content, n.Name) else None,
            because.content if because and isinstance(because.content, n.Text) else None,
            span,
        )

    def clause(self, _: Span, keyword: Token, content: n.Expr | Token) -> _Clause:
        word = self._name(keyword)
        if not isinstance(content, str):
            return _Clause(word, content)
        return _Clause(word, self._name(content) if word.text == "as" else self._text(content))

    def allow(
        self, span: Span, code: Token, _: Token, because: Token, until: Token | None
    ) -> n.Allow:
        date = None if until is None else self._text(until)
        return n.Allow(self._name(code), self._text(because), date, span)

    def compare(self, span: Span, *items: n.Expr) -> n.Compare:
        return n.Compare(items, span)

    def drop(self, span: Span, path: n.Path) -> n.Drop:
        return n.Drop(path, span)

    def let(self, span: Span, name: Token, value: n.Expr) -> n.Let:
        return n.Let(self._name(name), value, span)

    def block(self, span: Span, *statements: n.Statement | None) -> n.Block:
        inside = [statement for statement in statements if statement is not None]
        text = self.source.text
        found = attach(inside, text, span.start + 1, span.end - 1, self.comments)
        one_line = "\n" not in span.text
        return n.Block(found.statements, span, found.dangling, found.opening, one_line)

    def path(self, span: Span, *parts: Token | n.Range | None) -> n.Path:
        names = tuple(self._name(part) for part in parts if isinstance(part, str))
        ranges = tuple(part for part in parts if isinstance(part, n.Range))
        return n.Path(names, ranges, span)

    def range(self, span: Span, first: Token, last: Token | None) -> n.Range:
        start = self._whole(first)
        return n.Range(start, self._whole(last) if last is not None else start, span)

    # --- expressions ---------------------------------------------------------------------------

    def value_path(self, _: Span, path: n.Path) -> n.Path:
        if path.dotted in _TRUTHS:
            meant = path.dotted.lower()
            self._say(TruthSpelled(path.span, meant), Fix(f"write `{meant}`", path.span, meant))
        return path

    def number(self, _: Span, token: Token) -> n.Number:
        return self._number(token)

    def measure(self, span: Span, token: Token) -> n.Measure:
        end = len(token)
        while end and not (token[end - 1].isdigit() or token[end - 1] in " \t"):
            end -= 1
        digits, unit = token[:end].rstrip(), token[end:]
        value = self._value(digits, span)
        return n.Measure(Quantity.of(value, unit), digits, unit, span)

    def text(self, _: Span, token: Token) -> n.Text:
        return self._text(token)

    def truth(self, span: Span, token: Token) -> n.Truth:
        return n.Truth(str(token) == "true", span)

    def items(self, span: Span, *items: n.Expr | None) -> n.Items:
        return n.Items(tuple(item for item in items if item is not None), span)

    def call(self, span: Span, function: Token, *arguments: n.Expr | None) -> n.Call:
        given = tuple(argument for argument in arguments if argument is not None)
        return n.Call(self._name(function), given, span)

    def group(self, _: Span, inner: n.Expr) -> n.Expr:
        return inner

    def unary(self, span: Span, operator: Token, operand: n.Expr) -> n.Unary:
        return n.Unary(str(operator), operand, span)

    def binary(self, span: Span, left: n.Expr, operator: Token, right: n.Expr) -> n.Binary:
        place = self._token_span(operator)
        if operator == "/" and isinstance(left, n.Measure) and isinstance(right, n.Path):
            self._check_rate(left, place, right)
        return n.Binary(str(operator), left, right, place, span)

    def _check_rate(self, left: n.Measure, slash: Span, right: n.Path) -> None:
        """`5 GB/sec` reads as a division by a name; written so close, a unit was meant."""
        close = left.span.end == slash.start and slash.end == right.span.start
        meant = MISTAKEN.get(right.dotted)
        if close and meant is not None and meant in UNITS:
            fix = Fix(f"write {meant}", right.span, meant)
            self._say(UnknownUnit(right.span, right.dotted, f"`{left.unit}/{meant}`"), fix)

    def within(self, span: Span, value: n.Expr, tolerance: n.Expr, target: n.Expr) -> n.Within:
        return n.Within(value, tolerance, target, span)


def _is_leaf(child: object) -> bool:
    """A token or a part that was left out; Lark is not imported to ask."""
    return child is None or isinstance(child, str)


def _too_many_operators(span: Span) -> TooDeep:
    advice = "name parts of it with `let`, or add up a list with `sum`"
    problem = f"this expression chains or nests more than {MOST_OPERATORS} operators"
    return TooDeep(span, problem, advice)


_NESTING = frozenset(("items", "call", "unary", "binary", "within"))
_TRANSPARENT = frozenset(("group", "clause"))

_RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        rule.__name__: rule
        for rule in (
            Builder.edition,
            Builder.import_file,
            Builder.assign,
            Builder.open_block,
            Builder.declare,
            Builder.part,
            Builder.repeat,
            Builder.mention,
            Builder.require,
            Builder.clause,
            Builder.allow,
            Builder.compare,
            Builder.drop,
            Builder.let,
            Builder.block,
            Builder.path,
            Builder.range,
            Builder.value_path,
            Builder.number,
            Builder.measure,
            Builder.text,
            Builder.truth,
            Builder.items,
            Builder.call,
            Builder.group,
            Builder.unary,
            Builder.binary,
            Builder.within,
        )
    }
)
"""What each rule and alias of the grammar makes."""
