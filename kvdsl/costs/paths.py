"""Paths: what the units of a tier read and write, and what its links carry to the devices.

Comes in: one of the deployment's `tiers` and the pool above it. Goes out: units, rates and the
latency before the first byte; a rate is None where nothing gives one. Not its job: what a tier
holds, or the time of a request (tiers).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import at_least, over, raised, times
from kvdsl.costs import cache
from kvdsl.costs.collectives import Number
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import fixed, of_hardware, of_layout
from kvdsl.costs.transfer import holding
from kvdsl.formulas import Term, assumed, formula, least, total
from kvdsl.placement.cache import CachePart
from kvdsl.placement.sites import Site, sites
from kvdsl.spec.deployment import TierUse
from kvdsl.spec.hardware import Link, ManyTiers, Node
from kvdsl.units import BYTE_RATE, BYTES, NONE, TIME, grouped, tidy


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


@formula("units / pools that stand where they are", NONE, "each has as many")
def part_of_units(units: Number, pools: Number) -> Number:
    return over(units, pools)


def standing(pools: Sequence[Estimate]) -> tuple[Site, ...]:
    """What pools stand on, each unit once."""
    return sites([(p.subject.pool.on, p.subject.topology, p.placement.used) for p in pools])


def places_of(scope: str, pools: Sequence[Estimate]) -> int:
    """Devices, nodes, racks or clusters that hold a rank; one, where hardware names none."""
    return sum(max(1, site.touched(scope)) for site in standing(pools))


def crowd(use: TierUse, pool: Estimate, others: Sequence[Estimate], scope: str) -> Term | None:
    """How many pools that look prefixes up stand in a unit of hardware, the mean; None where each
    stands alone, or where the tier is one for all."""
    found = [pool, *(other for other in others if other.subject.pool.role != "decode")]
    alone = sum(places_of(scope, [each]) for each in found)
    many = Fraction(alone, places_of(scope, found))
    if use.tier.shared or many == 1:
        return None
    return of_hardware(pool.subject, f"pools in a {scope}", tidy(many), "that look prefixes up")


def page_of(pool: Estimate) -> int:
    return pool.subject.engine.block if pool.subject.engine else 1


def units_of(use: TierUse, pool: Estimate) -> Term:
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


def rate_of(
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


def own_lanes(use: TierUse, pool: Estimate) -> Term:
    """Links to the devices of one request."""
    devices = holding(pool, "receiving")
    if use.lanes is None:
        return devices
    nodes = max(1, pool.subject.topology.touched("node", pool.subject.topology.devices))
    own = -(-pool.subject.topology.devices // nodes)
    spread = max(1, -(-int(-(-Fraction(devices.value) // 1)) // own))
    lanes = leaf(use, "lanes", "lanes a node", use.lanes, NONE)
    return Term("lanes of a request", times(lanes.value, spread), inputs=(lanes,))


def path_of(use: TierUse, pool: Estimate, lanes: Term) -> Term | None:
    link = use.over or use.tier.link
    if link is None:
        return None
    return units_rate.derive("what its path carries", count=lanes, each=_link_rate(link, pool))


def all_lanes(use: TierUse, pool: Estimate, others: tuple[Estimate, ...]) -> Term | None:
    """What the paths of all devices carry together; of a shared tier, those of all pools."""
    pools = [pool, *(others if use.tier.shared else ())]
    found = sum(one.placement.used for one in pools)
    if use.lanes is not None:
        found = use.lanes * places_of("node", pools)
        if (many := crowd(use, pool, others, "node")) is not None:
            lanes = Term("lanes in all", over(found, many.value), inputs=(many,))
            return path_of(use, pool, lanes)
    return path_of(use, pool, of_layout(pool.subject, "lanes in all", found))


def slower(rate: Term | None, lanes: Term | None, label: str) -> Term | None:
    if rate is None or lanes is None:
        return rate if rate is None else rate.named(label)
    return least(label, [rate, lanes])


def _piece(use: TierUse, pool: Estimate, parts: tuple[CachePart, ...]) -> Term:
    """Bytes that lie together: a chunk of all layers, or of one where layers come one by one."""
    chunk = use.chunk or page_of(pool)
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


def amplified_by(use: TierUse, pool: Estimate, parts: tuple[CachePart, ...]) -> Term:
    if not use.tier.granularity:
        return fixed("amplification", 1, "the tier names no granularity")
    return amplification.derive("amplification", piece=_piece(use, pool, parts),
                                granularity=_granularity(use))  # fmt: skip


def latency_of(use: TierUse) -> Term:
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
