"""Many loads of one deployment in one call: times as arrays.

Comes in: a deployment and arrays of prompts, outputs and requests in flight, or of requests a
second. Goes out: arrays of the times and rates that a plan of each load gives, and what stands
against it. Weights, cache and groups are placed once; the formulas are those of a plan, evaluated
on arrays. Capacity is counted once for each pair of lengths. Not its job: requests that prefill
holds back from a pool that decodes (KV177) are a plan's; here all in flight decode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

from kvdsl import units
from kvdsl.arithmetic import greater
from kvdsl.checks.findings import placed
from kvdsl.costs import memory
from kvdsl.costs.admission import running
from kvdsl.costs.closed_loops import beside, place
from kvdsl.costs.first_token import client_throughput
from kvdsl.costs.fitted import Serving, alone, serving, stays
from kvdsl.costs.load import Load, arriving_throughput, load
from kvdsl.costs.memory import Ledger
from kvdsl.costs.pace import Constants, constants
from kvdsl.costs.prefill import found_tokens, new_tokens
from kvdsl.costs.queues import endless_wait, flying, most_flying
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
    """Loads by position: tokens of prompt and output (means), and requests in flight; or requests a
    second in `rate`, from which those in flight follow."""

    prompt: Array
    output: Array
    concurrency: Array
    rate: Array | None = None

    def __len__(self) -> int:
        return len(self.prompt)

    @staticmethod
    def of(
        prompt: Sequence[int],
        output: Sequence[int],
        concurrency: Sequence[int] | None,
        rate: Sequence[float] | None,
    ) -> Loads:
        """Of what a user gives: ValueError names the argument that cannot stand."""
        if (concurrency is None) == (rate is None):
            raise ValueError("either `concurrency` or `rate` says what the load is")
        lengths = _counted("prompt", prompt), _counted("output", output)
        named = "rate" if concurrency is None else "concurrency"
        many = _positive("rate", rate) if concurrency is None else _counted(named, concurrency)
        for name, found in (("output", lengths[1]), (named, many)):
            if len(found) != len(lengths[0]):
                raise ValueError(
                    f"`{name}` has {len(found):,} and `prompt` {len(lengths[0]):,}: each load has "
                    "one of each"
                )
        return Loads(*lengths, many, many if concurrency is None else None)


def _positive(name: str, given: Any) -> Array:
    from numpy import asarray, isfinite

    try:
        found = asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"`{name}` is no sequence of numbers") from None
    if found.ndim != 1:
        raise ValueError(f"`{name}` is no sequence of numbers")
    wrong = ~(isfinite(found) & (found > 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(f"`{name}[{at}]` is {found[at]:.15g}, not a finite number above 0")
    return found


def _counted(name: str, given: Any) -> Array:
    found = _positive(name, given)
    wrong = found % 1 != 0
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(f"`{name}[{at}]` is {found[at]:.15g}, not a whole number above 0")
    return found


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
    it has no fitted pace (`refusal` says so). `fits` tells which loads have room at all and, of a
    rate, can be served: requests arrive no faster than the cache and prefill let them go."""

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
    from numpy import isfinite, ones

    found = [_Decoding(pool, _tried(pool, pace), loads) for pool in pools if pool.role != "prefill"]
    values: dict[str, Array] = {}
    fits = ones(len(loads), dtype=bool)
    for one in found:
        fits &= one.fits
        for name, value in one.values().items():
            join = add if name == "decode.throughput" else greater
            values[name] = join(values[name], value) if name in values else value
    values.update(_prefilled(pools, loads, values, found, pace))
    if loads.rate is not None and "prefill.ttft" in values:
        for one in found:
            values["prefill.ttft"] = values["prefill.ttft"] + one.unplaced
        fits &= isfinite(values["prefill.ttft"])  # a queue that only grows
    return Served(values, fits)


def _tried(pool: Prepared, pace: Mapping[str, Constants] | None) -> Serving:
    return pool.serving if pace is None else replace(pool.serving, constants=pace[pool.name])


