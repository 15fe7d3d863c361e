"""Which term moved a value: the way from the value down its derivation.

Comes in: a term before and after. Goes out: the terms that moved most, from the first fork to the
last that has no change below it. Terms are matched by their names within one formula; where the
two derivations part, the way ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvdsl.difference import Mover
from kvdsl.formulas import Term

DEEPEST = 24
"""Steps after which a derivation is taken to say nothing new."""

COUNTS = 0.1
"""A part by which a second input has to move, to be told beside the first."""

MOST = 3
"""Movers that are kept: the first, the last and one between."""


def movers(before: Term, after: Term) -> tuple[Mover, ...]:
    found = list(_way(before, after))
    fork = _against(before, after)
    if fork is not None:
        first, other = fork
        way = list(_way(*other))
        return (_mover(first), _mover(other), *way[len(way) // 2 :][:1])
    if len(found) > MOST:
        found = [found[0], found[len(found) // 2], found[-1]]
    return tuple(found)


def _mover(pair: tuple[Term, Term]) -> Mover:
    return Mover(pair[1].label, pair[0].quantity, pair[1].quantity, "")


def _against(before: Term, after: Term) -> tuple[tuple[Term, Term], tuple[Term, Term]] | None:
    """What moved against the first mover, in a product or quotient: a doubling of one input that
    another takes back in part is half the truth."""
    for _ in range(DEEPEST):
        step = _largest(before, after)
        if step is None or before.formula is None:
            return None
        if before.formula.name not in ("sum", "greatest", "least"):
            pairs = [p for p in _matched(before.inputs, after.inputs) if p[0].value != p[1].value]
            rest = [p for p in pairs if p[0] is not step[0] and _relative(p) >= COUNTS]
            return (step, max(rest, key=_relative)) if rest else None
        before, after = step
    return None


def _way(before: Term, after: Term) -> Iterator[Mover]:
    said: set[tuple[str, object, object]] = {(before.label, before.value, after.value)}
    for _ in range(DEEPEST):
        step = _largest(before, after)
        if step is None:
            return
        before, after = step
        told = (after.label, before.value, after.value)
        if told not in said and before.value != after.value:
            said.add(told)
            was = before.label if before.label != after.label else ""
            yield Mover(after.label, before.quantity, after.quantity, was)


def _largest(before: Term, after: Term) -> tuple[Term, Term] | None:
    """The pair of inputs that explains most; None at a leaf, or where the formulas part."""
    one, two = before.formula, after.formula
    if one is None or two is None or one.name != two.name:
        return None
    if one.name in ("greatest", "least") and before.inputs and after.inputs:
        pick = max if one.name == "greatest" else min
        return (
            pick(before.inputs, key=lambda t: float(t.value)),
            pick(after.inputs, key=lambda t: float(t.value)),
        )
    matched = list(_matched(before.inputs, after.inputs))
    changed = [pair for pair in matched if pair[0].value != pair[1].value]
    if not changed:
        return None
    if one.name == "sum":
        return max(changed, key=lambda pair: abs(float(pair[1].value) - float(pair[0].value)))
    return max(changed, key=_relative)


def _matched(before: Sequence[Term], after: Sequence[Term]) -> Iterator[tuple[Term, Term]]:
    """By name, the second of a name with the second; by place where all names are others."""
    waiting: dict[str, list[Term]] = {}
    for term in before:
        waiting.setdefault(term.label, []).append(term)
    left: list[Term] = []
    for term in after:
        same = waiting.get(term.label)
        if same:
            yield same.pop(0), term
        else:
            left.append(term)
    rest = [term for terms in waiting.values() for term in terms]
    if len(before) == len(after):
        yield from zip(rest, left, strict=True)


def _relative(pair: tuple[Term, Term]) -> float:
    a, b = float(pair[0].value), float(pair[1].value)
    return abs(b - a) / max(abs(a), abs(b))
