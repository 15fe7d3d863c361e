"""Derivations of a whole report: every value's steps, each chain printed once.

Comes in: the values of a plan. Goes out: steps, for a template to nest. What was derived once is
not printed again: a step points to the first time. Not its job: putting numbers into a formula's
words (derivation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvdsl.formulas import Term
from kvdsl.render.derivation import with_numbers
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
    """Derivations in the order asked; remembers what was printed."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._told: dict[int, str] = {}
        self._kept: list[Term] = []  # ids of objects mean something only while these live

    def step(self, term: Term) -> Step:
        told = self._told.get(id(term), "") if term.inputs else ""
        name = ""
        if term.inputs and not told:
            name = f"{self._prefix}step-{len(self._kept) + 1}"
            self._told[id(term)] = name
            self._kept.append(term)
        source = term.formula.source if term.formula else term.source
        return Step(
            term.label,
            term.quantity,
            term.formula.text if term.formula else "",
            with_numbers(term) or "",
            "" if told or source is None or source == "definition" else source,
            _BASES.get(term.basis, ""),
            term.note,
            term.span,
            name,
            told,
            () if told else tuple(self.step(inner) for inner in term.inputs),
        )


def chains(prefix: str, values: Mapping[str, Term]) -> tuple[tuple[str, Step], ...]:
    """The chain of each value under its name."""
    made = _Chains(prefix)
    return tuple((name, made.step(term)) for name, term in values.items())
