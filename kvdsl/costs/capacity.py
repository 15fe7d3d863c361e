"""Capacity under an engine: tokens and requests of a holder, and the figure printed at start-up.

Comes in: for each rank of a holder its stage and the room for its cache. Goes out: tokens and
requests that fit, in whole pages. The fewest pages of any rank hold for all of them, since a
request takes its pages on each. Not its job: the room (memory), the pages themselves (pages).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from kvdsl import units
from kvdsl.arithmetic import at_least, floored, over, real, times
from kvdsl.costs import pages
from kvdsl.costs.origins import fixed, leaf
from kvdsl.costs.weights import Exact
from kvdsl.formulas import Term, formula, least
from kvdsl.placement.placement import Stage
from kvdsl.placement.shares import CacheShard
from kvdsl.placement.subject import Subject
from kvdsl.spec.engine import Engine, HybridCache
from kvdsl.units import grouped, tidy

_VLLM = "vLLM 0.33.0, v1/core/kv_cache_planning.py"
_SGLANG = "SGLang 0.5.23, model_executor/pool_configurator.py"


@formula("floor(room / bytes of a page)", units.NONE, _VLLM)
def pages_that_fit(room: Exact, page: Exact) -> int:
    return floored(at_least(room, 0), page)


@formula("pages - pages never used", units.NONE, _VLLM)
def pages_of_use(pages: int, lost: int) -> int:
    return at_least(pages - lost, 0)


@formula("pages x tokens a page", units.TOKENS)
def tokens_of_pages(pages: int, tokens: int) -> int:
    return pages * tokens


@formula("floor(pages x length / pages of a request)", units.TOKENS, _VLLM)
def tokens_at_length(pages: int, length: int, each: int) -> int:
    return floored(pages * length, each)


@formula("floor((pages - pages of the common prefix) / pages of a request)", units.REQUESTS)
def requests_of_pages(pages: int, common: int, each: int) -> int:
    return floored(at_least(pages - common, 0), each)


@formula(
    "whole part of (pages / pages of the longest request x its length)",
    units.TOKENS,
    "vLLM 0.33.0, v1/core/kv_cache_utils.py: the start-up figure",
)
def tokens_of_longest(pages: int, each: int, length: int) -> int:
    # The engine divides in floating point, which may end one token lower than the exact product.
    return floored(real(pages) / real(each) * length, 1)


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank of a holder: its stage, the room for its cache, and bytes of a token on it."""

    stage: Stage
    room: Term
    token: Term


@dataclass(frozen=True, slots=True)
class Fits:
    """What one holder holds. `printed` and `pages` are those of its start-up log."""

    tokens: Term
    requests: Term
    printed: Term
    pages: Term | None = None


def fits(subject: Subject, ranks: list[Rank], length: int, common: int) -> Fits | None:
    """What a holder holds by the pages of its engine; None where nothing is paged so."""
    engine = subject.engine
    kept = [rank for rank in ranks if rank.stage.cache]
    if engine is None or not kept:
        return None
    pools = [pages.pool(subject, rank.stage) for rank in kept]
    found = [(rank, pool) for rank, pool in zip(kept, pools, strict=True) if pool is not None]
    if len(found) == len(kept):
        return _of_pool(subject, engine, found, length, common)
    if engine.hybrid == "two_pools":
        return _of_two(engine, kept, length, subject.keep)
    return None


def _of_pool(
    subject: Subject,
    engine: Engine,
    found: list[tuple[Rank, pages.Pool]],
    length: int,
    common: int,
) -> Fits:
    here = [
        pages_that_fit.derive(
            f"pages of a rank of stage {rank.stage.number}",
            room=rank.room,
            page=_page(subject, rank, pool),
        )
        for rank, pool in found
    ]
    count = least("pages in each holder", here, note="every rank takes the fewest of any")
    lost = leaf(engine, "lost_blocks", "pages never used", engine.lost_blocks, units.NONE)
    usable = pages_of_use.derive("pages that requests may take", pages=count, lost=lost)
    each = _taken(found, length)
    first = found[0][1]
    size = fixed("tokens a page", first.tokens, _block_note(subject, first))
    if all(pool.uniform for _, pool in found):
        tokens = tokens_of_pages.derive("tokens in each holder", pages=usable, tokens=size)
    else:
        tokens = tokens_at_length.derive(
            "tokens in each holder", pages=usable, length=_length(length), each=each
        )
    shared = max(pool.shared(common) for _, pool in found) if common else 0
    own = fixed("pages of the common prefix", shared, f"whole pages of {grouped(common)} tok")
    requests = requests_of_pages.derive(
        "requests in each holder",
        pages=usable,
        common=own,
        each=_taken(found, length, shared) if shared else each,
    )
    logged = _logged(subject, found, count)
    return Fits(tokens, requests, _printed(subject, engine, found, logged, size), logged)


