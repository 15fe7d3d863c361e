"""The chain of one number: formula, numbers put in, result, down to lines and sources.

Comes in: a term. Goes out: an indented tree as text, or records for JSON. A term that several
formulas take is drawn once and named afterwards. Not its job: evaluating anything.

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
from kvdsl.units import exact, shown

DEEPEST_INDENT = 36
"""Columns of indentation at most: a chain that is deeper goes on below without moving right."""

_BASES = {"default": "default: nobody wrote it", "assumed": "assumed"}


def derivation_text(name: str, term: Term, columns: int = COLUMNS, paint: Paint = PLAIN) -> str:
    """The tree of a value under the name it was asked by, ending in a newline."""
    lines = [*wrapped(f"{name} = {exact(term.quantity)}", columns, "", "  "), ""]
    drawing = _Drawing(columns, paint)
    lines += drawing.lines(term, "", "")
    return "\n".join(line.rstrip() for line in lines) + "\n"


class _Drawing:
    """The tree while it is drawn: which terms have been shown."""

    def __init__(self, columns: int, paint: Paint) -> None:
        self.columns = columns
        self.paint = paint
        self.shown: set[int] = set()
        self._numbers: dict[object, int] = {}
        self._known: dict[int, int] = {}

    def lines(self, term: Term, lead: str, rest: str) -> Iterator[str]:
        """A term and what is below it; `lead` stands before its own line, `rest` before others."""
        result = f"{term.label} = {shown(term.quantity)}"
        key = self._identity(term)
        if key in self.shown:
            yield from self._result(f"{result} (as above)", lead, rest)
            return
        self.shown.add(key)
        yield from self._result(result, lead, rest)
        below = rest + ("│  " if term.inputs else "   ")
        for text in _explanations(term):
            for line in wrapped(text, self.columns, below, below + "  "):
                yield below + self.paint(Style.FAINT, line[len(below) :])
        fits = width(rest) < DEEPEST_INDENT
        for index, child in enumerate(term.inputs):
            last = index == len(term.inputs) - 1
            own = rest if fits else rest[:-3]
            branch, under = ("└─ ", "   ") if last else ("├─ ", "│  ")
            yield from self.lines(child, own + branch, own + under)

    def _identity(self, term: Term) -> int:
        """A number for all terms that say the same, down to their leaves: costs make a term anew
        for each stage, and a reader sees the same chain."""
        known = self._known.get(id(term))
        if known is None:
            own = (term.label, term.value, term.dimension, term.basis, term.source, term.note)
            below = tuple(self._identity(child) for child in term.inputs)
            whole = (own, place(term), term.formula and term.formula.text, below)
            known = self._numbers.setdefault(whole, len(self._numbers))
            self._known[id(term)] = known
        return known

    def _result(self, text: str, lead: str, rest: str) -> Iterator[str]:
        first, *more = wrapped(text, self.columns, lead, rest + "  ")
        yield lead + self.paint(Style.STRONG, first[len(lead) :])
        yield from more


def place(term: Term) -> str | None:
    """`prod.kvspec:12` of a leaf that was written somewhere."""
    return None if term.span is None else f"{term.span.file.name}:{term.span.line}"


def _explanations(term: Term) -> Iterator[str]:
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
    if source and source != "definition":
        yield f"source: {source}"
