"""Tiers: what is kept of the cache below the devices' memory, and how fast it comes back.

Comes in: the estimate of a pool that prefills and one of the deployment's `tiers`. Goes out: a
`Tier`: tokens that it holds, the rates of its units and paths, the time of a request. One copy of
each byte is kept, however many devices hold it. Leaves out: fragmentation, requests that wait for
one another, and routing (a prefix is found where it is kept). Not its job: what of the workload
lies in which tier (reuse).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import floored, over, real, times, where
from kvdsl.costs import cache
from kvdsl.costs.codecs import codec_steps
from kvdsl.costs.collectives import Number
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import fixed, of_hardware, of_model
from kvdsl.costs.paths import (
    all_lanes,
    amplified_by,
    crowd,
    latency_of,
    own_lanes,
    page_of,
    part_of_units,
    path_of,
    places_of,
    rate_of,
    slower,
    units_of,
)
from kvdsl.costs.transfer import holding, visible_layerwise
from kvdsl.formulas import Term, formula, greatest, least, total
from kvdsl.placement.cache import CachePart, cache_parts
from kvdsl.spec.deployment import TierUse
from kvdsl.spec.formats import Format, Recipe, RecipeLine
from kvdsl.units import BYTES, TIME, TOKENS, grouped, tidy


@formula("capacity of a unit x units", BYTES)
def capacity_bytes(each: Number, count: int) -> Number:
    return times(each, count)


@formula("places x floor(bytes of a place / bytes of a chunk) x tokens a chunk", TOKENS,
         "chunks are kept whole, and a request in the units that its devices share")  # fmt: skip
def held_tokens(places: int, each: Number, chunk_bytes: Number, chunk: Number) -> Number:
    some = where(chunk_bytes > 0, chunk_bytes, 1)
    return where(chunk_bytes > 0, places * floored(each, some) * chunk, 0)


@formula("what one has / pools that stand in it", BYTES, "each has as much of it")
def part_of_unit(one: Number, pools: Number) -> Number:
    return over(one, pools)


@formula("bytes x amplification / rate", TIME)
def moving_time(size: Number, amplified: Number, rate: Number) -> float:
    return real(size) * real(amplified) / real(rate)


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier under one pool. `request` are bytes of a whole request in the tier's format; `read`
    and `write` what all its units and paths carry; `one` what a single request's devices get of it.
    A rate is None where nothing gives one. `refused` are formats that it may not hold."""

    use: TierUse
    pool: Estimate
    parts: tuple[CachePart, ...]
    refused: tuple[Format, ...]
    count: Term
    capacity: Term
    token: Term
    tokens: Term
    read: Term | None
    write: Term | None
    one: Term | None
    path: Term | None
    amplified: Term
    latency: Term

    @property
    def name(self) -> str:
        return self.use.name

    def load(self, size: Term) -> Term | None:
        """The time to bring so many bytes of one request to its devices, none of it hidden."""
        if self.one is None:
            return None
        steps = self._steps(self.one, size)
        whole = steps[0]
        if len(steps) > 1:
            whole = (greatest if self.use.pipelined else total)(
                "from the tier to the devices", steps
            )
        return total("load", [self.latency, whole])

    def visible(self, load: Term, service: Term) -> Term:
        """Of a load what a prompt waits for, if it comes layer by layer behind the prefill."""
        if self.use.overlap == "none":
            return load.named("visible load")
        model = self.pool.subject.model
        return visible_layerwise.derive(
            "visible load", transfer=load, prefill=service,
            layers=of_model(model, "layers", model.layers),
        )  # fmt: skip

    def _steps(self, one: Term, size: Term) -> list[Term]:
        staged = self.use.through is not None
        rate = one
        if self.path is not None and not staged:
            rate = least("the slower of tier and path", [one, self.path])
        amplified = self.amplified
        steps = [moving_time.derive("read", size=size, amplified=amplified, rate=rate)]
        if staged and self.path is not None:
            plain = fixed("amplification", 1, "memory takes any size")
            steps.append(
                moving_time.derive("on to the devices", size=size, amplified=plain, rate=self.path)
            )
        devices = holding(self.pool, "receiving")
        _, decode = codec_steps(self.use.format, size, size, (devices, devices))
        return [*steps, decode] if decode is not None else steps


