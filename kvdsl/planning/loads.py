"""Many loads of one compiled deployment: every value of each, from one evaluation.

Comes in: the outcome of one load, and the workloads of all, by pool. Goes out: what each answers,
as plans of them would. Lengths are counted exactly, once for each that differs; times are evaluated
on arrays. Where pools work together, or with tiers, each load is planned by itself. Not its job:
which loads there are (sweeps).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvdsl.arithmetic import arrayed
from kvdsl.costs.estimate import Estimate, many, of_length
from kvdsl.formulas import Term
from kvdsl.planning.deploy import Outcome, outcome
from kvdsl.planning.pools import QUEUED
from kvdsl.planning.subjects import inputs
from kvdsl.spec.workload import Workload
from kvdsl.units import Quantity, Value

Answers = tuple[Quantity | None, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """What a load answers, and whether it asks a rate that cannot be served."""

    figures: Answers
    unserved: bool = False


Load = Mapping[str, Workload]

LENGTHS = ("prompt", "output", "context")
NUMBERS = (*LENGTHS, "concurrency", "rate", "prefix_hits")
"""Attributes that may differ from load to load."""


def answers(made: Outcome, loads: Sequence[Load], names: Sequence[str]) -> list[Answered]:
    """What each load answers, by the order of `names`."""
    if _alone(made, loads):
        (pool,) = made.estimates
        asked = [name if name in made.values or name in QUEUED else "" for name in names]
        return _at_once(made.estimates[pool], [load[pool] for load in loads], asked)
    return [_one(made, load, names) for load in loads]


def _alone(made: Outcome, loads: Sequence[Load]) -> bool:
    """Whether one pool works by itself, and its loads differ in numbers alone."""
    deployment = made.deployment
    if len(made.estimates) != 1 or deployment.tiers or deployment.transfer is not None:
        return False
    (pool,) = made.estimates
    subject = made.estimates[pool].subject
    if subject.pool.share not in (None, 1):
        return False
    found = [load[pool] for load in loads]
    given = {tuple(getattr(w, word) is None for word in NUMBERS) for w in found}
    alike = len({w.generates for w in found}) == 1  # a load without output has no decode
    return len(given) == 1 and alike and not any(w.classes for w in found)


# --- one by one --------------------------------------------------------------------------------


def _one(made: Outcome, load: Load, names: Sequence[str]) -> Answered:
    pools = {
        name: pool.model_copy(update={"workload": load[name]}) if name in load else pool
        for name, pool in made.deployment.pools.items()
    }
    return own(outcome(made.deployment.model_copy(update={"pools": pools})), names)


def own(made: Outcome, names: Sequence[str]) -> Answered:
    """What the load answers that the outcome is of."""
    terms = (made.values.get(name) for name in names)
    figures = tuple(None if term is None else term.quantity for term in terms)
    return Answered(figures, any(pool.unserved for pool in made.estimates.values()))


# --- all at once -------------------------------------------------------------------------------


def _at_once(found: Estimate, loads: Sequence[Workload], names: Sequence[str]) -> list[Answered]:
    exact, sizes = _lengths(found, loads)
    every = many(found, _stacked(loads), _arrays(exact, sizes))
    whole = every.values
    given = inputs(found.subject)
    columns: list[list[Quantity | None]] = []
    for name in names:
        if name in given and name.startswith("workload."):
            word = name.removeprefix("workload.")
            column: Sequence[Value | None] = [getattr(load, word) for load in loads]
            dimension = given[name].dimension
        elif name in exact[0]:
            column = [exact[size][name].value for size in sizes]
            dimension = exact[0][name].dimension
        elif (term := whole.get(name, given.get(name))) is not None:
            column, dimension = _column(name, term, len(loads)), term.dimension
        else:
            columns.append([None] * len(loads))
            continue
        columns.append([None if v is None else Quantity(v, dimension) for v in column])
    unserved: Any = every.unserved
    told = unserved.tolist() if arrayed(unserved) else [bool(unserved)] * len(loads)
    rows = zip(*columns, strict=True)
    return [Answered(figures, one) for figures, one in zip(rows, told, strict=True)]


def _lengths(found: Estimate, loads: Sequence[Workload]) -> tuple[list[dict[str, Term]], list[int]]:
    """The values of each length that differs, and which of them each load has."""
    known: dict[tuple[Value | None, ...], int] = {}
    exact: list[dict[str, Term]] = []
    sizes = []
    for load in loads:
        key = tuple(getattr(load, word) for word in LENGTHS)
        if key not in known:
            known[key] = len(exact)
            exact.append(of_length(found, load))
        sizes.append(known[key])
    return exact, sizes


def _stacked(loads: Sequence[Workload]) -> Workload:
    """One workload with an array for each number that differs."""
    from numpy import asarray

    changed: dict[str, Any] = {}
    origins = dict(loads[0].origins)
    for word in NUMBERS:
        column = [getattr(load, word) for load in loads]
        if any(value != column[0] for value in column):
            changed[word] = asarray([float(value) for value in column])
            said = next((w.origins[word] for w in loads if word in w.origins), None)
            if said is not None:
                origins[word] = said
    return loads[0].model_copy(update={**changed, "origins": origins})


def _arrays(exact: Sequence[Mapping[str, Term]], sizes: Sequence[int]) -> dict[str, Term]:
    from numpy import asarray

    first = exact[0]
    found: dict[str, Term] = {}
    for name, term in first.items():
        every: Any = asarray([float(each[name].value) for each in exact])[sizes]
        found[name] = replace(term, value=every, inputs=())
    return found


def _column(name: str, term: Term, count: int) -> list[Value | None]:
    """The values of a term by load: whole where the plan of one would have them whole."""
    value: Any = term.value
    if not arrayed(value):
        return [value] * count
    found: list[float] = value.tolist() if value.shape else [float(value)] * count
    if name in QUEUED:  # a queue that only grows has no mean
        return [value if value < float("inf") else None for value in found]
    if name in EXACT:
        return [int(value) if value.is_integer() else value for value in found]
    return list(found)


EXACT = frozenset({"memory.free"})
"""Values of times' arrays that are whole, but where a rank has a part of a scale."""
