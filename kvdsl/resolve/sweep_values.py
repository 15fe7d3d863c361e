"""Values of a sweep, tried before there is a plan: each alone, and where it contradicts what stands
beside it, together with the values of the other axes.

Comes in: a sweep, and what tries changes. Goes out: what is wrong with values that no point can
take. Not its job: points, whose own faults stand in the table (planning).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product

from kvdsl.diagnostics import Diagnostic, Severity
from kvdsl.resolve.changes import Change
from kvdsl.spec.deployment import Axis, Sweep

CONTRADICTIONS = frozenset(
    ("KV060", "KV061", "KV063", "KV064", "KV065", "KV066", "KV074", "KV075", "KV076", "KV077")
)
"""Codes of what attributes cannot say together: another axis may change the other of them."""

EITHER = frozenset(("KV060", "KV061"))
"""Codes of two attributes of which one alone may stand: no axis takes the other away."""

MOST_TRIED = 200
"""Points at which a value is tried that cannot stand alone."""

WHOLE = ("layout", "model", "workload")
"""What may be an axis as a whole block."""

Tried = Callable[[Sequence[Change]], tuple[Diagnostic, ...]]


def faults_of(sweep: Sweep, tried: Tried) -> Iterator[Diagnostic]:
    """What is told of the values of a sweep."""
    for number, axis in enumerate(sweep.axes):
        for value in axis.values:
            alone = _with_axis(sweep.axes, number, axis.model_copy(update={"values": (value,)}))
            found = tried(_changes((alone[number],), (0,)))
            if not _contradict(found):
                yield from found
            elif not any(_sound(tried(each)) for each in islice(_points(alone), MOST_TRIED)):
                yield from (_with_way_out(each, axis) for each in found)


def _with_axis(axes: Sequence[Axis], number: int, axis: Axis) -> tuple[Axis, ...]:
    return (*axes[:number], axis, *axes[number + 1 :])


def _points(axes: Sequence[Axis]) -> Iterator[tuple[Change, ...]]:
    for point in product(*(range(len(axis.values)) for axis in axes)):
        yield _changes(axes, point)


def _changes(axes: Sequence[Axis], point: Sequence[int]) -> tuple[Change, ...]:
    return tuple(
        Change(axis.path, axis.values[i], axis.at) for axis, i in zip(axes, point, strict=True)
    )


def _contradict(found: Sequence[Diagnostic]) -> bool:
    errors = [each for each in found if each.severity is Severity.ERROR]
    return bool(errors) and all(each.code in CONTRADICTIONS for each in errors)


def _sound(found: Sequence[Diagnostic]) -> bool:
    return all(each.severity is not Severity.ERROR for each in found)


def _with_way_out(found: Diagnostic, axis: Axis) -> Diagnostic:
    """What one writes in a plan is no way out of a sweep: the next value contradicts again."""
    first = axis.path.split(".")[0]
    ways = []
    if found.code not in EITHER:
        ways.append(
            "let what must change with it be an axis beside it: points that do not fit together "
            "stay empty"
        )
    if first in WHOLE:
        ways.append(f"{'or ' if ways else ''}go through whole blocks, as in `{first} = [one, two]`")
    note = f"at a value of `{axis.path}` in a sweep"
    return replace(
        found, notes=(*found.notes, note), helps=("; ".join(ways),) if ways else found.helps
    )
