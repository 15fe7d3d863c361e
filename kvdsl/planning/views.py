"""Views of one pool for the plan: memory bars, cache rows, collectives, steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf

from kvdsl.arithmetic import over
from kvdsl.costs import cache, passes
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.fitted import VECTORS
from kvdsl.costs.memory import Ledger
from kvdsl.costs.pace import pace_of
from kvdsl.costs.passes import RankTime
from kvdsl.costs.prefill import Prefill
from kvdsl.placement.cache import CachePart
from kvdsl.placement.exchanges import Group
from kvdsl.plan import CacheRow, CollectiveRow, MemoryBar, Segment, StepBar
from kvdsl.units import BYTES, BYTES_PER_TOKEN, NONE, TIME, Quantity, counted, grouped

MODULE_ORDER = (
    "embedding", "attention", "state_mixer", "indexer", "ffn", "routed_experts", "shared_experts",
    "router",
    "norms", "head", "hidden_vectors", "tower",
)  # fmt: skip


SAME_RATE = 0.01
"""Rates closer than this are told as one."""


def _name(pool: str) -> str:
    return f"{pool}: " if pool else ""


def memory_bars(pool: str, found: Estimate) -> tuple[MemoryBar, ...]:
    return tuple(_bar(pool, found, book) for book in found.ledgers)


def _bar(pool: str, found: Estimate, book: Ledger) -> MemoryBar:
    stage = found.placement.stages[book.rank.stage]
    several = len(found.placement.stages) > 1
    title = f"{_name(pool)}stage {stage.number}" if several else f"{_name(pool)}every rank"
    weights = dict(book.modules)
    segments = [
        Segment(module.replace("_", " "), "weights", Quantity(weights[module].value, BYTES))
        for module in sorted(weights, key=_module_order)
    ]
    used = _cached(found, book)
    room = Fraction(book.room.value)
    segments.append(Segment("reserve", "reserve", book.reserve.quantity))
    segments.append(Segment("cache of the workload", "cache", Quantity(min(used, room), BYTES)))
    if room > used:
        segments.append(Segment("room for more", "free", Quantity(room - used, BYTES)))
    # All the rest, so that the pieces add up to the memory: also where weights reach beyond what
    # may be used, or the budget says outright what the cache gets.
    held = sum((Fraction(s.quantity.value) for s in segments if s.quantity.value > 0), Fraction(0))
    outright = found.subject.budget.kv is not None
    beyond = "beyond the budget" if outright else "beyond utilization"
    over = Fraction(book.memory.value) - held
    segments.append(Segment(beyond, "over", Quantity(over, BYTES)))
    token = Fraction(book.token.value)
    tokens = int(max(room, Fraction(0)) // token) if token else 0
    return MemoryBar(
        title,
        pool,
        book.rank.device.title.rpartition(".")[2],
        book.rank.count,
        book.memory.quantity,
        book.usable.quantity,
        tuple(s for s in segments if s.quantity.value > 0),
        book.room,
        Quantity(tokens, BYTES / BYTES_PER_TOKEN),
    )


def _module_order(module: str) -> int:
    return MODULE_ORDER.index(module) if module in MODULE_ORDER else len(MODULE_ORDER)


def _cached(found: Estimate, book: Ledger) -> Fraction:
    if found.load is None:
        return Fraction(0)
    stage = found.placement.stages[book.rank.stage]
    length = cache.held_tokens(found.subject)
    return cache.request_on_rank(stage, length) * int(found.load.busiest.value)


def cache_rows(pool: str, found: Estimate) -> tuple[CacheRow, ...]:
    """One row for each part, however often layers without it come between."""
    return tuple(_cache_row(pool, found, part) for part in found.placement.parts)


def _cache_row(pool: str, found: Estimate, part: CachePart) -> CacheRow:
    ranks = found.placement.degrees.size // found.placement.degrees.attention.dp
    layers = part.layers
    on_rank = Fraction(0)
    everywhere = Fraction(0)
    for stage in found.placement.stages:
        here = sum(
            (cache.rank_record(s) * s.layers for s in stage.cache if s.part == part),
            start=Fraction(0),
        )
        on_rank = max(on_rank, here)
        everywhere += here * ranks
    whole = cache.record_bytes(part) * layers
    described = " + ".join(
        f"{c.name.replace('_', ' ')} {c.heads} x {c.width} {c.format.title.rpartition('.')[2]}"
        if c.heads > 1
        else f"{c.name.replace('_', ' ')} {c.width} {c.format.title.rpartition('.')[2]}"
        for c in part.components
    )
    unit = BYTES if part.state else BYTES_PER_TOKEN
    return CacheRow(
        pool,
        part.name,
        part.form,
        layers,
        described,
        _growth(part),
        Quantity(over(whole, part.every), unit),
        Quantity(over(on_rank, part.every), unit),
        Quantity(everywhere / whole if whole else 1, NONE),
    )


def _growth(part: CachePart) -> str:
    if part.growth == "window":
        return f"last {grouped(part.limit)} tok"
    if part.growth == "request":
        return "once a request" if part.state else f"{counted(part.limit, 'records')} a request"
    return f"once in {grouped(part.every)} tok" if part.every > 1 else "with every token"


def collective_rows(pool: str, found: Estimate) -> tuple[CollectiveRow, ...]:
    rows = [_row(pool, "decode", c) for c in (found.decode.exchanges if found.decode else ())]
    rows += [_row(pool, "prefill", c) for c in (found.prefill.exchanges if found.prefill else ())]
    return tuple(rows)


def _row(pool: str, phase: str, cost: CollectiveCost) -> CollectiveRow:
    exchange, group = cost.exchange, cost.group
    join = group.reach.join
    return CollectiveRow(
        pool,
        "decode" if phase == "decode" else "prefill",
        exchange.kind.replace("_", "-"),
        exchange.module.replace("_", " "),
        exchange.axis,
        group.size,
        span_text(group),
        join.link.title.rpartition(".")[2] if join else "",
        group.reach.fast,
        exchange.stage,
        exchange.count,
        cost.size.quantity,
        cost.once.quantity,
        cost.all.quantity,
        exchange.why,
        cost.all,
        cost.algorithm,
        cost.basis,
        None if cost.basis == "ideal" else Quantity(float(cost.low), TIME),
        None if cost.basis == "ideal" else Quantity(float(cost.high), TIME),
        cost.lent,
    )


def span_text(group: Group) -> str:
    """Where a group lies: `one node`, `2 nodes`, `one rack (18 nodes)`."""
    reach = group.reach
    if reach.nodes == 1:
        return "one node"
    if reach.fast:
        return f"one {reach.kind} ({reach.nodes} nodes)"
    return f"{reach.nodes} nodes"


# --- steps -------------------------------------------------------------------------------------


def step_bars(pool: str, found: Estimate) -> tuple[StepBar, ...]:
    bars = []
    if found.decode is not None:
        exchanged = found.decode.exchanges
        beside, yielded = found.decode.beside, found.decode.yielded
        what = "one decode step"
        if yielded != 1:
            what += f", which yields {yielded:.3g} tok of a request"
        bars.append(_step(pool, "decode", found, found.decode.times, exchanged, what, beside))
    if found.prefill is not None:
        exchanged = found.prefill.exchanges
        # At an engine's pace a prompt meets DP ranks that have none.
        apart = pace_of(found.subject) is not None and found.subject.degrees.attention.dp > 1
        what = f"prefill of one prompt{' alone' if apart else ' on each DP rank'}"
        bar = _step(pool, "prefill", found, found.prefill.times, exchanged, what)
        workload = found.subject.workload
        arrives = workload.rate is not None and workload.concurrency is None
        chunks = _in_chunks(
            found.prefill, "prompts that wait fill" if arrives else "this load fills"
        )
        bars.append(replace(bar, roofline=bar.roofline + chunks))
    return tuple(bars)


def _in_chunks(found: Prefill, filled: str) -> str:
    """Why the deployment's rate is not that of the pass, where its load fills other chunks."""
    if found.full is None or found.chunk is None:
        return ""
    full, own = float(found.full.value), float(found.throughput.value)
    if abs(own - full) <= SAME_RATE * full:
        return ""
    return (
        f"; at this pace {grouped(full)} tok/s if every DP rank always had a prompt, and "
        f"prefill.throughput is {grouped(own)} tok/s in the chunks of "
        f"{counted(found.chunk.value, 'tokens')} a DP rank that {filled}"
    )


