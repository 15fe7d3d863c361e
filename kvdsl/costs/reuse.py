"""Reuse: what of the workload's prefixes lies in which tier, and whether fetching it pays.

Comes in: the tiers of a pool that prefills, its estimate and the arrivals. Goes out: a `Kept` for
each tier: its share of the prefixes, the bytes a second that are read from it and written into it,
the time to fetch what a prompt finds against computing it, and the length from which fetching is
faster. Prefixes fill the nearest memory first; without `workload.reuse` nobody says how many there
are, and all that is found is taken to come from the nearest tier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kvdsl.arithmetic import at_least, greater, real, smaller
from kvdsl.arithmetic import rate as share_of
from kvdsl.costs.cache import held_tokens
from kvdsl.costs.collectives import Number
from kvdsl.costs.estimate import Estimate, estimate, reloaded
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import fixed
from kvdsl.costs.prefill import prompt_terms
from kvdsl.costs.tiers import Tier, request_bytes
from kvdsl.formulas import Term, assumed, formula
from kvdsl.units import BYTE_RATE, NONE, TIME, TOKEN_RATE, TOKENS, grouped, tidy

LONGEST = 4 * 1024 * 1024
"""Tokens up to which a break-even is looked for."""


@formula("arrivals x tokens to compute", TOKEN_RATE, "a prefix is new once")
def new_rate(arrivals: Number, new: Number) -> float:
    return real(arrivals) * real(new)


@formula("new tokens a second x time that a prefix is asked again", TOKENS, "Little's law")
def working_set(rate: float, reuse: Number) -> float:
    return real(rate) * real(reuse)


@formula("room - tokens of the requests in flight", TOKENS)
def idle_room(room: Number, used: Number) -> Number:
    return at_least(room - used, 0)


@formula("the tokens of the working set that nearer memory does not hold, at most what fits / set",
         NONE, "the nearest memory fills first; each prefix is as likely as any other")  # fmt: skip
def share_held(working: float, nearer: Number, room: Number) -> float:
    held = greater(0.0, smaller(real(room), real(working) - real(nearer)))
    return share_of(held, greater(real(working), 0.0))


@formula("arrivals x share x bytes of what a prompt finds", BYTE_RATE)
def asked_rate(arrivals: Number, share: Number, size: Number) -> float:
    return real(arrivals) * real(share) * real(size)


@formula("new tokens a second x bytes a token x part that is written", BYTE_RATE)
def stored_rate(rate: float, token: Number, part: Number) -> float:
    return real(rate) * real(token) * real(part)


@formula("prefill of the whole prompt - prefill of what is new, at least 0", TIME,
         "through the same passes; what is new is computed in any case, and gathers what is found "
         "where ranks share a sequence")  # fmt: skip
def recomputed(whole: float, new: float) -> float:
    return greater(whole - new, 0.0)


@dataclass(frozen=True, slots=True)
class Kept:
    """A tier under the workload. `load` is of a whole request; `fetch` of what a prompt finds, the
    visible time. `break_even` is None where no length pays, or nothing is found."""

    tier: Tier
    load: Term | None
    fetch: Term | None
    recompute: Term | None
    break_even: Term | None
    share: Term
    asked: Term | None
    stored: Term | None

    @property
    def terms(self) -> dict[str, Term]:
        held = self.tier
        found = {
            "tokens": held.tokens,
            "load_time": self.load,
            "fetch_time": self.fetch,
            "recompute_time": self.recompute,
            "break_even": self.break_even,
            "share": self.share,
            "read_rate": self.asked,
            "read_bandwidth": held.read,
            "write_rate": self.stored,
            "write_bandwidth": held.write,
        }
        return {f"tier.{held.name}.{w}": t for w, t in found.items() if t is not None}


@dataclass(frozen=True, slots=True)
class Reuse:
    """All tiers of a pool, nearest first. `working` are the tokens that prefixes take while they
    are asked again (None: nobody says for how long), `near` what the devices have room for."""

    pool: Estimate
    kept: tuple[Kept, ...]
    working: Term | None
    near: Term
    near_share: Term
    found: Term
    new: Term

    @property
    def missing(self) -> float:
        """The share of the working set that nothing holds; of no prefixes none is missing."""
        if self.working is None or not self.working.value:
            return 0.0
        shares = [self.near_share, *(one.share for one in self.kept)]
        return max(0.0, 1 - sum(float(share.value) for share in shares))


def reuse(pool: Estimate, tiers: Sequence[Tier], rate: Term | None) -> Reuse:
    new, found = prompt_terms(pool.subject)
    fresh = None if rate is None else new_rate.derive("new tokens a second", arrivals=rate, new=new)
    working = _working(pool, fresh)
    near = _near(pool)
    near_share = _share(working, [], near, first=not tiers)
    nearer, kept = [near], []
    prompts = _Prompts(rate, fresh, working, found, recomputing(pool))
    for number, tier in enumerate(tiers):
        share = _share(working, nearer, tier.tokens, first=number == 0)
        kept.append(_kept(pool, tier, prompts, nearer, share))
        nearer.append(tier.tokens)
    return Reuse(pool, tuple(kept), working, near, near_share, found, new)


def _working(pool: Estimate, fresh: Term | None) -> Term | None:
    workload = pool.subject.workload
    if workload.reuse is None or fresh is None:
        return None
    again = leaf(workload, "reuse", "asked again for", float(workload.reuse), TIME)
    return working_set.derive("tokens that prefixes take", rate=fresh, reuse=again)


def _near(pool: Estimate) -> Term:
    """What requests in flight leave of the cache's room on the devices."""
    room = pool.values["kv.tokens"]
    if pool.load is None:
        return room.named("room on the devices")
    used = Term("tokens of the requests in flight",
                tidy(Fraction(pool.load.served.value) * Fraction(pool.load.context.value)), TOKENS,
                inputs=(pool.load.served, pool.load.context))  # fmt: skip
    return idle_room.derive("room on the devices", room=room, used=used)


