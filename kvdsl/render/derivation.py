"""The chain of one number: formula, numbers put in, result, down to lines and sources.

Comes in: a term. Goes out: an indented tree as text, or records for JSON. A term that several
formulas take is drawn once and named afterwards, and a source is told once; a sum of one term is
that term. Not its job: evaluating anything.

    KV tokens = 1,402,348 tok
    |  floor(room / bytes a token on the device)
    |  floor(45.23 GB / 32,256 B/tok)
    +- room for the cache = 45.23 GB
    ...
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdsl.formulas import Term
from kvdsl.render.characters import width, wrapped
from kvdsl.render.diagnostics import COLUMNS
from kvdsl.render.paint import PLAIN, Paint, Style
from kvdsl.render.substitution import with_numbers
from kvdsl.units import NONE, number_text, shown, told

DEEPEST_INDENT = 36
"""Columns of indentation at most: a chain that is deeper goes on below without moving right."""

_BASES = {"default": "default: nobody wrote it", "assumed": "assumed"}


ENOUGH = 200
"""Lines of a tree that nobody asked a depth of: it is cut at the level where it would have more."""


def derivation_text(
    name: str, term: Term, columns: int = COLUMNS, paint: Paint = PLAIN, depth: int | None = None
) -> str:
    """The tree of a value under the name it was asked by, ending in a newline. `depth` is how many
    levels below the value are drawn; without one as many as stay in `ENOUGH` lines."""
    value, unit = told(term.quantity)
    number = number_text(value) + ("" if term.dimension == NONE else f" {unit}")
    lines = [*wrapped(f"{name} = {number}", columns, "", "  "), ""]
    drawn = list(_Drawing(columns, paint, depth or _ENDLESS).lines(term, "", ""))
    if depth is None and len(drawn) > ENOUGH:
        drawn = _cut(term, columns, paint, drawn)
    return "\n".join(line.rstrip() for line in (*lines, *drawn)) + "\n"


_ENDLESS = 1_000_000


def _cut(term: Term, columns: int, paint: Paint, whole: list[str]) -> list[str]:
    """The levels that stay in so many lines, one at the least, and how to see the others."""
    levels, best = 1, list(_Drawing(columns, paint, 1).lines(term, "", ""))
    while (more := list(_Drawing(columns, paint, levels + 1).lines(term, "", ""))) != best:
        if len(more) > ENOUGH:
            break
        levels, best = levels + 1, more
    count = f"{len(whole):,}"
    told = f"… stands for more below: `--depth {levels + 1}` goes a level further, `--depth 99`"
    return [*best, "", *wrapped(f"{told} shows all {count} lines", columns)]


class _Drawing:
    """The tree while it is drawn: which terms have been shown."""

    def __init__(self, columns: int, paint: Paint, depth: int) -> None:
        self.columns = columns
        self.paint = paint
        self.depth = depth
        self.shown: set[int] = set()
        self.sources: set[str] = set()
        self._numbers: dict[object, int] = {}
        self._known: dict[int, tuple[Term, int]] = {}  # the term is kept, or its id could return

    def lines(
        self, term: Term, lead: str, rest: str, level: int = 0, part: str = ""
    ) -> Iterator[str]:
        """A term and what is below it; `lead` stands before its own line, `rest` before others."""
        term = _folded(term)
        result = f"{term.label}{part} = {shown(term.quantity)}"
        key = self._identity(term)
        if key in self.shown:
            yield from self._result(f"{result} (as above)", lead, rest)
            return
        self.shown.add(key)
        inputs = term.inputs if level < self.depth else ()
        yield from self._result(
            f"{result} …" if len(inputs) < len(term.inputs) else result, lead, rest
        )
        below = rest + ("│  " if inputs else "   ")
        for text in self._explanations(term):
            for line in wrapped(text, self.columns, below, below + "  "):
                yield below + self.paint(Style.FAINT, line[len(below) :])
        fits = width(rest) < DEEPEST_INDENT
        for index, child in enumerate(inputs):
            last = index == len(inputs) - 1
            same = _joins(term) and child.label == term.label
            name = f", part {index + 1} of {len(inputs)}" if same else ""
            own = rest if fits else rest[:-3]
            branch, under = ("└─ ", "   ") if last else ("├─ ", "│  ")
            yield from self.lines(child, own + branch, own + under, level + 1, name)

    def _explanations(self, term: Term) -> Iterator[str]:
        """What stands below a term's result: formula and numbers, or where a leaf comes from."""
        if term.formula is not None:
            yield term.formula.text
            numbers = with_numbers(term)
            if numbers is not None:
                yield numbers
        if term.note:
            yield term.note
        if term.basis in _BASES:
            yield _BASES[term.basis]
        where = place(term)
        if where is not None:
            yield where
        source = term.source if term.source else term.formula.source if term.formula else None
        if source and source != "definition" and source not in self.sources:
            self.sources.add(source)
            yield f"source: {source}"

    def _identity(self, term: Term) -> int:
        """A number for all terms that say the same, down to their leaves: costs make a term anew
        for each stage, and a reader sees the same chain."""
        known = self._known.get(id(term))
        if known is not None:
            return known[1]
        own = (term.label, term.value, term.dimension, term.basis, term.source, term.note)
        below = tuple(self._identity(_folded(child)) for child in term.inputs)
        whole = (own, place(term), term.formula and term.formula.text, below)
        number = self._numbers.setdefault(whole, len(self._numbers))
        self._known[id(term)] = (term, number)
        return number

    def _result(self, text: str, lead: str, rest: str) -> Iterator[str]:
        first, *more = wrapped(text, self.columns, lead, rest + "  ")
        yield lead + self.paint(Style.STRONG, first[len(lead) :])
        yield from more


def place(term: Term) -> str | None:
    """`prod.kvspec:12` of a leaf that was written somewhere."""
    return None if term.span is None else f"{term.span.file.name}:{term.span.line}"


def _folded(term: Term) -> Term:
    """Without what says nothing: a sum or maximum of one term is that term, by the outer name."""
    label = term.label
    while (
        term.formula is not None
        and len(term.inputs) == 1
        and term.inputs[0].value == term.value
        and term.inputs[0].dimension == term.dimension
        and (_joins(term) or term.inputs[0].label == term.label)
        and not term.note
    ):
        term = term.inputs[0]
    return term if term.label == label else term.named(label)


def _joins(term: Term) -> bool:
    """Whether it is a sum, a maximum or a minimum of what stands below it."""
    return term.formula is not None and term.formula.text.endswith("of the terms")
