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

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kvdsl.formulas import Term
from kvdsl.render.characters import width, wrapped
from kvdsl.render.diagnostics import COLUMNS
from kvdsl.render.paint import PLAIN, Paint, Style
from kvdsl.units import exact, shown

DEEPEST_INDENT = 36
"""Columns of indentation at most: a chain that is deeper goes on below without moving right."""

MOST_SUMMANDS = 6
"""A sum of more terms is not written out: they stand right below it."""

_BASES = {"default": "default: nobody wrote it", "assumed": "assumed"}
_OPERAND = re.compile(r"[A-Za-z][A-Za-z_ ]*[A-Za-z_]|[A-Za-z]")
_OPERATOR_X = re.compile(r" x ")


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
        self.shown: set[object] = set()

    def lines(self, term: Term, lead: str, rest: str) -> Iterator[str]:
        """A term and what is below it; `lead` stands before its own line, `rest` before others."""
        result = f"{term.label} = {shown(term.quantity)}"
        key = _identity(term)
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

    def _result(self, text: str, lead: str, rest: str) -> Iterator[str]:
        first, *more = wrapped(text, self.columns, lead, rest + "  ")
        yield lead + self.paint(Style.STRONG, first[len(lead) :])
        yield from more


def _identity(term: Term) -> object:
    """Two leaves that say the same are one; of the others, the very same term is."""
    if term.inputs:
        return id(term)
    return (term.label, term.value, term.dimension, term.basis, term.source, term.note, place(term))


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


# --- numbers put in ----------------------------------------------------------------------------


def with_numbers(term: Term) -> str | None:
    """The formula's text with a figure for each operand: `floor(45.23 GB / 32,256 B/tok)`.

    None unless every operand of the text belongs to exactly one input. A formula remembers its
    text for people, so operands are told by their words; a figure in the wrong place would be
    worse than none.
    """
    formula = term.formula
    if formula is None or not term.inputs:
        return None
    figures = [shown(child.quantity) for child in term.inputs]
    gathered = {"sum": (" + ", "{}"), "greatest": (", ", "max({})"), "least": (", ", "min({})")}
    if formula.name in gathered and formula.text.endswith("the terms"):
        joint, form = gathered[formula.name]
        if not 1 < len(figures) <= MOST_SUMMANDS:
            return None
        return form.format(joint.join(figures))
    operands = _operands(formula.text)
    inputs = _matched([o.words for o in operands], [child.label for child in term.inputs])
    if inputs is None:
        return None
    text = formula.text
    for operand in reversed(operands):
        text = text[: operand.start] + figures[inputs[operand.words]] + text[operand.end :]
    return text


@dataclass(frozen=True, slots=True)
class _Operand:
    words: str
    start: int
    end: int


def _operands(text: str) -> list[_Operand]:
    """The named operands of a formula's text: what stands between operators, not functions."""
    # `x` multiplies: an operator of the same width keeps the places of the others.
    plain = _OPERATOR_X.sub(" * ", text)
    return [
        _Operand(match[0], match.start(), match.end())
        for match in _OPERAND.finditer(plain)
        if not plain.startswith("(", match.end())
    ]


def _matched(phrases: list[str], labels: list[str]) -> dict[str, int] | None:
    """Which input each phrase speaks of; None unless all pair off, one to one."""
    wanted = list(dict.fromkeys(phrases))
    if len(wanted) != len(labels):
        return None
    found: dict[str, int] = {}
    for exactly in (True, False):
        for phrase in wanted:
            free = [i for i in range(len(labels)) if i not in found.values()]
            fits = [i for i in free if _speaks_of(phrase, labels[i], exactly=exactly)]
            if phrase not in found and len(fits) == 1:
                found[phrase] = fits[0]
    left = [phrase for phrase in wanted if phrase not in found]
    if len(left) == 1:
        found[left[0]] = next(i for i in range(len(labels)) if i not in found.values())
    return found if len(found) == len(wanted) else None


def _speaks_of(phrase: str, label: str, *, exactly: bool) -> bool:
    """Whether the words of one stand, in order and together, in the other."""
    a, b = f" {phrase.lower()} ", f" {label.lower().replace('_', ' ')} "
    return a == b if exactly else a in b or b in a
