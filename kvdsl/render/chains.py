"""Derivations of a whole report: every value's steps, each chain printed once.

Comes in: the values of a plan. Goes out: a flat run of steps a value, each with its depth. What was
derived once is not printed again: a step points to the first time. A step tells its plain inputs in
its own line, so that only what is derived takes one: a chain of hundreds of terms stays readable
and its paper short. Not its job: putting numbers into a formula's words (derivation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvdsl.formulas import Term
from kvdsl.render.substitution import with_numbers
from kvdsl.source import Span
from kvdsl.units import Quantity

_BASES = {
    "spec": "written in the spec",
    "catalog": "catalog",
    "default": "default",
    "assumed": "assumed",
}


@dataclass(frozen=True, slots=True)
class Given:
    """An input that needs no line: a figure with where it is from, or one derived elsewhere, whose
    step is `told`."""

    label: str
    quantity: Quantity
    source: str
    basis: str
    note: str
    span: Span | None
    told: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a chain: a value, its formula in words and in numbers, and its plain inputs."""

    depth: int
    name: str
    label: str
    quantity: Quantity
    formula: str
    numbers: str
    source: str
    basis: str
    note: str
    span: Span | None
    givens: tuple[Given, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """A value of the plan with its steps; one without inputs is `plain`: a single step. One that
    says the same as another is `told` there."""

    name: str
    label: str
    quantity: Quantity
    steps: tuple[Step, ...]
    told: str = ""

    @property
    def plain(self) -> bool:
        return len(self.steps) == 1 and not self.steps[0].formula and not self.steps[0].givens


class _Chains:
    """Derivations in the order asked; remembers what was printed.

    Terms that say the same are one, though they were derived twice: each gets a number, and the
    numbers of its inputs stand for what is below it.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._numbers: dict[object, int] = {}
        self._known: dict[int, tuple[Term, int]] = {}  # the term is kept, or its id could return
        self._told: dict[int, str] = {}
        self._derived = 0

    def _number(self, term: Term) -> int:
        known = self._known.get(id(term))
        if known is not None:
            return known[1]
        below = tuple(self._number(inner) for inner in term.inputs)
        said = (term.label, term.value, term.dimension, term.basis, term.source, term.note)
        formula = term.formula and (term.formula.name, term.formula.text)
        number = self._numbers.setdefault((said, formula, term.span, below), len(self._numbers))
        self._known[id(term)] = (term, number)
        return number

    def chain(self, name: str, term: Term) -> Chain:
        bare = _bare(term)
        told = self._told.get(self._number(bare), "")
        if told and bare.inputs:
            return Chain(name, term.label, term.quantity, (), told)
        return Chain(name, term.label, term.quantity, tuple(self._steps(bare, 0)))

    def _steps(self, term: Term, depth: int) -> Iterator[Step]:
        """The step of a term, then those of its inputs that are derived and not told yet."""
        name = self._named(term)
        put_in = with_numbers(term) or ""
        words = _words(term, put_in)
        derived: list[Term] = []
        givens: list[Given] = []
        for inner in map(_bare, term.inputs):
            known = self._number(inner)
            if known not in self._told and inner.inputs:
                derived.append(inner)
                self._named(inner)  # now: what stands before it may point to it
            elif given := self._given(inner, known, spoken=bool(words and put_in)):
                givens.append(given)
        source, basis, note = _origin(term)
        yield Step(
            depth,
            name,
            term.label,
            term.quantity,
            words,
            put_in,
            source,
            basis,
            note,
            term.span,
            tuple(givens),
        )
        for inner in derived:
            yield from self._steps(inner, depth + 1)

    def _named(self, term: Term) -> str:
        """The id of a derived term's step; a leaf has none."""
        number = self._number(term)
        if number not in self._told:
            self._derived += bool(term.inputs)
            name = f"{self._prefix}step-{self._derived}" if term.inputs else ""
            self._told[number] = name
        return self._told[number]

    def _given(self, term: Term, number: int, *, spoken: bool) -> Given | None:
        """None where the formula's words and numbers say all there is to say."""
        if term.inputs:
            told = self._told[number]
            return Given(term.label, term.quantity, "", "", "", None, told)
        again = number in self._told
        self._told[number] = ""
        # What was said stands above.
        source, basis, note = ("", "", "") if again else _origin(term)
        if spoken and not any((source, basis, note, term.span)):
            return None
        return Given(term.label, term.quantity, source, basis, note, term.span)


def _origin(term: Term) -> tuple[str, str, str]:
    """Source, basis and note, without what the place says: that a figure is the spec's own, or the
    catalog's, whose citations stand among the report's sources."""
    source = (term.formula.source if term.formula else term.source) or ""
    source = "" if source == "definition" else source
    if term.span is None or term.inputs:
        return source, _BASES.get(term.basis, ""), term.note
    if term.basis == "catalog":
        return "", "", ""
    return source, "" if term.basis == "spec" else _BASES.get(term.basis, ""), term.note


def _bare(term: Term) -> Term:
    """Without the sums and maxima of one term around it: they say nothing."""
    while term.formula is not None and len(term.inputs) == 1 and _joins(term):
        inner = term.inputs[0]
        if inner.value != term.value or term.note or inner.dimension != term.dimension:
            break
        term = inner
    return term


def _joins(term: Term) -> bool:
    return term.formula is not None and term.formula.text.endswith("of the terms")


def _words(term: Term, put_in: str) -> str:
    """The formula's words; none where the numbers alone say as much (a sum, a maximum)."""
    if term.formula is None or (put_in and _joins(term)):
        return ""
    return term.formula.text


def chains(prefix: str, values: Mapping[str, Term]) -> tuple[Chain, ...]:
    """The chain of each value."""
    made = _Chains(prefix)
    return tuple(made.chain(name, term) for name, term in values.items())