def tier(use: TierUse, pool: Estimate, others: tuple[Estimate, ...] = ()) -> Tier:
    """A tier under a pool. `others` are the other pools: a shared tier has their units too, of one
    that is not shared pools in one node have a part each."""
    recipe = Recipe(lines=(RecipeLine(format=use.format),)) if use.format else pool.subject.kv
    parts = cache_parts(pool.subject.model, recipe)
    count = _places(use, pool, others)
    each = leaf(use, "capacity", f"capacity per {use.capacity.scope}", use.capacity.value, BYTES)
    many = crowd(use, pool, others, use.capacity.scope)
    if many is not None:
        each = part_of_unit.derive("capacity of this pool", one=each, pools=many)
    token = _token(pool, parts, recipe)
    spread = _units_of_request(use, pool, int(count.value))
    units_each = units_of(use, pool)
    reached = count.value if use.tier.shared else spread
    own = Term("units of a request", times(units_each.value, reached), inputs=(units_each,))
    one = rate_of(use, pool, parts, "read", own)
    if many is not None:
        units_each = part_of_units.derive("units of this pool", units=units_each, pools=many)
    everything = Term(
        "units in all", times(units_each.value, count.value), inputs=(units_each, count)
    )
    lanes = all_lanes(use, pool, others)
    refused = _refused(use, parts)
    held = _tokens(use, pool, parts, each, count, spread, token)
    if refused:
        held = fixed(f"tokens in {use.name}", 0, "it does not hold their format", TOKENS)
    return Tier(
        use, pool, parts, refused, count,
        capacity_bytes.derive(f"capacity of {use.name}", each=each, count=count),
        token,
        held,
        slower(rate_of(use, pool, parts, "read", everything), lanes, "read in all"),
        slower(rate_of(use, pool, parts, "write", everything), lanes, "written in all"),
        one,
        path_of(use, pool, own_lanes(use, pool)),
        amplified_by(use, pool, parts),
        latency_of(use),
    )  # fmt: skip


# --- capacity ------------------------------------------------------------------------------------


def _places(use: TierUse, pool: Estimate, others: tuple[Estimate, ...]) -> Term:
    """Devices, nodes, racks or clusters that have their own: those that hold a rank."""
    scope = use.capacity.scope
    found = places_of(scope, [pool, *(others if use.tier.shared else ())])
    if use.tier.shared and scope == "cluster":
        found = 1
    return of_hardware(pool.subject, f"{scope}s with their own", found, "that hold a rank")


def _units_of_request(use: TierUse, pool: Estimate, count: int) -> int:
    """Of what capacity is per, how many the devices of one request stand in."""
    if use.tier.shared:
        return count
    topology, scope = pool.subject.topology, use.capacity.scope
    inside = max(1, topology.touched(scope, topology.devices))
    devices = -(-topology.devices // inside)
    holding_devices = Fraction(holding(pool, "receiving").value)
    return min(
        count, max(1, -(-holding_devices.numerator // (devices * holding_devices.denominator)))
    )


def _token(pool: Estimate, parts: tuple[CachePart, ...], recipe: Recipe) -> Term:
    """Bytes of a token of the mean: at the workload's length, so that windows and states count."""
    length = cache.held_tokens(pool.subject)
    even = all(part.even for part in parts)
    size = sum((_bytes(part, 1 if even else length) for part in parts), start=Fraction(0))
    form = recipe.uniform
    note = f"one copy in {form.title if form else recipe.title}"
    return Term(
        "bytes of a token in the tier",
        tidy(size if even else size / length),
        units.BYTES_PER_TOKEN,
        inputs=(pool.values["kv.bytes_per_token"],),
        note=note + ("" if even else f", over {grouped(length)} tok"),
    )


def _bytes(part: CachePart, length: int) -> Fraction:
    return Fraction(cache.record_bytes(part)) * part.layers * part.tokens(length)


def request_bytes(held: Tier, tokens: Term) -> Term:
    """Bytes of so many tokens of one request in the tier's format."""
    length = -(-Fraction(tokens.value).numerator // Fraction(tokens.value).denominator)
    size = sum((_bytes(part, length) for part in held.parts), start=Fraction(0))
    if not length:
        size = Fraction(0)
    return Term(f"bytes of {grouped(length)} tok", tidy(size), BYTES, inputs=(held.token, tokens))


def _tokens(
    use: TierUse, pool: Estimate, parts: tuple[CachePart, ...], each: Term, count: Term,
    spread: int, token: Term,
) -> Term:  # fmt: skip
    even = all(part.even for part in parts)
    length = (use.chunk or page_of(pool)) if even else cache.held_tokens(pool.subject)
    size = sum((_bytes(part, length) for part in parts), start=Fraction(0))
    chunk = Term("chunk" if even else "request", length, TOKENS, basis="spec", span=use.at)
    place = Term("bytes of a place", times(each.value, spread), BYTES, inputs=(each,),
                 note=f"{spread:,} share a request" if spread > 1 else "")  # fmt: skip
    return held_tokens.derive(
        f"tokens in {use.name}",
        places=Term("places", int(count.value) // spread, inputs=(count,)),
        each=place,
        chunk_bytes=Term(f"bytes of a {chunk.label}", tidy(size), BYTES, inputs=(token,)),
        chunk=chunk,
    )


def _refused(use: TierUse, parts: tuple[CachePart, ...]) -> tuple[Format, ...]:
    """Formats of what is kept that the tier may not hold; weights' formats hold no cache."""
    accepted = {form.title for form in use.tier.accepts}
    forms = {c.format.title: c.format for part in parts for c in part.components}
    return tuple(
        form
        for title, form in forms.items()
        if form.holds == "weights" or (accepted and title not in accepted)
    )
