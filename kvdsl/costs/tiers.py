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
from kvdsl.arithmetic import at_least, floored, over, raised, real, times, where
from kvdsl.costs import cache
from kvdsl.costs.codecs import codec_steps
from kvdsl.costs.collectives import Number
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import fixed, of_hardware, of_layout, of_model
from kvdsl.costs.transfer import holding, visible_layerwise
from kvdsl.formulas import Term, assumed, formula, greatest, least, total
from kvdsl.placement.cache import CachePart, cache_parts
from kvdsl.spec.deployment import TierUse
from kvdsl.spec.formats import Format, Recipe, RecipeLine
from kvdsl.spec.hardware import Link, ManyTiers, Node
from kvdsl.units import BYTE_RATE, BYTES, NONE, TIME, TOKENS, grouped, tidy


@formula("capacity of a unit x units", BYTES)
def capacity_bytes(each: Number, count: int) -> Number:
    return times(each, count)


@formula("places x floor(bytes of a place / bytes of a chunk) x tokens a chunk", TOKENS,
         "chunks are kept whole, and a request in the units that its devices share")  # fmt: skip
def held_tokens(places: int, each: Number, chunk_bytes: Number, chunk: Number) -> Number:
    some = where(chunk_bytes > 0, chunk_bytes, 1)
    return where(chunk_bytes > 0, places * floored(each, some) * chunk, 0)


@formula("units x rate of one", BYTE_RATE)
def units_rate(count: Number, each: Number) -> Number:
    return times(count, each)


@formula("ceil(piece / granularity) x granularity / piece", NONE, "a piece takes whole accesses")
def amplification(piece: Number, granularity: Number) -> Number:
    return over(raised(piece, granularity) * granularity, piece)


@formula("accesses a second x ceil(piece / granularity) x granularity", BYTE_RATE,
         "no access is more than one piece")  # fmt: skip
def operations_rate(
    operations: Number, count: Number, piece: Number, granularity: Number
) -> Number:
    least = at_least(granularity, 1)
    return times(operations, count, raised(piece, least) * least)


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
    """A tier under a pool; `others` are the pools whose units a shared tier has too."""
    recipe = Recipe(lines=(RecipeLine(format=use.format),)) if use.format else pool.subject.kv
    parts = cache_parts(pool.subject.model, recipe)
    count = _places(use, pool, others)
    each = leaf(use, "capacity", f"capacity per {use.capacity.scope}", use.capacity.value, BYTES)
    token = _token(pool, parts, recipe)
    spread = _units_of_request(use, pool, int(count.value))
    units_each = _units(use, pool)
    reached = count.value if use.tier.shared else spread
    own = Term("units of a request", times(units_each.value, reached), inputs=(units_each,))
    one = _rate(use, pool, parts, "read", own)
    everything = Term(
        "units in all", times(units_each.value, count.value), inputs=(units_each, count)
    )
    lanes = _all_lanes(use, pool, others)
    refused = _refused(use, parts)
    held = _tokens(use, pool, parts, each, count, spread, token)
    if refused:
        held = fixed(f"tokens in {use.name}", 0, "it does not hold their format", TOKENS)
    return Tier(
        use, pool, parts, refused, count,
        capacity_bytes.derive(f"capacity of {use.name}", each=each, count=count),
        token,
        held,
        _slower(_rate(use, pool, parts, "read", everything), lanes, "read in all"),
        _slower(_rate(use, pool, parts, "write", everything), lanes, "written in all"),
        one,
        _path(use, pool, _own_lanes(use, pool)),
        _amplified(use, pool, parts),
        _latency(use),
    )  # fmt: skip


# --- capacity ------------------------------------------------------------------------------------


def _places(use: TierUse, pool: Estimate, others: tuple[Estimate, ...]) -> Term:
    """Devices, nodes, racks or clusters that have their own: those that hold a rank."""
    scope = use.capacity.scope
    found = 0
    for one in (pool, *(others if use.tier.shared else ())):
        topology = one.subject.topology
        found += max(1, topology.touched(scope, one.placement.used))
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
    length = (use.chunk or _page(pool)) if even else cache.held_tokens(pool.subject)
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


def _page(pool: Estimate) -> int:
    return pool.subject.engine.block if pool.subject.engine else 1


def _refused(use: TierUse, parts: tuple[CachePart, ...]) -> tuple[Format, ...]:
    """Formats of what is kept that the tier may not hold; weights' formats hold no cache."""
    accepted = {form.title for form in use.tier.accepts}
    forms = {c.format.title: c.format for part in parts for c in part.components}
    return tuple(
        form
        for title, form in forms.items()
        if form.holds == "weights" or (accepted and title not in accepted)
    )


# --- rates ---------------------------------------------------------------------------------------


def _units(use: TierUse, pool: Estimate) -> Term:
    """Units of the tier for each of what its capacity is per."""
    if use.count is not None:
        return leaf(use, "count", "units", use.count, NONE)
    drives = _drives(use, pool)
    if drives:
        return of_hardware(pool.subject, "units", drives, f"drives of a {use.capacity.scope}")
    return fixed("units", 1, f"one for each {use.capacity.scope}")


def _drives(use: TierUse, pool: Estimate) -> int:
    on = pool.subject.pool.on
    if on is None or use.capacity.scope != "node":
        return 0
    found = _node(on.of)
    drives: tuple[ManyTiers, ...] = found.drives if found is not None else ()
    return sum(many.count for many in drives if many.of.title == use.tier.title)