def _share(working: Term | None, nearer: Sequence[Term], room: Term, *, first: bool) -> Term:
    if working is None:
        note = "nothing says how long a prefix is asked again: all comes from the nearest tier"
        return assumed("share of what is found", int(first), NONE, note)
    above = fixed("tokens nearer", 0, "none", TOKENS)
    if nearer:
        held = sum(Fraction(term.value) for term in nearer)
        above = Term("tokens nearer", tidy(held), TOKENS, inputs=tuple(nearer))
    return share_held.derive("share of what is found", working=working, nearer=above, room=room)


@dataclass(frozen=True, slots=True)
class _Prompts:
    """What arrives: requests and new tokens a second, the tokens that prefixes take, those that a
    prompt finds, and the time to compute so many of them."""

    rate: Term | None
    fresh: Term | None
    working: Term | None
    found: Term
    lookup: Callable[[Number], Term | None]


def _kept(
    pool: Estimate, tier: Tier, prompts: _Prompts, nearer: Sequence[Term], share: Term
) -> Kept:
    held = Term("length of a request", held_tokens(pool.subject), TOKENS, basis="spec",
                span=pool.subject.place("workload"))  # fmt: skip
    load = tier.load(request_bytes(tier, held))
    size = request_bytes(tier, prompts.found)
    asked = stored = None
    if prompts.rate is not None and prompts.fresh is not None:
        asked = asked_rate.derive("read a second", arrivals=prompts.rate, share=share, size=size)
        stored = stored_rate.derive("written a second", rate=prompts.fresh, token=tier.token,
                                    part=_written(tier, nearer, prompts.working))  # fmt: skip
    fetch = recompute = break_even = None
    if pool.prefill is not None and not tier.use.in_place:
        service = pool.prefill.service
        own = tier.load(size)
        if prompts.found.value and own is not None:
            fetch = tier.visible(own, service)
            recompute = prompts.lookup(prompts.found.value)
        break_even = _break_even(tier, service, prompts.lookup)
    return Kept(tier, load, fetch, recompute, break_even, share, asked, stored)


def _written(tier: Tier, nearer: Sequence[Term], working: Term | None) -> Term:
    if tier.use.store == "all":
        return fixed("part that is written", 1, "every new prefix is written through")
    if working is None:
        return assumed("part that is written", 1, NONE, "what the tier above may not hold")
    above = sum(Fraction(t.value) for t in nearer)
    part = max(0.0, 1 - float(above) / float(working.value)) if working.value else 0.0
    return Term("part that is evicted", part, NONE, inputs=(working, *nearer))


# --- fetch or compute ----------------------------------------------------------------------------


def recomputing(pool: Estimate) -> Callable[[Number], Term | None]:
    """The time to compute a prefix of some length before the workload's new tokens, remembered."""
    known: dict[int, Term] = {}
    fresh = max(1, int(prompt_terms(pool.subject)[0].value))

    def service(length: int, found: int) -> Term:
        workload = pool.subject.workload.model_copy(
            update={"prompt": length, "context": None, "output": 1, "classes": {}, "rate": None,
                    "concurrency": 1, "prefix_hits": Fraction(found, length)}
        )  # fmt: skip
        placement = reloaded(pool, workload)
        alone = placement.subject.pool.model_copy(update={"role": "prefill"})
        subject = replace(placement.subject, pool=alone)
        found_alone = estimate(subject, replace(placement, subject=subject)).prefill
        assert found_alone is not None
        return found_alone.service

    def recompute(prefix: Number) -> Term | None:
        if pool.prefill is None:
            return None
        length = int(-(-Fraction(prefix).numerator // Fraction(prefix).denominator))
        if length not in known:
            whole = service(fresh + length, 0).named(f"prefill of {grouped(fresh + length)} tok")
            rest = service(fresh + length, length).named(
                f"prefill of {grouped(fresh)} tok behind it"
            )
            known[length] = recomputed.derive("computed anew", whole=whole, new=rest)
        return known[length]

    return recompute


def _break_even(tier: Tier, service: Term, lookup: Callable[[Number], Term | None]) -> Term | None:
    """The shortest prefix that comes faster than it is computed; loading grows with the length,
    computing faster than that."""

    def pays(length: int) -> bool:
        load = tier.load(request_bytes(tier, fixed("prefix", length, "asked", TOKENS)))
        computed = lookup(length)
        if load is None or computed is None:
            return False
        return float(tier.visible(load, service).value) < float(computed.value)

    high = 1
    while high < LONGEST and not pays(high):
        high *= 2
    if not pays(high):
        return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return Term("shortest prefix worth fetching", high, TOKENS,
                inputs=tuple(t for t in (tier.one, tier.latency) if t is not None),
                note="by bisection, the workload's new tokens behind it")  # fmt: skip


def mean_fetch(found: Reuse) -> Term | None:
    """What a prompt waits on average for what it finds outside the devices."""
    terms = [
        Term(f"from {one.tier.name}", float(one.fetch.value) * float(one.share.value), TIME,
             inputs=(one.fetch, one.share), note="its share of what is found")
        for one in found.kept
        if one.fetch is not None and one.share.value
    ]  # fmt: skip
    if not terms:
        return None
    return Term("fetched from tiers", sum(float(t.value) for t in terms), TIME, inputs=tuple(terms))


def room_in_all(found: Reuse) -> Number:
    """Tokens that the devices' room and all tiers hold together."""
    return sum(
        (Fraction(one.tier.tokens.value) for one in found.kept), start=Fraction(0)
    ) + Fraction(found.near.value)