def _step(
    pool: str,
    phase: str,
    found: Estimate,
    times: tuple[RankTime, ...],
    exchanged: tuple[CollectiveCost, ...],
    what: str,
    beside: Sequence[tuple[str, float]] = (),
) -> StepBar:
    """A pass as rows that add up to its time; `beside` are those that no rank's own work is."""
    slowest = passes.slowest(times)
    slow = [slowest[stage.number] for stage in found.placement.stages]
    modules: dict[str, float] = {}
    computed: dict[str, float] = {}
    for rank in slow:
        reads, works = dict(rank.reads), dict(rank.works)
        for module, term in rank.modules:
            modules[module] = modules.get(module, 0.0) + float(term.value)
            if module in works and works[module].value > reads[module].value:
                computed[module] = computed.get(module, 0.0) + float(term.value)
    cached = sum(float(rank.kv.value) for rank in slow)
    sent = sum(float(c.all.value) for c in exchanged)
    segments = [
        Segment(
            module.replace("_", " "),
            "compute" if computed.get(module, 0.0) > modules[module] / 2 else "read",
            Quantity(modules[module], TIME),
        )
        for module in sorted(modules, key=_module_order)
        if modules[module] > 0
    ]
    label = "cache read" if phase == "decode" else "attention over the prompt"
    segments.append(Segment(label, "attention", Quantity(cached, TIME)))
    segments += list(_sent(exchanged))
    launched = sum(float(rank.launches.value) for rank in slow)
    segments.append(Segment("launches", "other", Quantity(launched, TIME)))
    segments += [Segment(name, "other", Quantity(taken, TIME)) for name, taken in beside]
    waited = sum(taken for _, taken in beside)
    whole = Quantity(sum(modules.values()) + cached + sent + launched + waited, TIME)
    arithmetic = sum(computed.values())
    moved = modules.get(VECTORS, 0.0)
    text = _bound(
        (
            ("memory", "reading weights", sum(modules.values()) - arithmetic - moved),
            ("memory", "moving hidden vectors", moved),
            ("arithmetic", "arithmetic on weights", arithmetic),
            _attention(phase, slow, cached),
            ("communication", "collectives and sends", sent),
            ("launches", "launches of kernels", launched),
            *((name, name, taken) for name, taken in beside),
        )
    )
    return StepBar(
        pool, "decode" if phase == "decode" else "prefill", f"{_name(pool)}{what}",
        tuple(s for s in segments if s.quantity.value > 0), whole, text, _roofs(slow),
    )  # fmt: skip


