"""Memory: the ledger of each rank class, and the capacity that follows.

Comes in: a placement. Goes out: exact terms: what a device may use, weights, reserve, room for the
cache; then capacity, floored in each holder (a set of devices that holds a request whole) and
summed over holders. A request cannot straddle holders, so pooled bytes are never divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import at_least, floored, over
from kvdsl.costs import cache, capacity, weights
from kvdsl.costs.origins import leaf, of_layout, of_model
from kvdsl.costs.weights import Exact
from kvdsl.formulas import Term, assumed, formula, greatest, least, total
from kvdsl.placement.placement import Holder, Placement, RankClass
from kvdsl.placement.subject import Subject
from kvdsl.spec.engine import Engine, HeldBack, Overhead
from kvdsl.units import grouped, tidy

__all__ = ("Capacity", "Ledger", "capacities", "capacity_terms", "fullest", "largest_token",
           "leaf", "ledgers", "overheads")  # fmt: skip

DEFAULT_UTILIZATION = Fraction(90, 100)
"""language.md, `budget utilization`: 90 % where neither the deployment nor the engine says."""


@formula("utilization x memory", units.BYTES, "language: budget")
def usable_memory(utilization: Exact, memory: Exact) -> Exact:
    return utilization * memory


@formula("usable - reserve - weights", units.BYTES, "language: budget")
def room_for_cache(usable: Exact, reserve: Exact, held_weights: Exact) -> Exact:
    return usable - reserve - held_weights


@formula("utilization x (memory - reserve - weights)", units.BYTES, "language: budget_of rest")
def room_of_rest(utilization: Exact, memory: Exact, reserve: Exact, held_weights: Exact) -> Exact:
    return utilization * (memory - reserve - held_weights)


@formula("utilization x (memory - taken before loading) + taken before loading", units.BYTES,
         "language: budget_of free; SGLang 0.5.23, mem_cache/kv_cache_configurator.py")  # fmt: skip
def usable_of_free(utilization: Exact, memory: Exact, reserve: Exact) -> Exact:
    return utilization * (memory - reserve) + reserve


@formula("(memory - held back) / memory, to a thousandth", units.NONE,
         "SGLang 0.5.23, arg_groups/memory_hook.py")  # fmt: skip
def share_beside(memory: Exact, held_back: Exact) -> Exact:
    return over(floored(2000 * (memory - held_back) + memory, 2 * memory), 1000)


@formula("floor(room / bytes a token on the device)", units.TOKENS, "capacity floors in each pool")
def tokens_that_fit(room: Exact, bytes_a_token: Exact) -> int:
    return floored(at_least(room, 0), bytes_a_token)


@formula("floor(room / bytes of a request on the device)", units.REQUESTS)
def requests_that_fit(room: Exact, bytes_a_request: Exact) -> int:
    return floored(at_least(room, 0), bytes_a_request)


@formula("holders x tokens in each", units.TOKENS, "capacity floors in each pool, then sums")
def tokens_of_holders(holders: int, tokens: int) -> int:
    return holders * tokens


@formula("holders x requests in each", units.REQUESTS, "capacity floors in each pool, then sums")
def requests_of_holders(holders: int, requests: int) -> int:
    return holders * requests


@dataclass(frozen=True, slots=True)
class Ledger:
    """The memory of one rank class: every byte accounted for."""

    rank: RankClass
    memory: Term
    usable: Term
    reserve: Term
    modules: tuple[tuple[str, Term], ...]
    weights: Term
    room: Term
    token: Term
    """Bytes of a token on the rank."""


def ledgers(placement: Placement) -> tuple[Ledger, ...]:
    subject = placement.subject
    found = []
    modules = {
        s.number: weights.module_terms(placement, s) for s in placement.stages if s.like == s.number
    }
    tokens = cache.stage_token_terms(placement)
    for rank in placement.classes:
        parts = tuple(modules[placement.stages[rank.stage].like].items())
        held = (
            total("weights on the device", [t for _, t in parts])
            if parts
            else of_model(subject.model, "weights on the device", 0, units.BYTES)
        )
        memory = _memory(subject, rank)
        share = _utilization(subject, memory)
        reserve = _reserve(subject)
        usable = usable_memory.derive("usable memory", utilization=share, memory=memory)
        if subject.engine is not None and subject.engine.budget_of == "free":
            usable = usable_of_free.derive(
                "usable memory", utilization=share, memory=memory, reserve=reserve
            )
        room = _room(subject, memory, share, usable, reserve, held)
        found.append(Ledger(rank, memory, usable, reserve, parts, held, room, tokens[rank.stage]))
    return tuple(found)


def _room(
    subject: Subject, memory: Term, share: Term, usable: Term, reserve: Term, held: Term
) -> Term:
    given = subject.budget.kv
    if given is not None:
        return leaf(subject.budget, "kv", "room for the cache", given, units.BYTES)
    if subject.engine is not None and subject.engine.budget_of == "rest":
        return room_of_rest.derive(
            "room for the cache",
            utilization=share,
            memory=memory,
            reserve=reserve,
            held_weights=held,
        )
    return room_for_cache.derive(
        "room for the cache", usable=usable, reserve=reserve, held_weights=held
    )


def _memory(subject: Subject, rank: RankClass) -> Term:
    device = rank.device
    if subject.engine is not None and subject.engine.capacity == "reported":
        if device.reported is not None:
            return leaf(device, "reported", f"memory of {device.title} as reported",
                        device.reported, units.BYTES)  # fmt: skip
        return assumed(
            f"memory of {device.title}", device.memory, units.BYTES,
            "the engine counts reported memory; the device names none, so the sold figure stands",
        )  # fmt: skip
    return leaf(device, "memory", f"memory of {device.title}", device.memory, units.BYTES)


def _utilization(subject: Subject, memory: Term) -> Term:
    engine = subject.engine
    for block in (subject.budget, engine):
        if block is not None and block.utilization is not None:
            return leaf(block, "utilization", "utilization", block.utilization, units.NONE)
    if engine is not None and engine.held_back is not None:
        back = total("held back", _held_back(subject, engine, engine.held_back))
        floor = engine.held_back.least if memory.value > engine.held_back.least_from else 0
        least_kept = leaf(engine.held_back, "least", "at the least", floor, units.BYTES)
        return share_beside.derive(
            "utilization",
            memory=memory,
            held_back=greatest("held back", [back, least_kept]),
        )
    return Term("utilization", DEFAULT_UTILIZATION, basis="default", note="budget says none")


def _held_back(subject: Subject, engine: Engine, back: HeldBack) -> list[Term]:
    """What a version keeps out of its share: by the tokens and requests of its steps."""
    limits, degrees = subject.limits, subject.degrees
    step, sequences = limits.step or 0, limits.sequences or 0
    dp = degrees.attention.dp if degrees.attention.dp > 1 else 0
    latent = int(any(s.form == "mla" for s in subject.model.parts.values()))
    counted = (
        ("fixed", back.fixed, 1, "once"),
        ("step_token", back.step_token, step, f"{grouped(step)} tok of a step"),
        ("device", back.device, degrees.size * degrees.pp, "devices of a replica"),
        ("sequence", back.sequence, sequences, f"{sequences:,} req of a step"),
        ("dp_sequence", back.dp_sequence, sequences * dp, f"{sequences:,} req x {dp} dp ranks"),
        ("latent", back.latent, latent, "a latent is cached"),
    )
    return [
        Term(name.replace("_", " "), tidy(Fraction(each) * many), units.BYTES,
             inputs=(leaf(back, name, f"{name.replace('_', ' ')}, each", each, units.BYTES),),
             note=note)
        for name, each, many, note in counted
        if each and many
    ] or [Term("held back", 0, units.BYTES, basis="definition", note=engine.title)]  # fmt: skip


BEFORE_LOADING = ("communication", "other")
"""Overheads that lie on a device before the weights: what `budget_of = free` does not count as
free. Activations and graphs must find their room beside its share."""


def _reserve(subject: Subject) -> Term:
    if subject.budget.reserve is not None:
        return leaf(subject.budget, "reserve", "reserve", subject.budget.reserve, units.BYTES)
    engine = subject.engine
    if engine is not None and engine.overhead is not None:
        parts = overheads(engine.overhead)
        if engine.budget_of == "free":
            parts = {word: term for word, term in parts.items() if word in BEFORE_LOADING}
        return total("reserve", list(parts.values()), note=f"overhead of {engine.title}")
    return Term("reserve", 0, units.BYTES, basis="default", note="budget says none")


def overheads(o: Overhead) -> dict[str, Term]:
    return {
        word: leaf(o, word, word, value, units.BYTES)
        for word, value in (
            ("activations", o.activations),
            ("graphs", o.graphs),
            ("communication", o.communication),
            ("other", o.other),
        )
    }


# --- capacity ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one kind of holder holds, and how many there are. `printed` and `pages` are those that
    an engine's start-up log gives for one."""

    holder: Holder
    tokens: Term
    requests: Term
    printed: Term | None = None
    pages: Term | None = None


