"""A step at its fitted pace: what a rank's inventory takes, for one load or an array of loads.

Comes in: inventories, an engine's constants, and what a pass carries. Goes out: for each stage the
time of weights, cache, launches and collectives as terms. Reading and computing overlap inside a
module; modules, collectives and launches follow one another. Weights of experts are read as far as
tokens hit them. Each value may be a number or a numpy array over loads.
Leaves out: skew of the routing, tails of kernels, contention with the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvdsl.arithmetic import greater, real, smaller, where
from kvdsl.costs import overlap
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.experts import Routed
from kvdsl.costs.inventory import CacheRead, Inventory, Weights
from kvdsl.costs.origins import fixed
from kvdsl.costs.pace import Constants
from kvdsl.costs.setting import Passed, Setting
from kvdsl.formulas import Term, assumed, formula, greatest, total
from kvdsl.units import BYTES, NONE, TIME, TOKENS, WORK

FITTED = "a roofline with the share that kernels reach; fitted over serving measurements"
SHARPNESS = 4
"""How sharply the slower of reading and computing hides the other: 2 to 8 fit alike."""


@formula("bytes / (bandwidth x share reached)", TIME, FITTED)
def read_time(size: float, bandwidth: float, reached: float) -> float:
    return real(size) / (real(bandwidth) * real(reached))


@formula("work / (peak x share reached)", TIME, FITTED)
def product_time(work: float, peak: float, reached: float) -> float:
    return real(work) / (real(peak) * real(reached))


@formula("(reading^4 + computing^4)^(1/4)", TIME, "the longer of the two, rounded where they meet")
def longer(reading: float, computing: float) -> float:
    most, least = greater(real(reading), real(computing)), smaller(real(reading), real(computing))
    # Over the greater of the two, or a power of what is absurdly long is beyond a float.
    apart = least / where(most > 0, most, 1.0)
    return most * (1 + apart**SHARPNESS) ** (1 / SHARPNESS)


@formula("work of a token x tokens", WORK)
def work_of(each: float, tokens: float) -> float:
    return real(each) * real(tokens)


@formula(
    "work of a token x (tokens + rows empty x experts x share hit / experts that tokens draw)",
    WORK,
    "each expert that is hit multiplies whole tiles",
)
def work_in_tiles(
    each: float, tokens: float, empty: float, experts: int, hit: float, drawn: float
) -> float:
    return real(each) * (real(tokens) + real(empty) * real(experts) * real(hit) / real(drawn))


EMPTY = fixed(
    "rows empty in the last tile of an expert", 8, "half of 16 rows: PTX ISA 8.5, mma.m16n8k16",
    TOKENS,
)  # fmt: skip


@formula("share of the peak x share of that in grouped products", NONE)
def grouped_share(products: float, grouped: float) -> float:
    return real(products) * real(grouped)


@formula("requests x bytes of an entry x the lesser of context / entry's tokens and limit", BYTES)
def cache_bytes(requests: float, size: float, context: float, every: int, limit: float) -> float:
    return real(requests) * real(size) * smaller(real(context) / real(every), real(limit))


@formula("2 x requests x bytes of the state", BYTES, "read and written")
def state_bytes(requests: float, size: float) -> float:
    return 2 * real(requests) * real(size)


@formula("queries x work of a pair x the lesser of keys / entry's tokens and limit", WORK)
def pair_work(queries: float, each: float, keys: float, every: int, limit: float) -> float:
    return real(queries) * real(each) * smaller(real(keys) / real(every), real(limit))


@formula(
    "layers x vectors x bytes of one x tokens / bandwidth",
    TIME,
    "norms, residuals and casts between products: each rank of a TP group has whole vectors",
)
def vectors_time(layers: int, vectors: float, size: int, tokens: float, bandwidth: float) -> float:
    return real(layers) * real(vectors) * real(size) * real(tokens) / real(bandwidth)


@formula("layers x launches of one x age x factor", TIME, FITTED)
def launch_time(layers: int, each: float, age: float, factor: float) -> float:
    return real(layers) * real(each) * real(age) * real(factor)


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """One kind of weights in a pass."""

    module: str
    read: Term
    computed: Term
    time: Term


@dataclass(frozen=True, slots=True)
class RankPace:
    """One rank class in a pass."""

    inventory: Inventory
    modules: tuple[ModuleTime, ...]
    cache_read: Term
    attention: Term
    kv: Term
    vectors: Term
    launches: Term

    @property
    def time(self) -> Term:
        parts = [*(m.time for m in self.modules), self.kv, self.vectors, self.launches]
        return total("time of the rank", parts)


@dataclass(frozen=True, slots=True)
class StagePace:
    """One stage in a pass: its rank classes, its collectives, and the time of the slowest."""

    number: int
    ranks: tuple[RankPace, ...]
    exchanges: tuple[CollectiveCost, ...]
    collectives: Term
    time: Term


def paced(setting: Setting, constants: Constants, passed: Passed) -> tuple[StagePace, ...]:
    """Every stage of a pass."""
    found = []
    passed = setting.cut(passed)
    for sent in setting.sent(passed):
        ranks = tuple(
            rank_pace(stock, constants, passed)
            for stock in setting.stocks
            if stock.stage.number == sent.stage
        )
        slowest = greatest("slowest rank", [rank.time for rank in ranks])
        kv = greatest("attention of the slowest rank", [rank.kv for rank in ranks])
        costs = overlap.exposed(sent.costs, {sent.stage: kv})
        shown = fixed("collectives", 0.0, "no group has two ranks", TIME)
        if costs:
            shown = total("collectives", [cost.all for cost in costs])
        time = total(f"{passed.what} in stage {sent.stage}", [slowest, shown])
        found.append(StagePace(sent.stage, ranks, costs, shown, time))
    return tuple(found)


def rank_pace(stock: Inventory, constants: Constants, passed: Passed) -> RankPace:
    modules = tuple(_module(stock, weights, constants, passed) for weights in stock.weights)
    cache_read, attention = _cache(stock, constants, passed)
    kv = greatest("attention over the cache", [cache_read, attention])
    moved = vectors_time.derive(
        "hidden vectors",
        layers=stock.layers,
        vectors=constants.vectors,
        size=stock.vector,
        tokens=passed.tokens,
        bandwidth=stock.bandwidth,
    )
    launches = _launches(stock, constants, passed)
    return RankPace(stock, modules, cache_read, attention, kv, moved, launches)


def _module(stock: Inventory, weights: Weights, constants: Constants, passed: Passed) -> ModuleTime:
    word = weights.label
    tokens = passed.sampled if weights.kind == "head" else passed.tokens
    over_parts = weights.kind in ("dense", "experts") and not weights.own
    if over_parts and passed.all_parts is not None:
        tokens = passed.all_parts
    size, reached = weights.size, constants.weights
    if weights.routed is not None:
        reached = constants.emulated if weights.emulated else constants.experts
        size = weights.routed.read_by_busiest(size, tokens, alone=passed.alone)
    read = read_time.derive(f"{word} read", size=size, bandwidth=stock.bandwidth, reached=reached)
    works = []
    for product in weights.products:
        if product.peak is None:
            works.append(assumed(f"{word} computed", 0.0, TIME,
                                 f"{stock.device.title} names no peaks"))  # fmt: skip
            continue
        share = constants.products(product.row)
        if weights.routed is not None:
            share = grouped_share.derive("share reached", products=share, grouped=constants.grouped)
        each = product.alone if passed.alone else product.work
        if weights.routed is None:
            work = work_of.derive(f"work of {word}", each=each, tokens=tokens)
        else:
            work = _work_in_tiles(weights.routed, each, tokens, alone=passed.alone)
        works.append(
            product_time.derive(f"{word} computed", work=work, peak=product.peak, reached=share)
        )
    computed = total(f"{word} computed", works) if len(works) > 1 else works[0]
    module = MODULES.get(weights.kind, weights.kind)
    return ModuleTime(module, read, computed, longer.derive(word, reading=read, computing=computed))


def _work_in_tiles(routed: Routed, each: Term, tokens: Term, *, alone: bool) -> Term:
    return work_in_tiles.derive(
        "work of routed experts",
        each=each,
        tokens=tokens,
        empty=EMPTY,
        experts=routed.experts,
        hit=routed.hit(tokens, alone=alone),
        drawn=routed.drawn(alone=alone),
    )


MODULES = {"dense": "ffn", "experts": "routed_experts"}
"""The module by which a report calls a kind of weights."""

_ENDLESS = fixed("limit", float("inf"), "all of it is read", TOKENS)


def _cache(stock: Inventory, constants: Constants, passed: Passed) -> tuple[Term, Term]:
    reads, times = [], []
    for part in stock.reads:
        reads.append(_bytes(part, passed))
        each = part.prefill_work if passed.prefill else part.decode_work
        peak = part.prompt_peak if passed.prefill else part.peak
        if peak is not None and (not isinstance(each.value, int) or each.value):
            work = pair_work.derive(
                f"scores of {part.label}",
                queries=passed.tokens,
                each=each,
                keys=passed.keys,
                every=_entry(part.every if passed.prefill else part.entry),
                limit=part.limit or _ENDLESS,
            )
            label = f"scores of {part.label} and their use"
            times.append(
                product_time.derive(label, work=work, peak=peak, reached=constants.attention)
            )
    none = fixed("cache", 0.0, "the stage has no cache", BYTES)
    read = read_time.derive(
        "cache read",
        size=total("bytes of cache read", reads) if reads else none,
        bandwidth=stock.bandwidth,
        reached=constants.cache,
    )
    if not times:
        return read, fixed("attention computed", 0.0, "nothing is scored, or no peak known", TIME)
    return read, total("attention computed", times)


def _entry(tokens: int | Fraction) -> Term:
    return fixed("tokens of an entry", tokens, "as the model compresses")


def _bytes(part: CacheRead, passed: Passed) -> Term:
    label = f"bytes read of {part.label}"
    if part.state:
        return state_bytes.derive(label, requests=passed.requests, size=part.size)
    return cache_bytes.derive(
        label,
        requests=passed.requests,
        size=part.size,
        context=passed.context,
        every=_entry(part.entry),
        limit=part.limit or _ENDLESS,
    )


def _launches(stock: Inventory, constants: Constants, passed: Passed) -> Term:
    factor = fixed("factor", 1, "a decode step is replayed from a graph")
    if passed.prefill:
        factor = constants.prefill
    elif passed.undisturbed:
        factor = constants.decode
    kinds = (
        ("layers", stock.layers, constants.layer),
        ("routed experts", stock.sparse, constants.sparse),
        ("unfused experts", stock.unfused, constants.unfused),
        ("latents", stock.latent, constants.latent),
        ("states", stock.mixers, constants.state),
        ("indexers", stock.indexers, constants.indexer),
    )
    terms = [
        launch_time.derive(
            f"launches of {word}",
            layers=layers,
            each=each,
            age=constants.age,
            factor=factor,
        )
        for word, layers, each in kinds
        if not isinstance(layers.value, int) or layers.value
    ]
    return total("launches", terms) if terms else fixed("launches", 0.0, "no layers", TIME)
