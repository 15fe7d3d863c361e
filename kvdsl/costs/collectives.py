"""Collectives: bytes and time of every exchange of a pass.

Comes in: a placement and the tokens of a pass. Goes out: one cost an exchange, over the group that
reaches farthest, as the engine's libraries do it. With `time = ideal` it is alpha and beta alone:
alpha is the latency of a small message and beta the bandwidth that a rank has, of the slowest level
that the group crosses, without launches, pipelining of chunks or in-switch reduction.
Source of the forms: collective_model (ring); NCCL tests, doc/PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from types import MappingProxyType
from typing import Any

from kvdsl.arithmetic import arrayed, over, real, some, times, where
from kvdsl.costs.cache import held_tokens
from kvdsl.costs.libraries import Price, price
from kvdsl.costs.memory import leaf
from kvdsl.costs.message import Message
from kvdsl.costs.origins import fixed, of_layout, of_model
from kvdsl.costs.routes import bandwidth, route
from kvdsl.formulas import Formula, Term, assumed, formula, least
from kvdsl.placement.exchanges import Exchange, Group
from kvdsl.placement.placement import Placement
from kvdsl.placement.subject import Subject
from kvdsl.placement.topology import Join, Level
from kvdsl.units import BYTES, TIME, tidy

Number = int | Fraction | float
_RING = "ring, as NCCL's tests count bus bandwidth (nccl-tests doc/PERFORMANCE.md)"


@formula("tokens x values a token x bytes a value + extra bytes", BYTES)
def payload(tokens: Number, values: Number, bytes_a_value: Number, extra: Number) -> Number:
    return times(tokens, values, bytes_a_value) + extra


@formula(
    "pairs of query and key x bytes of all heads' scores", BYTES, "a split key is scored apart"
)
def scores(pairs: Number, each: Number) -> Number:
    return times(pairs, each)


@formula("2 (n - 1) alpha + 2 (n - 1) / n x bytes / beta", TIME, _RING, name="ring")
def all_reduce_time(ranks: int, size: Number, latency: float, bandwidth: Number) -> float:
    return 2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * real(size) / real(bandwidth)


@formula("(n - 1) alpha + (n - 1) / n x bytes / beta", TIME, _RING, name="ring")
def gather_time(ranks: int, size: Number, latency: float, bandwidth: Number) -> float:
    return (ranks - 1) * latency + (ranks - 1) / ranks * real(size) / real(bandwidth)


@formula("(n - 1) alpha + (n - 1) / n x bytes of a rank / beta", TIME, _RING, name="pairwise")
def all_to_all_time(ranks: int, size: Number, latency: float, bandwidth: Number) -> float:
    return (ranks - 1) * latency + (ranks - 1) / ranks * real(size) / real(bandwidth)


@formula("alpha + bytes / beta", TIME, "definition", name="point to point")
def send_time(ranks: int, size: Number, latency: float, bandwidth: Number) -> float:
    return (ranks > 1) * (latency + real(size) / real(bandwidth))


@formula("how often x time of one", TIME)
def repeated(count: int, each: float) -> float:
    return count * each


PARTS = (2, 4, 8, 16, 32, 64)
"""Parts that the requests of a step may go in, so that attention hides their exchanges."""

RINGS = frozenset({"all_reduce", "all_gather", "reduce_scatter"})
"""Collectives whose ring crosses from a node to the next once."""

FORMULAS: Mapping[str, Formula] = MappingProxyType(
    {
        "all_reduce": all_reduce_time,
        "all_gather": gather_time,
        "reduce_scatter": gather_time,
        "all_to_all": all_to_all_time,
        "send": send_time,
    }
)


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """One exchange of a pass, priced over its widest group: payload, one time, all of them. `low`
    and `high` bound what a measurement of one may say, in seconds; `basis` says what its constants
    are, `ideal` where none is taken."""

    exchange: Exchange
    group: Group
    size: Term
    once: Term
    all: Term
    low: Any
    high: Any
    basis: str
    algorithm: str
    apart: tuple[tuple[Term, Term], ...] = ()
    """Where requests go in parts, each beside the attention of another: in how many, and all of
    their exchanges one after the other."""
    lent: str = ""
    """The row of another generation that the constants are borrowed from."""
    stands_in: bool = False
    """Priced as another exchange, as no library here has the backend that the engine names."""


def costs(
    placement: Placement,
    tokens: Term,
    sampled: Term,
    what: str,
    *,
    pairs: Term | None = None,
    found: Term | None = None,
) -> tuple[CollectiveCost, ...]:
    """Every exchange of a pass in which each DP rank brings `tokens` tokens, `sampled` of them to
    the head. `pairs` of query and key are scored on a rank, `found` tokens lie in its cache."""
    made = []
    paces = placement.paces()
    phase = phase_of(what)
    for exchange in placement.exchanges:
        group = paces.get((exchange.axis, exchange.stage))
        if group is None or group.size == 1 or exchange.phase not in ("", phase):
            continue
        own = sampled if exchange.module == "head" else tokens
        if exchange.of_found:
            if found is None or not _any(found):
                continue
            own = found
        size = _payload(placement, exchange, own, pairs)
        cost = _cost(placement, exchange, group, own, size, what)
        if exchange.hides == "requests":
            cost = replace(cost, apart=_apart(placement, exchange, group, own, what))
        made.append(cost)
    return tuple(made)


def phase_of(what: str) -> str:
    """The phase of a pass, by what it is called."""
    return "prefill" if what.startswith("prefill") else "decode"


def _any(found: Term) -> bool:
    """Whether any tokens are found; an array of loads has them where one load has."""
    return found.value.any() if hasattr(found.value, "any") else bool(found.value)


def _apart(
    placement: Placement, exchange: Exchange, group: Group, tokens: Term, what: str
) -> tuple[tuple[Term, Term], ...]:
    """The exchanges of requests in two parts, in four, and so on to one by one."""
    found = []
    for count in (n for n in PARTS if some(tokens.value >= n)):
        parts = fixed("parts", count, "requests that exchange together")
        own = Term("tokens of a part", over(tokens.value, count), inputs=(tokens, parts))
        size = _payload(placement, exchange, own, None)
        each = _cost(placement, exchange, group, own, size, what).all
        whole = repeated.derive("exchanges of all parts", count=parts, each=each)
        if arrayed(tokens.value):  # of many loads some have fewer tokens than parts
            whole = replace(whole, value=where(tokens.value >= count, whole.value, inf))
        found.append((parts, whole))
    return tuple(found)


def _cost(
    placement: Placement, exchange: Exchange, group: Group, tokens: Term, size: Term, what: str
) -> CollectiveCost:
    kind, module = exchange.kind.replace("_", "-"), exchange.module.replace("_", " ")
    label = f"one {kind} of {module}"
    found, own = (
        (None, True)
        if placement.subject.ideal
        else _priced(placement, exchange, group, tokens, size, phase_of(what))
    )
    if found is None:
        once = _ideal(placement, exchange, group, size, label)
        low, high, basis, name = once.value, once.value, "ideal", once.formula.name  # type: ignore[union-attr]
        lent = ""
    else:
        once = found.time.named(label)
        low, high, basis, lent = found.low, found.high, found.basis, found.lent
        name = f"{found.chosen[0].algorithm.name.replace('_', ' ')}"
    often = of_model(placement.subject.model, f"times in a {what}", exchange.count)
    every = f"{kind}s of {module} in stage {exchange.stage}"
    each = repeated.derive(every, count=often, each=once)
    return CollectiveCost(
        exchange, group, size, once, each, low, high, basis, name, lent=lent, stands_in=not own
    )


def _ideal(placement: Placement, exchange: Exchange, group: Group, size: Term, label: str) -> Term:
    return FORMULAS[exchange.kind].derive(
        label,
        ranks=of_layout(placement.subject, "ranks", group.size),
        size=size,
        latency=_alpha(group),
        bandwidth=_beta(placement, exchange, group),
    )


def _priced(
    placement: Placement, exchange: Exchange, group: Group, tokens: Term, size: Term, phase: str
) -> tuple[Price | None, bool]:
    """What the engine's libraries make of it, or those of the devices' maker; and whether any has
    the backend that the engine names."""
    subject = placement.subject
    way = route(subject.topology, group.reach, group.places, subject.place("on"))
    engine = subject.engine
    libraries = (*(engine.libraries if engine else ()), *subject.pool.libraries)
    message = Message(exchange.kind, size)
    if exchange.role:
        many = Term(
            "tokens of a rank",
            over(times(tokens.value, exchange.tokens), exchange.copies),
            inputs=(tokens,),
        )
        one = Term("one copy of its tokens", over(size.value, exchange.copies), BYTES,
                   inputs=(size,))  # fmt: skip
        message = Message(
            exchange.role,
            one,
            exchange.copies,
            exchange.most_groups,
            engine.all_to_all if engine else None,
            many,
            int(exchange.width),
            phase=phase,
        )
    found = price(libraries, way, message)
    if found is None and exchange.role:
        return price(libraries, way, Message(exchange.kind, size)), message.backend is None
    return found, True


def _payload(placement: Placement, exchange: Exchange, tokens: Term, pairs: Term | None) -> Term:
    subject = placement.subject
    width = subject.activations.bits or 0
    many = Term(
        "tokens in it",
        times(tokens.value, exchange.tokens),
        inputs=(tokens,),
        note=f"{exchange.tokens} a token of a DP rank" if exchange.tokens != 1 else "",
    )
    said = subject.pool.activations is not None
    value = Term(
        "bytes of an activation",
        width,
        BYTES,
        basis="spec" if said else "default",
        span=subject.activations.at,
        source=subject.activations.source,
        note=subject.activations.title
        + ("" if said else ": the deployment says nothing of activations"),
    )
    return payload.derive(
        exchange.elements,
        tokens=many,
        values=of_model(subject.model, "values a token", tidy(exchange.width)),
        bytes_a_value=value,
        extra=_extra(placement, exchange, tokens, pairs),
    )


def _pairs(placement: Placement, tokens: Term) -> Term:
    """Pairs that nobody has counted: each token with all that its request holds."""
    context = held_tokens(placement.subject)
    note = f"each token with the {context:,} that its request holds at its end"
    return Term("pairs of query and key", times(tokens.value, context), inputs=(tokens,), note=note)


def _extra(placement: Placement, exchange: Exchange, tokens: Term, pairs: Term | None) -> Term:
    """Bytes that are not activations: softmax sums of a token, scores of a pair."""
    if exchange.each_pair:
        pairs = pairs if pairs is not None else _pairs(placement, tokens)
        each = fixed("bytes of scores of a pair", exchange.each_pair, "4 B a query head", BYTES)
        return scores.derive("bytes of scores", pairs=pairs, each=each)
    note = "4 B a query head of log-sum-exp" if exchange.extra else "none"
    return fixed("extra bytes", times(exchange.extra, tokens.value), note, BYTES)


def joined(placement: Placement) -> None:
    """Raises ValueError where ranks exchange something in a pass of the pool and nothing joins
    them."""
    if placement.subject.topology.joined:
        return
    paces, role = placement.paces(), placement.subject.pool.role
    for exchange in placement.exchanges:
        group = paces.get((exchange.axis, exchange.stage))
        apart = group is not None and group.size > 1 and group.reach.join is None
        if apart and (role == "both" or exchange.phase in ("", role)):
            raise ValueError(f"nothing joins the devices of {exchange.axis}")


def _join(group: Group) -> Join:
    if group.reach.join is None:
        raise ValueError(f"nothing joins the devices of {group.axis}")
    return group.reach.join


def _alpha(group: Group) -> Term:
    join = _join(group)
    link = join.link
    if link.latency is None:
        return assumed(
            f"latency of {link.title}",
            float(join.hop),
            TIME,
            "the link names no latency, taken as 0",
        )
    term = leaf(link, "latency", f"latency of {link.title}", link.latency, TIME)
    value, note = float(link.latency), ""
    if join.hop:
        value, note = value + float(join.hop), "with a hop of the fabric"
    return Term(
        term.label, value, TIME, basis=term.basis, span=term.span, source=term.source, note=note
    )


def _beta(placement: Placement, exchange: Exchange, group: Group) -> Term:
    """The bandwidth that a rank has on the slowest level. A ring leaves a node once, over all the
    links of the group's ranks there; in a pairwise exchange each rank has its own alone."""
    found = []
    for level in group.reach.levels:
        around = level.join.kind == "fabric" and exchange.kind in RINGS
        links = level.links * (level.in_part if around else 1)
        found.append(_over(placement.subject, level, links))
    return found[0] if len(found) == 1 else least("bandwidth of a rank", found)


def _over(subject: Subject, level: Level, links: Fraction) -> Term:
    """The bandwidth of so many links of a level; their efficiency is 1 in an ideal plan."""
    ideal = fixed("efficiency", Fraction(1), "time = ideal") if subject.ideal else None
    return bandwidth(
        level.join, links, subject.place("on"), ideal, level.oversubscription, level.note
    )