class _Decoding:
    """A pool that decodes, under all loads."""

    def __init__(self, pool: Prepared, made: Serving, loads: Loads) -> None:
        self.pool, self.made, self.loads = pool, made, loads
        self.lengths = pool_lengths(pool, loads)
        self.rate = _rate(pool, loads)
        self.capacity = _capacity(pool, loads)
        asked = _asked(pool, loads) if self.rate is None else self._in_flight(self.rate)
        self.load = self._load(asked)
        self.found = made.at(self.load, self.lengths, closed=self.rate is None)

    def _load(self, asked: Array) -> Load:
        return _load(self.pool, self.loads, asked, self.capacity)

    def _in_flight(self, rate: Array) -> Array:
        """Little's law, as a plan solves it."""
        arriving = Term("arrivals", rate, units.REQUEST_RATE)
        stay = stays(self.made, self.lengths, self._load)
        return flying(most_flying(self.capacity), rate, stay(arriving))

    @property
    def fits(self) -> Array:
        """Of clients who wait for answers the rest queues; of a rate it would queue for ever."""
        room = self.capacity > 0
        if self.rate is not None:
            room &= self.load.asked.value <= self.load.served.value
        return room

    def values(self) -> dict[str, Array]:
        tpot, flow = (_array(t, self.loads) for t in (self.found.tpot, self.found.throughput))
        if self.rate is not None:
            flow = arriving_throughput(flow=flow, arrivals=self.rate, output=self.loads.output)
        values = {"decode.tpot": tpot, "decode.throughput": flow}
        band = self.made.constants.tpot
        if band is not None:
            values["decode.tpot_low"] = tpot / (1 + float(band.wide))
            values["decode.tpot_high"] = tpot * (1 + float(band.wide))
        if self.pool.role == "both":
            arriving = (
                None if self.rate is None else Term("arrivals", self.rate, units.REQUEST_RATE)
            )
            token = self.made.first(self.found, self.load, self.lengths, arriving)
            values["prefill.ttft"] = _array(token.ttft, self.loads)
            if self.rate is None:
                flow = client_throughput(self.load.served, self.found.tpot, token, self.lengths)
                values["decode.throughput"] = _array(flow, self.loads)
        return values

    @property
    def unplaced(self) -> Array:
        """What arrivals at a rate wait for a place here: nothing, or for ever."""
        return endless_wait(asked=self.load.asked.value, served=self.load.served.value)

    @property
    def place(self) -> Term:
        """What clients wait for a place here."""
        found = place(self.load, self.lengths.output, self.found.tpot, self.made.constants)
        if found is None:
            raise ValueError("a wait that is asked for is told")
        return found


def _prefilled(
    pools: Sequence[Prepared],
    loads: Loads,
    values: Mapping[str, Array],
    decoding: Sequence[_Decoding],
    pace: Mapping[str, Constants] | None,
) -> Mapping[str, Array]:
    """The first token of the slowest pool that prefills, for clients that decode in another."""
    found: Array = None
    for pool in pools:
        if pool.role != "prefill":
            continue
        made, lengths, rate = _tried(pool, pace), pool_lengths(pool, loads), _rate(pool, loads)
        if rate is not None:
            arriving = Term("arrivals", rate, units.REQUEST_RATE)
            term = alone(made, lengths, arriving).ttft
        elif "decode.tpot" not in values:
            term = alone(made, lengths).ttft
        else:
            clients = Term("requests in flight", _asked(pool, loads), units.REQUESTS)
            tpot = Term("time of a token", values["decode.tpot"], units.TIME)
            places = [one.place for one in decoding if one.pool.role == "decode"]
            term = beside(made, lengths, clients, tpot, places)
        ttft = _array(term, loads)
        found = ttft if found is None else greater(found, ttft)
    return {} if found is None else {"prefill.ttft": found}


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
    """Requests that fit, and the load of so many in flight."""
    capacity = _capacity(pool, loads)
    return capacity, _load(pool, loads, _asked(pool, loads), capacity)


def _load(pool: Prepared, loads: Loads, asked: Array, capacity: Array) -> Load:
    many = Term("requests in flight", asked, units.REQUESTS)
    room = Term("requests that fit", capacity, units.REQUESTS)
    context = Term("tokens read of each request", loads.prompt + loads.output / 2, units.TOKENS)
    return load(pool.placement.subject, many, room, context)


def _share(pool: Prepared) -> float:
    return float(pool.placement.subject.pool.share or 1)


def _asked(pool: Prepared, loads: Loads) -> Array:
    """The pool's part of the requests in flight, in whole ones."""
    from numpy import ceil

    return ceil(loads.concurrency * _share(pool))


def _rate(pool: Prepared, loads: Loads) -> Array | None:
    return None if loads.rate is None else loads.rate * _share(pool)


def _array(term: Term, loads: Loads) -> Array:
    from numpy import asarray, broadcast_to

    return broadcast_to(asarray(term.value, dtype=float), (len(loads),))


def pool_lengths(pool: Prepared, loads: Loads) -> Lengths:
    hits = float(pool.placement.subject.workload.prefix_hits)
    new = new_tokens(prompt=loads.prompt, hits=hits)
    return Lengths(
        Term("tokens to compute", new, units.TOKENS),
        Term("tokens found", found_tokens(prompt=loads.prompt, new=new), units.TOKENS),
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
    fit = memory.capacity_terms(placed.subject, found)["kv.sequences"]
    return float(running(placed, pool.books, fit).value)