def capacities(placement: Placement, books: tuple[Ledger, ...]) -> tuple[Capacity, ...]:
    return tuple(_capacity(placement, holder, books) for holder in placement.holders)


def _capacity(placement: Placement, holder: Holder, books: tuple[Ledger, ...]) -> Capacity:
    subject = placement.subject
    length = cache.held_tokens(subject)
    paged = _paged_fits(placement, holder, books, length)
    if paged is not None:
        return Capacity(holder, paged.tokens, paged.requests, paged.printed, paged.pages)
    page = subject.engine.block if subject.engine else 1
    lost = subject.engine.lost_blocks * page if subject.engine else 0
    tokens, requests = [], []
    stages = {stage.number: stage for stage in placement.stages}
    for book in books:
        if not any(c is book.rank for c in holder.classes):
            continue
        stage = stages[book.rank.stage]
        whole = cache.request_on_rank(stage, length)
        if not whole:
            continue
        each = Term(
            f"bytes a token on a rank of stage {stage.number}",
            whole / length,
            units.BYTES_PER_TOKEN,
            inputs=(book.token,),
            note=f"of a request of {grouped(length)} tok",
        )
        # Windows, states and entries of runs make a token's cost depend on the length.
        uneven = not all(s.part.even for s in stage.cache)
        fits = tokens_that_fit.derive(
            f"tokens that fit in stage {stage.number}",
            room=book.room,
            bytes_a_token=each if uneven else book.token,
        )
        tokens.append(_paged(fits, page, lost))
        requests.append(_requests(subject, book, stage.number, placement, length, page, lost))
    if not tokens:
        none = of_model(subject.model, "tokens in each holder", 0, units.TOKENS)
        return Capacity(
            holder, none, of_model(subject.model, "requests in each holder", 0, units.REQUESTS)
        )
    return Capacity(
        holder,
        least("tokens in each holder", tokens, note="the fullest device decides"),
        least("requests in each holder", requests, note="the fullest device decides"),
    )