def _node(hardware: object) -> Node | None:
    """The first node in a piece of hardware."""
    if isinstance(hardware, Node):
        return hardware
    for word in ("nodes", "racks", "clusters"):
        for many in getattr(hardware, word, ()):
            found = _node(many.of)
            if found is not None:
                return found
    return None


def _rate(
    use: TierUse, pool: Estimate, parts: tuple[CachePart, ...], word: str, count: Term
) -> Term | None:
    """What so many units read or write; a unit that names no rate has that of its link."""
    rate = use.tier.read if word == "read" else use.tier.write
    if rate is not None:
        each = leaf(use.tier, word, f"{use.tier.title} {word}s", rate, BYTE_RATE)
    elif use.tier.link is not None:
        each = _link_rate(use.tier.link, pool)
    else:
        return None
    found = units_rate.derive(f"what its units {word}", count=count, each=each)
    if use.tier.operations is None or word == "write":
        return found
    accesses = operations_rate.derive(
        "what its accesses carry",
        operations=leaf(use.tier, "operations", "accesses a second", use.tier.operations,
                        units.REQUEST_RATE),
        count=count,
        piece=_piece(use, pool, parts),
        granularity=_granularity(use),
    )  # fmt: skip
    return least(f"what its units {word}", [found, accesses])


def _link_rate(link: Link, pool: Estimate) -> Term:
    """Of one link: as measured where times are fitted, else its own; its efficiency where known."""
    if pool.subject.ideal:
        return leaf(link, "bandwidth", f"bandwidth of {link.title}", link.bandwidth, BYTE_RATE)
    if link.achieved is not None:
        return leaf(link, "achieved", f"{link.title} as measured", link.achieved, BYTE_RATE)
    return units_rate.derive(
        f"{link.title} in use",
        count=leaf(link, "efficiency", "efficiency", Fraction(link.efficiency), NONE),
        each=leaf(link, "bandwidth", f"bandwidth of {link.title}", link.bandwidth, BYTE_RATE),
    )


def _own_lanes(use: TierUse, pool: Estimate) -> Term:
    """Links to the devices of one request."""
    devices = holding(pool, "receiving")
    if use.lanes is None:
        return devices
    nodes = max(1, pool.subject.topology.touched("node", pool.subject.topology.devices))
    own = -(-pool.subject.topology.devices // nodes)
    spread = max(1, -(-int(-(-Fraction(devices.value) // 1)) // own))
    lanes = leaf(use, "lanes", "lanes a node", use.lanes, NONE)
    return Term("lanes of a request", times(lanes.value, spread), inputs=(lanes,))


def _path(use: TierUse, pool: Estimate, lanes: Term) -> Term | None:
    link = use.over or use.tier.link
    if link is None:
        return None
    return units_rate.derive("what its path carries", count=lanes, each=_link_rate(link, pool))


def _all_lanes(use: TierUse, pool: Estimate, others: tuple[Estimate, ...]) -> Term | None:
    found = 0
    for one in (pool, *(others if use.tier.shared else ())):
        used = one.placement.used
        nodes = max(1, one.subject.topology.touched("node", used))
        found += used if use.lanes is None else use.lanes * nodes
    return _path(use, pool, of_layout(pool.subject, "lanes in all", found))


def _slower(rate: Term | None, lanes: Term | None, label: str) -> Term | None:
    if rate is None or lanes is None:
        return rate if rate is None else rate.named(label)
    return least(label, [rate, lanes])


def _piece(use: TierUse, pool: Estimate, parts: tuple[CachePart, ...]) -> Term:
    """Bytes that lie together: a chunk of all layers, or of one where layers come one by one."""
    chunk = use.chunk or _page(pool)
    size = Fraction(0)
    for part in parts:
        layers = 1 if use.overlap == "layerwise" else part.layers
        size += 0 if part.state else Fraction(cache.record_bytes(part)) * layers * chunk
        if use.overlap == "layerwise" and size:
            break
    what = "of one layer" if use.overlap == "layerwise" else "of all layers"
    return Term("piece", tidy(size) or 1, BYTES, basis="spec", span=use.at,
                note=f"{grouped(chunk)} tok {what}")  # fmt: skip


def _granularity(use: TierUse) -> Term:
    if use.tier.granularity is None:
        return fixed("granularity", 1, "the tier names none", BYTES)
    return leaf(use.tier, "granularity", "granularity", use.tier.granularity, BYTES)


def _amplified(use: TierUse, pool: Estimate, parts: tuple[CachePart, ...]) -> Term:
    if not use.tier.granularity:
        return fixed("amplification", 1, "the tier names no granularity")
    return amplification.derive("amplification", piece=_piece(use, pool, parts),
                                granularity=_granularity(use))  # fmt: skip


def _latency(use: TierUse) -> Term:
    found = []
    if use.setup is not None:
        found.append(leaf(use, "setup", "setup of a request", use.setup, TIME))
    found += [
        leaf(each, "latency", f"latency of {each.title}", each.latency, TIME)
        for each in (use.tier, use.through)
        if each is not None and each.latency is not None
    ]
    if not found:
        return assumed(f"latency of {use.tier.title}", 0.0, TIME, "the tier names no latency")
    return total("setup and latency", found)
