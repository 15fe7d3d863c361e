"""Collectives: bytes and alpha-beta time of every exchange of a pass.

Comes in: a placement and the tokens of a pass. Goes out: one cost an exchange, over the group that
reaches farthest. alpha is the latency of a small message and beta the bandwidth that a rank has, of
the slowest level that the group crosses. Leaves out: launch overheads, pipelining of chunks,
in-switch reduction. Source of the forms: collective_model (ring); NCCL tests, doc/PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from kvdsl import units
from kvdsl.arithmetic import over, real, times
from kvdsl.costs.memory import leaf
from kvdsl.costs.origins import fixed, of_hardware, of_layout, of_model
from kvdsl.formulas import Formula, Term, assumed, formula, least
from kvdsl.placement.exchanges import Exchange, Group
from kvdsl.placement.placement import Placement
from kvdsl.placement.subject import Subject
from kvdsl.placement.topology import Join
from kvdsl.units import BYTE_RATE, BYTES, TIME, tidy

Number = int | Fraction | float
_RING = "ring, as NCCL's tests count bus bandwidth (nccl-tests doc/PERFORMANCE.md)"


@formula("tokens x values a token x bytes a value + extra bytes", BYTES)
def payload(tokens: Number, values: Number, bytes_a_value: Number, extra: Number) -> Number:
    return times(tokens, values, bytes_a_value) + extra


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


@formula(
    "bandwidth of a link x links a device x efficiency / oversubscription",
    BYTE_RATE,
    "language: node, fabric",
)
def rank_bandwidth(
    bandwidth: Number, links: Fraction, efficiency: Number, oversubscription: Fraction
) -> Number:
    return over(times(bandwidth, links, efficiency), oversubscription)


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """One exchange of a pass, priced over its widest group: payload, one time, all of them."""

    exchange: Exchange
    group: Group
    size: Term
    once: Term
    all: Term


def costs(
    placement: Placement, tokens: Term, sampled: Term, what: str
) -> tuple[CollectiveCost, ...]:
    """Every exchange of a pass in which each DP rank brings `tokens` tokens, `sampled` of them to
    the head."""
    found = []
    for exchange in placement.exchanges:
        group = placement.widest(exchange.axis, exchange.stage)
        if group is not None and group.size > 1:
            own = sampled if exchange.module == "head" else tokens
            found.append(_cost(placement, exchange, group, own, what))
    return tuple(found)


def _cost(
    placement: Placement, exchange: Exchange, group: Group, tokens: Term, what: str
) -> CollectiveCost:
    size = _payload(placement, exchange, tokens)
    alpha, beta = _alpha(group), _beta(placement, exchange, group)
    ranks = of_layout(placement.subject, "ranks", group.size)
    once = FORMULAS[exchange.kind].derive(
        f"one {exchange.kind.replace('_', '-')} of {exchange.module.replace('_', ' ')}",
        ranks=ranks,
        size=size,
        latency=alpha,
        bandwidth=beta,
    )
    model = placement.subject.model
    often = of_model(model, f"times in a {what}", exchange.count)
    return CollectiveCost(
        exchange,
        group,
        size,
        once,
        repeated.derive(f"{once.label[4:]}s in stage {exchange.stage}", count=often, each=once),
    )


def _payload(placement: Placement, exchange: Exchange, tokens: Term) -> Term:
    subject = placement.subject
    width = subject.activations.bits or 0
    stage = subject.engine.stage_sends if subject.engine else "hidden"
    doubled = 2 if exchange.kind == "send" and stage == "hidden_residual" else 1
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
        values=of_model(subject.model, "values a token", tidy(exchange.width * doubled)),
        bytes_a_value=value,
        extra=fixed(
            "extra bytes",
            times(exchange.extra, tokens.value),
            "4 B a query head of log-sum-exp" if exchange.extra else "none",
            BYTES,
        ),
    )


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
    join = _join(group)
    links = join.share * (group.size - 1 if join.shape == "mesh" else 1)
    if not join.fast and exchange.kind in RINGS:
        links *= Fraction(group.size, group.reach.nodes)
    wide = _over(placement.subject, join, links)
    inner = None if join.fast else _inner_join(placement, group)
    if inner is None:
        return wide
    return least("bandwidth of a rank", [wide, _over(placement.subject, inner, inner.share)])


def _over(subject: Subject, join: Join, links: Fraction) -> Term:
    """The bandwidth of so many links of a join."""
    link = join.link
    many = of_hardware(subject, "links that it can use", links)
    if join.note:
        many = assumed("links that it can use", links, units.NONE, join.note)
    efficiency = Fraction(1) if subject.ideal else Fraction(link.efficiency)
    return rank_bandwidth.derive(
        f"bandwidth of a rank over {link.title}",
        bandwidth=leaf(link, "bandwidth", f"bandwidth of {link.title}", link.bandwidth, BYTE_RATE),
        links=many,
        efficiency=fixed("efficiency", efficiency, "time = ideal")
        if subject.ideal
        else leaf(link, "efficiency", "efficiency", efficiency, units.NONE),
        oversubscription=of_hardware(subject, "oversubscription", join.oversubscription),
    )


def _inner_join(placement: Placement, group: Group) -> Join | None:
    """The scale-up domain that the group's first rank stands in."""
    for unit, _ in reversed(placement.subject.topology.path(group.places[0])):
        if unit.join is not None and unit.join.fast:
            return unit.join
    return None
