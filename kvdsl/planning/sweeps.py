"""Sweeps: every combination of a sweep's values, each the deployment with those changes.

Comes in: the resolver, a deployment, the changes already made. Goes out: tables. A point that does
not resolve or cannot be planned keeps its row, empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

from kvdsl.plan import SweepTable
from kvdsl.planning.deploy import outcome
from kvdsl.resolve.changes import Change
from kvdsl.resolve.resolver import Resolver
from kvdsl.spec.deployment import Deployment, Sweep
from kvdsl.syntax.nodes import Expr
from kvdsl.units import Quantity

SHOWN = ("kv.tokens", "kv.sequences", "memory.weights", "decode.tpot", "decode.throughput",
         "cost.per_mtok")  # fmt: skip
"""Values of a sweep that says nothing of `show`."""

MOST_ROWS = 400
"""Points that a plan runs one by one; the rest of a larger sweep is left out, and says so."""


def sweeps(
    resolver: Resolver, deployment: Deployment, changes: Sequence[Change] = ()
) -> tuple[SweepTable, ...]:
    return tuple(_table(resolver, deployment.name, sweep, changes) for sweep in deployment.sweeps)


def _table(resolver: Resolver, name: str, sweep: Sweep, changes: Sequence[Change]) -> SweepTable:
    rows = []
    every = product(*(axis.values for axis in sweep.axes))
    shown = sweep.show or SHOWN
    for point in islice(every, MOST_ROWS):
        made = [Change(axis.path, value) for axis, value in zip(sweep.axes, point, strict=True)]
        rows.append((tuple(map(_text, point)), _values(resolver, name, (*changes, *made), shown)))
    found = [n for i, n in enumerate(shown) if sweep.show or any(r[1][i] for r in rows)]
    kept = [shown.index(n) for n in found]
    title = sweep.name
    size = 1
    for axis in sweep.axes:
        size *= len(axis.values)
    if size > MOST_ROWS:
        title = f"{title} (the first {MOST_ROWS} of {size:,} points)".strip()
    return SweepTable(
        title,
        tuple(axis.path for axis in sweep.axes),
        tuple(found),
        tuple((point, tuple(values[i] for i in kept)) for point, values in rows),
    )


def _text(expr: Expr) -> str:
    text = " ".join(expr.span.text.split())
    return text.rpartition(".")[2] if text.startswith(("formats.", "models.", "recipes.")) else text


def _values(
    resolver: Resolver, name: str, changes: Sequence[Change], shown: Sequence[str]
) -> tuple[Quantity | None, ...]:
    deployment, _ = resolver.deployment(name, changes)
    if deployment is None:
        return (None,) * len(shown)
    found = outcome(deployment)
    if any(not e.fits for e in found.estimates.values()):
        return (None,) * len(shown)
    return tuple(found.values[n].quantity if n in found.values else None for n in shown)
