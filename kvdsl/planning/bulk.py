"""Many loads of one deployment in one call: times as arrays.

Comes in: a deployment and arrays of prompts, outputs and requests in flight. Goes out: arrays of
the times and rates that a plan of each load gives, and what stands against it. Weights, cache and
groups are placed once; the formulas are those of a plan, evaluated on arrays. Capacity is counted
once for each pair of lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from kvdsl import units
from kvdsl.arithmetic import greater
from kvdsl.checks.findings import placed
from kvdsl.costs import memory
from kvdsl.costs.fitted import Serving, alone, beside, serving
from kvdsl.costs.load import Load, load
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
    pools: list[Prepared] = []
    errors: list[Diagnostic] = []
    for name, pool in deployment.pools.items():
        made, faults = subject(deployment, pool)
        errors.extend(faults)
        if made is None:
            continue
        fired, placement = placed(made)
        errors.extend(f.diagnostic for f in fired if f.severity is Severity.ERROR)
        if placement is None:
            continue
        pace = constants(made)
        if pace is None:
            return (), tuple(errors), "the engine has no fitted pace, so its times are ideal"
        books = memory.ledgers(placement)
        pools.append(Prepared(name, pool.role, placement, books, serving(placement, books, pace)))
    if errors:
        return (), tuple(errors), errors[0].headline
    return tuple(pools), (), ""


def served(
    pools: Sequence[Prepared], loads: Loads, pace: Mapping[str, Constants] | None = None
) -> Served:
    """All loads at once. `pace` tries other constants, by pool: the fit does."""
    from numpy import ones

    values: dict[str, Array] = {}
    fits = ones(len(loads), dtype=bool)
    for pool in pools:
        made = pool.serving if pace is None else replace(pool.serving, constants=pace[pool.name])
        lengths = pool_lengths(pool, loads)
        if pool.role == "prefill":
            continue  # after those that decode: its clients wait there too
        capacity, carried = pool_load(pool, loads)
        fits &= capacity > 0
        found = made.at(carried, lengths)
        values["decode.tpot"] = tpot = _array(found.tpot, loads)
        band = made.constants.tpot
        if band is not None:
            values["decode.tpot_low"] = tpot / (1 + float(band.wide))
            values["decode.tpot_high"] = tpot * (1 + float(band.wide))
        values["decode.throughput"] = _array(found.throughput, loads)
        if pool.role == "both":
            token = made.first(found, carried, lengths, None)
            values["prefill.ttft"] = _array(token.ttft, loads)
    values.update(_prefilled(pools, loads, values, pace))
    return Served(values, fits)


def _prefilled(
    pools: Sequence[Prepared],
    loads: Loads,
    values: Mapping[str, Array],
    pace: Mapping[str, Constants] | None,
) -> Mapping[str, Array]:
    """The first token of a pool that prefills, for clients that decode in another."""
    for pool in pools:
        if pool.role != "prefill":
            continue
        made = pool.serving if pace is None else replace(pool.serving, constants=pace[pool.name])
        lengths = pool_lengths(pool, loads)
        if "decode.tpot" not in values:
            return {"prefill.ttft": _array(alone(made, lengths).ttft, loads)}
        clients = Term("requests in flight", loads.concurrency, units.REQUESTS)
        tpot = Term("time of a token", values["decode.tpot"], units.TIME)
        return {"prefill.ttft": _array(beside(made, lengths, clients, tpot), loads)}
    return {}


def floors(pools: Sequence[Prepared], loads: Loads) -> Array:
    """Seconds that weights hit and cache take at the data sheets' bandwidth, of the pool that
    decodes: no step is shorter."""
    from numpy import asarray, zeros

    least: Array = zeros(len(loads))
    for pool in pools:
        if pool.role == "prefill":
            continue
        _, carried = pool_load(pool, loads)
        names = ("weights", "experts", "emulated", "cache")
        whole = pool.serving.constants.with_values(**dict.fromkeys(names, 1.0))
        found = replace(pool.serving, constants=whole).at(carried, pool_lengths(pool, loads))
        for stage in found.step:
            reads = [sum(m.read.value for m in r.modules) + r.cache_read.value
                     for r in stage.ranks]  # fmt: skip
            least = asarray(least + reduce(greater, reads), dtype=float)
    return least


def pool_load(pool: Prepared, loads: Loads) -> tuple[Array, Load]:
    """Requests that fit, and the load."""
    capacity = _capacity(pool, loads)
    asked = Term("requests in flight", loads.concurrency, units.REQUESTS)
    room = Term("requests that fit", capacity, units.REQUESTS)
    context = Term("tokens read of each request", loads.prompt + loads.output / 2, units.TOKENS)
    return capacity, load(pool.placement.subject, asked, room, context)


def _array(term: Term, loads: Loads) -> Array:
    from numpy import asarray, broadcast_to

    return broadcast_to(asarray(term.value, dtype=float), (len(loads),))


def pool_lengths(pool: Prepared, loads: Loads) -> Lengths:
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
