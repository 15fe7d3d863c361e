"""Sweeps: every combination of a sweep's values, each the deployment with those changes.

Comes in: the resolver, a deployment, the changes already made. Goes out: tables. Points that differ
in nothing but their load are a family: it is compiled once, and all its loads are one evaluation on
arrays. A point that does not resolve, cannot be planned or does not fit keeps its row, empty, with
the reason. Not its job: the times of a load (costs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from kvdsl.comparison import LABELS, ROWS
from kvdsl.diagnostics import Severity
from kvdsl.plan import SweepTable
from kvdsl.planning.absences import GROWING
from kvdsl.planning.deploy import Outcome, outcome
from kvdsl.planning.loads import LENGTHS, Answered, Answers, answers, own
from kvdsl.requirements import asked_names, constant, met
from kvdsl.resolve.changes import Change
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.deployment import Axis, Deployment, Requirement, Sweep
from kvdsl.spec.workload import Workload
from kvdsl.spelling import in_a_row
from kvdsl.syntax.nodes import Expr
from kvdsl.units import shown

SHOWN = ("kv.tokens", "kv.sequences", "memory.weights", "decode.tpot", "decode.throughput",
         "cost.per_mtok")  # fmt: skip
"""Values of a sweep that says nothing of `show`."""

MOST_COMPILED = 400
"""Families that a plan compiles; the points of the rest are left out, and it says so."""

MANY = 200
"""Points of which people are shown all."""

FEW_AXES = 2
MOST_TOLD = 40
"""Points that they are shown of more."""

BETTER = {name: more for name, _, more in ROWS}
"""Whether more of a value is better."""

LOADS = (*LENGTHS, "concurrency", "rate", "prefix_hits")
"""What of a workload is a load and no more: nothing is placed by it."""

Point = tuple[int, ...]
"""The position of a value on each axis."""


def sweeps(
    resolver: Resolver,
    deployment: Deployment,
    changes: Sequence[Change] = (),
    most: int | None = MOST_COMPILED,
) -> tuple[SweepTable, ...]:
    """`most` families of a sweep are compiled; all of them where it is None."""
    return tuple(
        _table(_Variants(resolver, deployment, sweep, changes), most) for sweep in deployment.sweeps
    )


def _table(variants: _Variants, most: int | None) -> SweepTable:
    sweep = variants.sweep
    names = sweep.show or SHOWN
    families: dict[Point, list[Point]] = {}
    for point in product(*(range(len(axis.values)) for axis in sweep.axes)):
        families.setdefault(variants.family(point), []).append(point)
    taken = list(families.values())[:most]
    found: dict[Point, _Row] = {}
    for points in taken:
        found.update(zip(points, _family(variants, points, names), strict=True))
    rows = sorted(found)
    titles = [
        n for i, n in enumerate(names) if sweep.show or any(found[r].figures[i] for r in rows)
    ]
    kept = [names.index(name) for name in titles]
    size = prod(len(axis.values) for axis in sweep.axes)
    title = sweep.name
    if len(rows) < size:
        title = f"{title} ({len(rows):,} of {size:,} points)".strip()
    table = SweepTable(
        title,
        tuple(axis.path for axis in sweep.axes),
        tuple(titles),
        tuple((variants.texts(p), tuple(found[p].figures[i] for i in kept)) for p in rows),
        tuple(found[p].why for p in rows),
        holds=tuple(found[p].holds for p in rows) if variants.requires else (),
        unserved=frozenset(i for i, p in enumerate(rows) if found[p].unserved),
    )
    return replace(table, told=_told(table, rows)) if len(rows) > MANY else table


@dataclass(frozen=True, slots=True)
class _Row:
    """What a point answers, and whether it holds what is required; or why it answers nothing, is
    not served, or cannot be judged."""

    figures: Answers
    why: str = ""
    holds: bool | None = None
    unserved: bool = False


def _told(table: SweepTable, points: Sequence[Point]) -> tuple[tuple[int, str], ...]:
    """The rows of a long table that people are shown: the best of each value, and of those that
    hold what is required; and the ends of all axes with, of two, their middles."""
    words: dict[int, list[str]] = {}
    for column, name in enumerate(table.shown):
        known = {n: q for n, (_, row) in enumerate(table.rows) if (q := row[column]) is not None}
        if name not in BETTER or len({shown(quantity) for quantity in known.values()}) < 2:
            continue
        pick = max if BETTER[name] else min
        best = pick(known, key=lambda number: known[number].value)
        said = f"{'most' if BETTER[name] else 'least'} {LABELS[name]}"
        words.setdefault(best, []).append(said)
        holding = [number for number in known if table.verdict(number) == "hold"]
        if holding and table.verdict(best) != "hold":
            first = pick(holding, key=lambda number: known[number].value)
            words.setdefault(first, []).append(f"{said} of those that hold")
    lasts = [max(point[n] for point in points) for n in range(len(table.axes))]
    places = [{0, last // 2, last} if len(lasts) <= FEW_AXES else {0, last} for last in lasts]
    for number, point in enumerate(points):
        if all(at in place for at, place in zip(point, places, strict=True)):
            words.setdefault(number, [])
    few = sorted(words, key=lambda number: (not words[number], number))[:MOST_TOLD]
    return tuple((number, ", ".join(words[number])) for number in sorted(few))


def _family(variants: _Variants, points: Sequence[Point], names: Sequence[str]) -> Iterator[_Row]:
    """What each point answers, or why it answers nothing."""
    nothing: Answers = (None,) * len(names)
    loads = [variants.load(point) for point in points]
    sound = [i for i, load in enumerate(loads) if not isinstance(load, str)]
    first = points[sound[0] if sound else 0]
    deployment, why = variants.whole(first)
    if deployment is None:
        yield from (_Row(nothing, load if isinstance(load, str) else why) for load in loads)
        return
    # A run measured one point; the others are reckoned.
    made = outcome(deployment.model_copy(update={"measured": None}))
    if not made.values or any(not e.fits for e in made.estimates.values()):
        yield from (_Row(nothing, load if isinstance(load, str) else made.why) for load in loads)
        return
    required = [one for one in deployment.requirements if one.keyword == "require"]
    every = (*names, *asked_names(required))
    chosen = [load for load in loads if not isinstance(load, str)]
    known = iter(answers(made, chosen, every) if len(chosen) > 1 else [own(made, every)])
    for load in loads:
        if isinstance(load, str):
            yield _Row(nothing, load)
            continue
        yield _row(made, required, every, next(known), len(names))


def _row(
    made: Outcome,
    required: Sequence[Requirement],
    names: Sequence[str],
    found: Answered,
    shows: int,
) -> _Row:
    """A point with figures. A rate that cannot be served holds nothing, whatever its figures say;
    what is not answered holds no more than it fails."""
    figures = found.figures[:shows]
    if found.unserved:
        return _Row(figures, GROWING, holds=False, unserved=True)
    known = zip(names, found.figures, strict=True)
    values = {name: constant(name, q) for name, q in known if q is not None}
    verdicts = [met(one, values) for one in required]
    if False in verdicts:
        return _Row(figures, holds=False)
    silent = asked_names(r for r, held in zip(required, verdicts, strict=True) if held is None)
    missing = [name for name in silent if name not in values]
    if not missing:
        return _Row(figures, holds=None if None in verdicts else True)
    reasons = dict.fromkeys(made.absent[name] for name in missing if name in made.absent)
    verb = "is" if len(missing) == 1 else "are"
    said = f"{in_a_row(missing, 'and')} {verb} required and not answered"
    return _Row(figures, ": ".join([said, *(["; ".join(reasons)] if reasons else [])]))


Load = Mapping[str, Workload]
"""The workload of each pool."""


@dataclass(slots=True)
class _Variants:
    """The points of a sweep as deployments. What a load is, is resolved once for each value of its
    axis."""

    resolver: Resolver
    deployment: Deployment
    sweep: Sweep
    changes: Sequence[Change]
    _of_axis: dict[tuple[Point, int, int], Load | str] = field(default_factory=dict)

    @property
    def requires(self) -> bool:
        return any(one.keyword == "require" for one in self.deployment.requirements)

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.sweep.axes

    def texts(self, point: Point) -> tuple[str, ...]:
        return tuple(_text(axis.values[i]) for axis, i in zip(self.axes, point, strict=True))

    def family(self, point: Point) -> Point:
        """The point with every load at its first value: what has to be compiled. Requests without
        output have a family of their own, as no decode step is taken."""
        silent = any(_word(axis) == "output" and _silent(axis.values[i])
                     for axis, i in zip(self.axes, point, strict=True))  # fmt: skip
        own = (0 if self._is_load(n) else i for n, i in enumerate(point))
        return (*own, int(silent))

    def _is_load(self, number: int) -> bool:
        """Whether an axis changes a load alone, and nothing after it replaces that."""
        path, word = self.axes[number].path, _word(self.axes[number])
        if word not in LOADS or (word in LENGTHS and self._classed):
            return False
        return not any(path.startswith(f"{axis.path}.") for axis in self.axes[number + 1 :])

    @property
    def _classed(self) -> bool:
        """Whether requests are, or may be, of classes, whose lengths follow from the workload's."""
        workloads = (pool.workload for pool in self.deployment.pools.values())
        whole = any(axis.path.split(".")[-1] == "workload" for axis in self.axes)
        return whole or any(w is not None and bool(w.classes) for w in workloads)

    def whole(self, point: Point) -> tuple[Deployment | None, str]:
        """The deployment of a point, or why there is none."""
        made = [
            Change(axis.path, axis.values[i], axis.at)
            for axis, i in zip(self.axes, point, strict=True)
        ]
        deployment, faults = self.resolver.variant(self.deployment.name, (*self.changes, *made))
        errors = (d.headline for d in faults if d.severity is Severity.ERROR)
        return deployment, "" if deployment else next(errors, "it cannot be resolved")

    def load(self, point: Point) -> Load | str:
        """The workloads of a point, or why there are none."""
        found: dict[str, Workload] = {}
        for number in range(len(point)):
            if not self._is_load(number):
                continue
            one = self._valued(point, number)
            if isinstance(one, str):
                return one
            word = _word(self.axes[number])
            for pool, workload in one.items():
                if pool not in found:
                    found[pool] = workload
                    continue
                origins = {**found[pool].origins}
                if word in workload.origins:
                    origins[word] = workload.origins[word]
                changed = {word: getattr(workload, word), "origins": origins}
                found[pool] = found[pool].model_copy(update=changed)
        return found

    def _valued(self, point: Point, number: int) -> Load | str:
        """The workloads with one load at the point's value, and the others at the first that can
        stand; what else changes the workload is as at the point."""
        beside = tuple(
            0 if self._is_load(n) or not _of_workload(axis) else point[n]
            for n, axis in enumerate(self.axes)
        )
        key = (beside, number, point[number])
        if key not in self._of_axis:
            changed = tuple(point[number] if n == number else i for n, i in enumerate(beside))
            made = [
                Change(axis.path, axis.values[i], axis.at)
                for n, (axis, i) in enumerate(zip(self.axes, changed, strict=True))
                if n == number or (_of_workload(axis) and not self._is_load(n))
            ]
            deployment, faults = self.resolver.variant(self.deployment.name, (*self.changes, *made))
            if deployment is None:
                errors = (d.headline for d in faults if d.severity is Severity.ERROR)
                self._of_axis[key] = next(errors, "it cannot be resolved")
            else:
                self._of_axis[key] = {
                    name: pool.workload
                    for name, pool in deployment.pools.items()
                    if pool.workload is not None
                }
        return self._of_axis[key]


def _word(axis: Axis) -> str:
    """`concurrency` of `workload.concurrency` and of `pools.decode.workload.concurrency`."""
    names = axis.path.split(".")
    return names[-1] if len(names) > 1 and names[-2] == "workload" else ""


def _of_workload(axis: Axis) -> bool:
    """Whether an axis may change what a workload says."""
    return axis.path.split(".")[0] in ("workload", "pools")


def _silent(value: Expr) -> bool:
    return value.span.text.split(" ")[0].strip("0_.") == ""


def _text(expr: Expr) -> str:
    text = " ".join(expr.span.text.split())
    return text.rpartition(".")[2] if text.startswith(("formats.", "models.", "recipes.")) else text
