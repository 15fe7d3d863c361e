"""Formulas: written once, evaluated on numbers or numpy arrays, derived when asked.

A `Formula` has a name, its text as a person would write it, the dimension it gives and a source.
Called with numbers (or arrays) it gives a number (or an array): `ring_time(ranks=8, …)`. `derive`
takes terms and gives a term, which remembers the formula and what was put in, down to the lines of
the spec and the catalog's sources. Not its job: knowing any physics (costs) or printing (render).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, cast

from kvdsl.arithmetic import arrayed, greater, smaller
from kvdsl.source import Span
from kvdsl.units import NONE, Dimension, Quantity, Value, tidy

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, slots: bool) -> Callable[[type], type]:
        """A dataclass that the type checker alone holds to be frozen. One that is frozen when it
        runs takes six times as long to make, and terms are made by the hundred thousand."""
        return dataclass(slots=slots, unsafe_hash=frozen)


@record(frozen=True, slots=True)
class Term:
    """A value with where it came from: a formula and its inputs, or a place and a source.

    `basis` says what a leaf is: `spec` (the user wrote it), `catalog`, `default` (nobody wrote
    it), `assumed` (nothing gives it; the note says what was taken), `definition` (a constant of
    what is asked) or `derived`.
    """

    label: str
    value: Value
    dimension: Dimension = NONE
    formula: Formula | None = None
    inputs: tuple[Term, ...] = ()
    basis: str = "derived"
    span: Span | None = None
    source: str | None = None
    note: str = ""

    @property
    def quantity(self) -> Quantity:
        return Quantity(self.value, self.dimension)

    def named(self, label: str) -> Term:
        """The same value under another name."""
        return Term(
            label,
            self.value,
            self.dimension,
            self.formula,
            self.inputs,
            self.basis,
            self.span,
            self.source,
            self.note,
        )

    @property
    def grounds(self) -> tuple[Term, ...]:
        """The inputs of which some may be assumed."""
        return self.inputs

    def leaves(self) -> Iterator[Term]:
        """Every leaf below, each once, in order."""
        return _ends(self, lambda term: term.inputs)

    def assumptions(self) -> Iterator[Term]:
        """The leaves that are assumed, each once, in order."""
        found = _ends(self, lambda term: term.grounds)
        return (term for term in found if term.basis == "assumed")


def _ends(root: Term, below: Callable[[Term], tuple[Term, ...]]) -> Iterator[Term]:
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        term = waiting.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        inputs = below(term)
        if inputs:
            waiting.extend(reversed(inputs))
        else:
            yield term


class Deferred(Term):
    """A term whose value is known and whose derivation is made when somebody asks for it: of the
    layouts that findings compare most are known by their values alone."""

    __slots__ = ("derived", "stands_on")
    derived: Callable[[], Term]
    stands_on: tuple[Term, ...] | None

    @property
    def grounds(self) -> tuple[Term, ...]:
        known = getattr(self, "stands_on", None)  # a changed copy has none
        return self.inputs if known is None else known

    def __getattr__(self, name: str) -> Any:
        # Reached for slots that are still empty.
        if name not in _DEFERRED:
            raise AttributeError(name)
        found = self.derived()
        for each in _DEFERRED:
            object.__setattr__(self, each, getattr(found, each))
        return getattr(found, name)

    def named(self, label: str) -> Term:
        return deferred(label, self.value, self.dimension, lambda: self, (self,))


_DEFERRED = ("formula", "inputs", "note")


def deferred(
    label: str,
    value: Value,
    dimension: Dimension,
    derived: Callable[[], Term],
    grounds: tuple[Term, ...] | None = None,
) -> Deferred:
    """A derived term of a value; `derived` gives a term of the same value, once it is needed. Where
    `grounds` are given, nothing in it is assumed but what is in them, and in their order."""
    term: Any = object.__new__(Deferred)
    term.label, term.value, term.dimension = label, value, dimension
    term.basis, term.span, term.source = "derived", None, None
    term.derived, term.stands_on = derived, grounds
    return cast(Deferred, term)


@dataclass(frozen=True, eq=False)
class Formula:
    """`text` is what a person would write; `gives` the dimension of the result; `source` where the
    formula comes from. `function` takes the inputs by their names."""

    name: str
    text: str
    gives: Dimension
    source: str
    function: Callable[..., Any]

    def __call__(self, **inputs: Any) -> Any:
        return self.function(**inputs)

    def derive(self, label: str = "", note: str = "", **inputs: Term) -> Term:
        value = self.function(**{name: term.value for name, term in inputs.items()})
        terms = [
            term if term.label else term.named(name.replace("_", " "))
            for name, term in inputs.items()
        ]
        return Term(
            label or self.name, _tidy(value), self.gives, self, tuple(terms), "derived", None, None,
            note,
        )  # fmt: skip


def _tidy(value: Any) -> Value:
    found: Value = tidy(value) if type(value) is Fraction else value
    return found


def formula(
    text: str, gives: Dimension, source: str = "definition", *, name: str = ""
) -> Callable[[Callable[..., Any]], Formula]:
    """Makes a formula of a function; its name is the function's, with spaces, unless given."""

    def made(function: Callable[..., Any]) -> Formula:
        title = name or function.__name__.replace("_", " ")
        return Formula(title, text, gives, source, function)

    return made


def assumed(label: str, value: Value, dimension: Dimension, note: str) -> Term:
    """A value that nothing gives: the report lists it."""
    return Term(label, value, dimension, basis="assumed", note=note)


def _gathered(name: str, text: str, pick: Callable[[Sequence[Any]], Any]) -> _Gather:
    return _Gather(name, text, pick)


@dataclass(frozen=True, slots=True)
class _Gather:
    """A formula over however many terms of one dimension."""

    name: str
    text: str
    pick: Callable[[Sequence[Any]], Any]

    def __call__(self, label: str, terms: Sequence[Term], note: str = "") -> Term:
        if not terms:
            raise ValueError(f"{self.name} of nothing")
        dimension = terms[0].dimension
        if any(t.dimension is not dimension and t.dimension != dimension for t in terms):
            raise ValueError(f"{self.name} of unlike terms: {label}")
        made = _gathering(self, dimension)
        value = self.pick([term.value for term in terms])
        return Term(label, _tidy(value), dimension, made, tuple(terms), note=note)


@cache
def _gathering(over: _Gather, dimension: Dimension) -> Formula:
    return Formula(over.name, over.text, dimension, "definition", over.pick)


_PLAIN = frozenset({int, float, Fraction})


def _added(values: Sequence[Any]) -> Any:
    if not _PLAIN.issuperset(map(type, values)) and any(map(arrayed, values)):
        # An array takes a Fraction, and becomes one of objects.
        values = [float(value) if isinstance(value, Fraction) else value for value in values]
    return sum(values)


total = _gathered("sum", "sum of the terms", _added)
greatest = _gathered(
    "greatest", "the greatest of the terms", lambda values: reduce(greater, values)
)
least = _gathered("least", "the least of the terms", lambda values: reduce(smaller, values))