def _logged(subject: Subject, found: list[tuple[Rank, pages.Pool]], count: Term) -> Term:
    """Pages that the engine asks for: by a token's bytes as it counts them."""
    counted = [(rank, pages.pool(subject, rank.stage, counted=True)) for rank, _ in found]
    if all(one is None or one.page == pool.page
           for (_, one), (_, pool) in zip(counted, found, strict=True)):  # fmt: skip
        return count
    return least(
        "pages that the engine asks for",
        [
            pages_that_fit.derive(
                f"pages of a rank of stage {rank.stage.number}",
                room=rank.room,
                page=_page(subject, rank, pool),
            )
            for rank, pool in counted
            if pool is not None
        ],
        note="KV heads counted over TP, copies left out",
    )


def _printed(
    subject: Subject,
    engine: Engine,
    found: list[tuple[Rank, pages.Pool]],
    count: Term,
    size: Term,
) -> Term:
    """The figure of the start-up log of one engine process, lost pages included."""
    label = f"tokens that {engine.title} prints"
    longest = subject.longest
    if engine.printed == "longest" and longest is not None:
        each = _taken([(rank, pool.whole) for rank, pool in found], longest)
        return tokens_of_longest.derive(label, pages=count, each=each, length=_length(longest))
    note = "the log prints pages" if engine.printed == "blocks" else ""
    return tokens_of_pages.derive(label, note=note, pages=count, tokens=size)


def _length(tokens: int) -> Term:
    return fixed("length", tokens, "of a request", units.TOKENS)


def _taken(found: list[tuple[Rank, pages.Pool]], length: int, shared: int = 0) -> Term:
    """Pages that a request takes on the rank where it takes most."""
    pool = max((pool for _, pool in found), key=lambda p: p.blocks(length))
    parts = [
        f"{k.groups} x {k.blocks(length):,} of {k.word}" if k.groups > 1
        else f"{k.blocks(length):,} of {k.word}"
        for k in pool.kinds
    ]  # fmt: skip
    own = max(1, pool.blocks(length) - shared)
    return fixed(f"pages of a request of {grouped(length)} tok", own, " + ".join(parts))


def _page(subject: Subject, rank: Rank, pool: pages.Pool) -> Term:
    return Term(
        f"bytes of a page on a rank of stage {rank.stage.number}",
        tidy(pool.page),
        units.BYTES,
        inputs=(rank.token,),
        note=_block_note(subject, pool),
    )


def _block_note(subject: Subject, pool: pages.Pool) -> str:
    kinds = ", ".join(
        f"{k.layers} layers of {k.word}"
        + (f" in {k.groups} groups" if k.groups > 1 else "")
        + (f" at {k.block} tok" if k.block else "")
        for k in pool.kinds
    )
    cp = subject.degrees.attention.cp
    return kinds + (f", a page a rank for {cp} ranks of the sequence" if cp > 1 else "")


# --- two pools ----------------------------------------------------------------------------------


@formula("floor(room / (bytes a token + share x bytes a token of windows))", units.TOKENS, _SGLANG)
def tokens_beside_windows(room: Exact, full: Exact, share: Exact, window: Exact) -> int:
    return floored(at_least(room, 0), full + share * window)


@formula("room x share / (1 + share)", units.BYTES, _SGLANG)
def room_of_states(room: Exact, share: Exact) -> Exact:
    return over(times(room, share), 1 + share)


@formula("floor(room of states / bytes of a request's states) - states never used", units.NONE,
         _SGLANG)  # fmt: skip
