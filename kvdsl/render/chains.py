"""Derivations of a whole report: every value's steps, each chain printed once.

Comes in: the values of a plan. Goes out: steps, for a template to nest. What was derived once is
not printed again: a step points to the first time. Not its job: putting numbers into a formula's
words (derivation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvdsl.formulas import Term
from kvdsl.render.substitution import with_numbers
from kvdsl.source import Span
from kvdsl.units import Quantity

_BASES = {
    "spec": "written in the spec",
    "catalog": "catalog",
    "default": "default: nobody wrote it",
    "assumed": "assumed: nothing gives it",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One value of a chain. `name` is its id where it can be pointed to, `told` the id of the step
    that prints the same chain already."""

    label: str
    quantity: Quantity
    formula: str
    numbers: str
    source: str
    basis: str
    note: str
    span: Span | None
    name: str
    told: str
    inputs: tuple[Step, ...]

    @property
    def bare(self) -> bool:
        """Whether there is nothing to say but the value."""
        more = (self.formula, self.source, self.basis, self.note, self.told)
        return not any(more) and self.span is None and not self.inputs


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

    def step(self, term: Term) -> Step:
        number = self._number(term)
        told = self._told.get(number, "")
        name = ""
        if not told:
            name = f"{self._prefix}step-{len(self._told) + 1}" if term.inputs else ""
            self._told[number] = name or "-"
        elif not term.inputs:
            return self._leaf_again(term)
        source = term.formula.source if term.formula else term.source
        put_in = with_numbers(term) or ""
        return Step(
            term.label,
            term.quantity,
            _text(term, put_in),
            put_in,
            "" if told or source is None or source == "definition" else source,
            _BASES.get(term.basis, ""),
            term.note,
            term.span,
            name,
            told,
            () if told else tuple(self.step(inner) for inner in term.inputs),
        )

    def _leaf_again(self, term: Term) -> Step:
        """A leaf whose note and source stand above already: its value and place are enough."""
        again = Term(term.label, term.value, term.dimension, span=term.span)
        return Step(again.label, again.quantity, "", "", "", "", "", again.span, "", "", ())


def _text(term: Term, put_in: str) -> str:
    """The formula's words; none where the numbers alone say as much (a sum, a maximum)."""
    if term.formula is None or (put_in and term.formula.text.endswith("of the terms")):
        return ""
    return term.formula.text


def chains(prefix: str, values: Mapping[str, Term]) -> tuple[tuple[str, Step], ...]:
    """The chain of each value under its name."""
    made = _Chains(prefix)
    return tuple((name, made.step(term)) for name, term in values.items())
