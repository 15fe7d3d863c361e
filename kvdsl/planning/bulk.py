"""Many loads of one deployment in one call: times as arrays.

Comes in: a deployment and arrays of prompts, outputs and requests in flight. Goes out: arrays of
the times and rates that a plan of each load gives, and what stands against it. Weights, cache and
groups are placed once; the formulas are those of a plan, evaluated on arrays. Capacity is counted
once for each pair of lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvdsl import units
from kvdsl.checks.findings import examine
from kvdsl.costs import memory
from kvdsl.costs.fitted import Serving, alone, serving
from kvdsl.costs.load import load
from kvdsl.costs.memory import Ledger
from kvdsl.costs.pace import Constants, constants
from kvdsl.costs.steady import Lengths
from kvdsl.diagnostics import Diagnostic, Severity
from kvdsl.formulas import Term
from kvdsl.placement.placement import Placement
from kvdsl.planning.subjects import subject
from kvdsl.spec.deployment import Deployment
from kvdsl.spec.workload import Workload

Array = Any
"""A numpy array of floats, one for each load."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Loads by position: tokens of prompt and output (means), and requests in flight."""

    prompt: Array
    output: Array
    concurrency: Array

    def __len__(self) -> int:
        return len(self.prompt)


@dataclass(frozen=True, slots=True)
class Prepared:
    """One pool, ready for any load."""

    name: str
    role: str
    placement: Placement
    books: tuple[Ledger, ...]
    serving: Serving


@dataclass(frozen=True, slots=True)
class Served:
    """Arrays by the names of a plan's values; empty where errors stand against the deployment or
    it has no fitted pace (`refusal` says so). `fits` tells which loads have room at all."""

    values: Mapping[str, Array]
    fits: Array | None
    errors: tuple[Diagnostic, ...] = ()
    refusal: str = ""


def prepared(deployment: Deployment) -> tuple[tuple[Prepared, ...], tuple[Diagnostic, ...], str]:
    """The pools of a deployment, the errors against it, and why it has no fitted times."""
    pools, errors = [], []
    for name, pool in deployment.pools.items():
        made, faults = subject(deployment, pool)
        errors.extend(faults)
        if made is None:
            continue
        seen = examine(made)
        errors.extend(f.diagnostic for f in seen.fired if f.severity is Severity.ERROR)
        if seen.estimate is None:
            continue
        pace = constants(made)
        if pace is None:
            return (), tuple(errors), "the engine has no fitted pace, so its times are ideal"
        placement, books = seen.estimate.placement, seen.estimate.ledgers
        pools.append(
            Prepared(name, pool.role, placement, books, serving(placement, books, pace))
        )
    return tuple(pools), tuple(errors), ""


def served(
    pools: Sequence[Prepared], loads: Loads, pace: Mapping[str, Constants] | None = None
) -> Served:
    """All loads at once. `pace` tries other constants, by pool: the fit does."""
    from numpy import ones

    values: dict[str, Array] = {}
    fits = ones(len(loads), dtype=bool)
    for pool in pools:
        made = pool.serving if pace is None else replace(pool.serving, constants=pace[pool.name])
        lengths = _lengths(pool, loads)
        if pool.role == "prefill":
            values["prefill.ttft"] = _array(alone(made, lengths).ttft, loads)
            continue
        capacity = _capacity(pool, loads)
        fits &= capacity > 0
        asked = Term("requests in flight", loads.concurrency, units.REQUESTS)
        room = Term("requests that fit", capacity, units.REQUESTS)
        context = Term("tokens read of each request", loads.prompt + loads.output / 2,
                       units.TOKENS)  # fmt: skip
        carried = load(pool.placement.subject, asked, room, context)
        found = made.at(carried, lengths)
        values["decode.tpot"] = _array(found.tpot, loads)
        values["decode.throughput"] = _array(found.throughput, loads)
        if pool.role == "both":
            token = made.first(found, carried, lengths, None)
            values["prefill.ttft"] = _array(token.ttft, loads)
    return Served(values, fits)


def _array(term: Term, loads: Loads) -> Array:
    from numpy import asarray, broadcast_to

    return broadcast_to(asarray(term.value, dtype=float), (len(loads),))


def _lengths(pool: Prepared, loads: Loads) -> Lengths:
    hits = float(pool.placement.subject.workload.prefix_hits)
    return Lengths(
        Term("tokens to compute", loads.prompt * (1 - hits), units.TOKENS),
        Term("tokens found", loads.prompt * hits, units.TOKENS),
        Term("output", loads.output, units.TOKENS),
    )


def _capacity(pool: Prepared, loads: Loads) -> Array:
    """Whole requests that fit, counted once for each pair of lengths."""
    from numpy import array

    known: dict[tuple[int, int], float] = {}
    found = []
    for pair in zip(loads.prompt, loads.output, strict=True):
        key = int(pair[0]), int(pair[1])
        if key not in known:
            known[key] = _fitting(pool, *key)
        found.append(known[key])
    return array(found, dtype=float)


def _fitting(pool: Prepared, prompt: int, output: int) -> float:
    said = pool.placement.subject.workload
    workload = Workload(prompt=prompt, output=output, concurrency=said.concurrency or 1,
                        prefix_hits=said.prefix_hits, prefix_common=said.prefix_common)  # fmt: skip
    placed = replace(pool.placement, subject=replace(pool.placement.subject, workload=workload))
    found = memory.capacities(placed, pool.books)
    return float(memory.capacity_terms(placed.subject, found)["kv.sequences"].value)