def state_slots(room: Exact, each: Exact, lost: int) -> int:
    return at_least(floored(at_least(room, 0), each) - lost, 0)


@formula("floor(slots / states a request)", units.REQUESTS, _SGLANG)
def requests_of_slots(slots: int, copies: int) -> int:
    return floored(slots, copies)


def _of_two(engine: Engine, ranks: list[Rank], length: int, keep: Fraction) -> Fits:
    """Full attention and windows in pools of a set ratio, states in one of their own. `keep` of
    the tokens of a request are not evicted."""
    how = engine.hybrid_cache or HybridCache()
    tokens: list[Term] = []
    requests: list[Term] = []
    for rank in ranks:
        one, many = _rank_of_two(engine, how, rank, ceil(length * keep))
        tokens.append(one)
        requests.append(many)
    held = least("tokens of the larger pool", tokens, note="every rank takes the fewest of any")
    count = least("requests in each holder", requests, note="the fullest device decides")
    long = int(held.value / keep)
    most = Term(
        "tokens in each holder",
        min(long, int(count.value) * length) if count.value else long,
        units.TOKENS,
        inputs=(held, count),
        note=f"of requests of {grouped(length)} tok: the pool that ends first decides",
    )
    return Fits(most, count, held.named(f"tokens that {engine.title} prints"))


def _rank_of_two(engine: Engine, how: HybridCache, rank: Rank, length: int) -> tuple[Term, Term]:
    stage = rank.stage
    size = pages.page_tokens(engine, stage)

    def summed(shares: list[CacheShard]) -> Fraction:
        return sum((pages.token_bytes(s) * s.layers * s.tokens.held for s in shares),
                   start=Fraction(0))  # fmt: skip

    states = [s for s in stage.cache if s.part.growth == "request"]
    windows = [s for s in stage.cache if s.part.growth == "window"]
    full = [s for s in stage.cache if s.part.growth == "token"]
    room, limits = rank.room, []
    if states and how.state_share is not None:
        share = leaf(how, "state_share", "bytes of states for each of the rest", how.state_share,
                     units.NONE)  # fmt: skip
        own = room_of_states.derive("room of states", room=room, share=share)
        slots = state_slots.derive(
            "slots of states",
            room=own,
            each=_bytes("bytes of a request's states", summed(states), rank),
            lost=leaf(how, "lost_states", "states never used", how.lost_states, units.NONE),
        )
        copies = leaf(how, "state_copies", "states a request", how.state_copies, units.NONE)
        limits.append(requests_of_slots.derive("requests by states", slots=slots, copies=copies))
        room = Term("room beside states", tidy(Fraction(room.value) - Fraction(own.value)),
                    units.BYTES, inputs=(room, own))  # fmt: skip
    share = leaf(how, "window_share", "tokens of windows for each of the rest", how.window_share,
                 units.NONE)  # fmt: skip
    fit = tokens_beside_windows.derive(
        f"tokens of stage {stage.number}",
        room=room,
        full=_bytes("bytes a token", summed(full), rank),
        share=share,
        window=_bytes("bytes a token of windows", summed(windows), rank),
    )
    held = int(fit.value) // size * size
    tokens = Term("tokens in whole pages", held, units.TOKENS, inputs=(fit,),
                  note=f"pages of {size} tok")  # fmt: skip
    each = -(-length // size) * size
    limits.append(_seats("requests by tokens", tokens, held, each, size))
    for window in windows:
        kept = min(length, window.part.limit) + size
        inside = int(Fraction(held) * Fraction(how.window_share)) // size * size
        limits.append(_seats(f"requests by {window.part.name}", tokens, inside, kept, size))
    return tokens, least("requests that fit", limits)


def _bytes(label: str, value: Fraction, rank: Rank) -> Term:
    return Term(label, tidy(value), units.BYTES, inputs=(rank.token,),
                note=f"on a rank of stage {rank.stage.number}")  # fmt: skip


def _seats(label: str, tokens: Term, held: int, each: int, size: int) -> Term:
    each = -(-each // size) * size
    return Term(label, held // each, units.REQUESTS, inputs=(tokens,),
                note=f"{grouped(held)} tok / {grouped(each)} tok of each")  # fmt: skip