def _paged_fits(
    placement: Placement, holder: Holder, books: tuple[Ledger, ...], length: int
) -> capacity.Fits | None:
    stages = {stage.number: stage for stage in placement.stages}
    ranks = [
        capacity.Rank(stages[book.rank.stage], book.room, book.token)
        for book in books
        if any(c is book.rank for c in holder.classes)
    ]
    common = min(placement.subject.workload.prefix_common, length)
    if common == length:  # requests hold nothing of their own
        return None
    return capacity.fits(placement.subject, ranks, length, common)


def _paged(fits: Term, page: int, lost: int) -> Term:
    if page == 1 and not lost:
        return fits
    pages = max(0, int(fits.value) // page * page - lost)
    return Term("tokens in whole pages", pages, units.TOKENS, inputs=(fits,),
                note=f"pages of {page} tok, {lost // page} of them never used")  # fmt: skip


def _requests(
    subject: Subject,
    book: Ledger,
    number: int,
    placement: Placement,
    length: int,
    page: int,
    lost: int,
) -> Term:
    stage = placement.stages[number]
    common = min(subject.workload.prefix_common, length)
    room = book.room
    if common or lost:
        taken = cache.request_on_rank(stage, common, page, states=bool(common))
        taken += cache.request_on_rank(stage, lost, states=False)
        room = Term(
            "room without the common prefix and lost pages",
            Fraction(room.value) - taken,
            units.BYTES,
            inputs=(room,),
        )
    own = length - common
    if not own:
        return Term("requests", int(Fraction(room.value) >= 0) * 10**9, units.REQUESTS,
                    inputs=(room,), note="requests hold nothing of their own")  # fmt: skip
    size = Term(
        f"bytes of a request of {grouped(own)} tok on a rank of stage {number}",
        cache.request_on_rank(stage, own, page),
        units.BYTES,
        inputs=(book.token,),
    )
    return requests_that_fit.derive(
        f"requests that fit in stage {number}", room=room, bytes_a_request=size
    )


CAPACITY = ("kv.printed", "kv.pages", "kv.tokens", "kv.tokens_per_rank", "kv.sequences")
"""The values that `capacity_terms` may give."""


def capacity_terms(subject: Subject, found: tuple[Capacity, ...]) -> dict[str, Term]:
    tokens, requests = [], []
    for one in found:
        holders = of_layout(subject, "holders (DP ranks of all replicas)", one.holder.count)
        tokens.append(tokens_of_holders.derive("tokens", holders=holders, tokens=one.tokens))
        requests.append(
            requests_of_holders.derive("requests", holders=holders, requests=one.requests)
        )
    logged = {}
    for name, terms in (
        ("kv.printed", [c.printed for c in found if c.printed is not None]),
        ("kv.pages", [c.pages for c in found if c.pages is not None]),
    ):
        if terms:
            logged[name] = least(terms[0].label, terms) if len(terms) > 1 else terms[0]
    return {
        **logged,
        "kv.tokens": total("KV tokens", tokens),
        "kv.tokens_per_rank": least("KV tokens of a rank", [c.tokens for c in found]),
        "kv.sequences": total("whole requests", requests),
    }


FULLEST = ("memory.weights", "memory.kv", "memory.reserve")
"""What the fullest device has of weights, of room and of reserve."""


def fullest(books: tuple[Ledger, ...]) -> Ledger:
    """The device whose room for the cache ends first."""

    def ends(book: Ledger) -> Fraction:
        token = Fraction(book.token.value)
        return Fraction(book.room.value) / token if token else Fraction(book.room.value)

    return min(books, key=ends)


def largest_token(books: tuple[Ledger, ...]) -> Term:
    return greatest("KV bytes a token on the fullest device", [b.token for b in books])