def _roofs(slow: list[RankTime]) -> tuple[tuple[str, Quantity], ...]:
    """All bytes over bandwidth, and all work over peak, on the slowest rank of each stage."""
    read = sum(float(t.weight_read.value) + float(t.cache_read.value) for t in slow)
    work = sum(float(w.value) for t in slow for _, w in t.works)
    work += sum(float(t.attention.value) for t in slow)
    return (
        ("all bytes over memory bandwidth", Quantity(read, TIME)),
        ("all work over peak", Quantity(work, TIME)),
    )


def _attention(phase: str, slow: list[RankTime], cached: float) -> tuple[str, str, float]:
    """The cache's part of a pass: read in a decode step, or arithmetic of a prompt where that takes
    longer than its reads."""
    read = sum(float(t.cache_read.value) for t in slow)
    computed = sum(float(t.attention.value) for t in slow) > read
    name = "reading the cache" if phase == "decode" else "attention over the prompt"
    return ("arithmetic" if computed else "memory", name, cached)


def _bound(parts: Sequence[tuple[str, str, float]]) -> str:
    """What takes a pass's time, most first: `bound by memory (86 %: reading weights 52 %, reading
    the cache 34 %), then collectives and sends 15 %`."""
    whole = sum(seconds for *_, seconds in parts)
    bounds: dict[str, float] = {}
    for bound, _, seconds in parts:
        bounds[bound] = bounds.get(bound, 0.0) + seconds
    most = max(bounds, key=lambda name: bounds[name])
    ordered = sorted(parts, key=lambda part: -part[2])
    told = {
        is_most: [
            f"{name} {_percent(seconds, whole)}"
            for bound, name, seconds in ordered
            if (bound == most) == is_most and seconds >= 0.005 * whole
        ]
        for is_most in (True, False)
    }
    text = f"bound by {most} ({_percent(bounds[most], whole)}"
    text += f": {', '.join(told[True])})" if len(told[True]) > 1 else ")"
    return ", then ".join([text, ", ".join(told[False])] if told[False] else [text])


def _percent(part: float, whole: float) -> str:
    share = part / whole if 0 < whole < inf else 0.0
    return f"{round(share * 100)} %"


def _sent(exchanged: tuple[CollectiveCost, ...]) -> Iterator[Segment]:
    kinds: dict[str, float] = {}
    for cost in exchanged:
        kind = cost.exchange.kind.replace("_", "-")
        kinds[kind] = kinds.get(kind, 0.0) + float(cost.all.value)
    for kind, seconds in kinds.items():
        yield Segment(kind, "collective", Quantity(seconds, TIME))
