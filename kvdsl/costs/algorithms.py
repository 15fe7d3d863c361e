"""Algorithms: the time of one collective as a library does it.

Comes in: a library's algorithm, a route and a message. Goes out: a time with its parts and its
band, for a message of one size or for an array of sizes. One formula serves all: launch, steps,
bytes on the slowest wire, and the filling of the pipeline, which grows with the root of both. What
an algorithm sends and how many steps it takes follows from its form. Not its job: which of several
is taken (libraries).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log2
from typing import Any

from kvdsl.arithmetic import greater, real, root
from kvdsl.costs.message import Message
from kvdsl.costs.routes import Route
from kvdsl.formulas import Term, deferred, formula, least, total
from kvdsl.recall import Recall
from kvdsl.spec.library import ANY, OTHER, Algorithm, Band, Library
from kvdsl.units import BYTES, NONE, TIME, Dimension

_FIT = "collective_model: alpha-beta with a pipeline-fill term"
_RING = "Thakur, Rabenseifner, Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005"


@dataclass(frozen=True, slots=True)
class Timing:
    """One algorithm on one route: `low` and `high` bound what a measurement may say."""

    library: Library
    algorithm: Algorithm
    basis: str
    time: Term
    low: Any
    high: Any
    lent: tuple[str, ...] = ()
    """Rows of its tables that a generation without one borrows, as `other`."""


# --- steps and bytes of each form ----------------------------------------------------------------


def _doublings(count: int) -> float:
    return log2(count)


def steps_inside(algorithm: Algorithm, kind: str, route: Route) -> float:
    """Steps between ranks of a domain: twice round the ring for an all-reduce, once for others."""
    n = route.inner
    around = n - 1 if algorithm.way in ("ring", "in_switch", "gather") else 0
    around *= 2 if kind == "all_reduce" else 1
    return around + float(algorithm.steps) + float(algorithm.doubling) * _doublings(n)


def steps_outside(kind: str, route: Route) -> float:
    """Steps over the network: up and down a tree of domains, or once through it."""
    k = route.domains
    if k == 1:
        return 0.0
    if kind == "all_reduce":
        return 2 * _doublings(k)
    if kind in ("all_gather", "reduce_scatter"):
        return _doublings(k)
    return 2.0 if kind == "send" else _doublings(2 * k)


def reached(count: int, copies: int, most: int = 0) -> Fraction:
    """Of `count` places, those that a token's `copies` reach on average, each place once:
    count (1 - (1 - 1 / count)^copies), at most `most`."""
    found = count * (1 - (1 - Fraction(1, count)) ** min(copies, 512))
    return min(found, Fraction(most)) if most else found


def share_inside(algorithm: Algorithm, message: Message, route: Route) -> Fraction:
    """Bytes that a rank sends inside its domain, over the message's bytes."""
    n, g = route.ranks, route.inner
    match algorithm.way:
        case "ring" | "two_shot":
            return Fraction((2 if message.kind == "all_reduce" else 1) * (g - 1), g)
        case "in_switch":
            return 1 + Fraction(1, g)
        case "one_shot":
            return Fraction(g - 1)
        case "pairwise":
            return Fraction(g - 1, n) * Fraction(route.hops)
        case "gather":
            return Fraction(n * (g - 1), g)
        case "per_expert":
            return Fraction(message.copies * (g - 1), n)
        case "per_rank":
            return reached(n, message.copies) * Fraction(g - 1, g)
        case _:
            return Fraction(int(route.domains == 1))


def share_outside(algorithm: Algorithm, message: Message, route: Route) -> Fraction:
    """Bytes that a rank sends over the network, over the message's bytes."""
    n, g, k = route.ranks, route.inner, route.domains
    if k == 1:
        return Fraction(0)
    match algorithm.way:
        case "per_expert":
            return Fraction(message.copies * (n - g), n)
        case "per_rank":
            return reached(k, message.copies, message.groups) * Fraction(k - 1, k)
        case "pairwise":
            return Fraction(n - g, n)
        case "direct":
            return Fraction(1)
        case "gather":
            return Fraction(n * (k - 1), k * g)
        case _:
            return Fraction((2 if message.kind == "all_reduce" else 1) * (k - 1), k * g)


# --- the time -------------------------------------------------------------------------------------


SENT = ("bytes that a rank sends inside", "bytes that a rank sends outside")
"""Labels of the bytes that a message's time has inside a domain and out of it."""


@formula("share of the message x its bytes", BYTES, _RING)
def sent(share: Any, size: Any) -> Any:
    return real(share) * real(size)


@formula("efficiency x (1 - loss / ranks^2)", NONE, _FIT)
def lane_use(efficiency: Any, loss: Any, ranks: int) -> float:
    return real(efficiency) * (1 - real(loss) / ranks**2)


@formula("bytes / (bandwidth x efficiency)", TIME, "definition")
def wire_time(size: Any, bandwidth: Any, efficiency: Any) -> Any:
    return real(size) / (real(bandwidth) * real(efficiency))


@formula("bytes / (SMs x rate of one)", TIME, "DeepEP: SMs move what leaves a domain")
def sm_time(size: Any, sms: int, rate: Any) -> Any:
    return real(size) / (sms * real(rate))


@formula("the slowest of the wires", TIME, "levels work at the same time")
def slowest_wire(**wires: Any) -> Any:
    found: Any = 0.0
    for each in wires.values():
        found = greater(found, each)
    return found


@formula("steps x a step", TIME, _RING)
def step_time(steps: float, step: Any) -> float:
    return steps * real(step)


@formula("fill x root(latency x wire time)", TIME, _FIT)
def fill_time(fill: Any, latency: Any, wire: Any) -> Any:
    return real(fill) * root(real(latency) * wire)


@dataclass(frozen=True, slots=True)
class _Constants:
    """What does not depend on the size: numbers, in seconds and bytes a second. `first` is what
    fills the pipeline; `network` is None within a domain."""

    launch: float
    stepped: tuple[float, ...]
    first: float
    fill: float
    inside: tuple[float, float, float] | None
    outside: tuple[float, float, float] | None
    through: tuple[float, int, float] | None
    basis: str
    band: Band
    borrowed: tuple[str, ...]
    wires: tuple[Term, ...]
    """Bandwidths: what of a time may be assumed beside the message."""


_KNOWN: Recall[_Constants] = Recall(2048)


def timing(library: Library, algorithm: Algorithm, route: Route, message: Message) -> Timing:
    """The time of an algorithm that may run on this route. Its value is computed at once, as most
    algorithms lose; how it comes about is derived when asked."""
    known = _KNOWN.get(
        (library, algorithm, route),
        (message.kind, message.copies, message.groups, message.sms),
        lambda: _constants(library, algorithm, route, message),
    )
    size = real(message.bytes_under(algorithm))
    wires = {
        name: wire_time(size=share * size, bandwidth=bandwidth, efficiency=efficiency)
        for name, each in (("inside", known.inside), ("outside", known.outside))
        if each is not None
        for share, bandwidth, efficiency in (each,)
    }
    if known.through is not None:
        copies, sms, each_sm = known.through
        wires["sms"] = sm_time(size=copies * size, sms=sms, rate=each_sm)
    slow = slowest_wire(**wires)
    filling = fill_time(fill=known.fill, latency=known.first, wire=slow)
    latency = [known.launch, *known.stepped]
    low, high = _bounds(sum(latency), slow, filling, known.band)
    label = f"{algorithm.name.replace('_', ' ')} of {library.title}"
    time = deferred(
        label,
        total.pick([*latency, slow, filling]),
        TIME,
        lambda: _derived(label, library, algorithm, route, message),
        (message.ground(algorithm), *known.wires) if wires else (),
    )
    return Timing(library, algorithm, known.basis, time, low, high, known.borrowed)


def _constants(
    library: Library, algorithm: Algorithm, route: Route, message: Message
) -> _Constants:
    generation = route.device.generation
    parts = _latency(library, algorithm, route, message.kind)
    tables = [t for t in ("step", "efficiency") if getattr(algorithm, t)]
    lenders = [_lender(library, algorithm, t, generation) for t in ("launch", *tables)]
    borrowed = tuple(dict.fromkeys(filter(None, lenders)))
    basis = "fitted" if parts.known and not borrowed else "borrowed"
    basis = library.basis if library.basis != "fitted" else basis
    band = (algorithm.band if basis == "fitted" else algorithm.loose) or Band()
    wires = _wires(library, algorithm, route, message)
    return _Constants(
        real(parts.launch.value),
        tuple(real(term.value) for term in parts.stepped),
        real(parts.first.value),
        real(parts.fill.value),
        _numbers(wires.get("inside"), share_inside(algorithm, message, route)),
        _numbers(wires.get("outside"), share_outside(algorithm, message, route)),
        None if "sms" not in wires else _through(wires["sms"], message),
        basis,
        band,
        borrowed,
        tuple(wires[name].inputs[1] for name in ("inside", "outside") if name in wires),
    )


def _numbers(wire: Term | None, share: Fraction) -> tuple[float, float, float] | None:
    if wire is None:
        return None
    _, bandwidth, efficiency = wire.inputs
    return real(share), real(bandwidth.value), real(efficiency.value)


def _through(wire: Term, message: Message) -> tuple[float, int, float]:
    _, sms, each = wire.inputs
    return real(message.copies), int(sms.value), real(each.value)


@dataclass(frozen=True, slots=True)
class _Latency:
    """Terms of what a message of no bytes takes, and whether all of them were measured."""

    launch: Term
    stepped: tuple[Term, ...]
    first: Term
    fill: Term
    known: bool


def _latency(library: Library, algorithm: Algorithm, route: Route, kind: str) -> _Latency:
    generation = route.device.generation
    launch, _ = _row(library, algorithm, "launch", generation, TIME)
    stepped = (
        [
            step_time.derive(
                "steps between ranks",
                steps=Term(
                    "steps",
                    steps_inside(algorithm, kind, route),
                    basis="definition",
                    note=f"of {algorithm.way.replace('_', ' ')} with {route.inner} ranks",
                ),
                step=_row(library, algorithm, "step", generation, TIME)[0],
            )
        ]
        if algorithm.step
        else []
    )
    network, known = _network(library, algorithm, route, kind)
    stepped += [network] if network is not None else []
    fill = (
        algorithm.fill
        if network is None or algorithm.network_fill is None
        else (algorithm.network_fill)
    )
    return _Latency(
        launch,
        tuple(stepped),
        network if network is not None else launch,
        _constant(library, algorithm, "fill", "fill", fill, NONE),
        known,
    )


def _derived(
    label: str, library: Library, algorithm: Algorithm, route: Route, message: Message
) -> Term:
    """The time as a chain of terms."""
    message = message.under(algorithm, library)
    parts = _latency(library, algorithm, route, message.kind)
    wires = _wires(library, algorithm, route, message)
    slow = slowest_wire.derive("bytes on the slowest wire", "", **wires)
    filling = fill_time.derive(
        "filling the pipeline", fill=parts.fill, latency=parts.first, wire=slow
    )
    return total(label, [parts.launch, *parts.stepped, slow, filling])


def _bounds(latency: Any, wire: Any, filling: Any, band: Band) -> tuple[Any, Any]:
    a, b = float(band.latency), float(band.bandwidth)
    both = (a * b) ** 0.5
    return latency / a + wire / b + filling / both, latency * a + wire * b + filling * both


def _wires(
    library: Library, algorithm: Algorithm, route: Route, message: Message
) -> dict[str, Term]:
    found: dict[str, Term] = {}
    inside, outside = (
        share_inside(algorithm, message, route),
        share_outside(algorithm, message, route),
    )
    if route.wire is not None and inside:
        ratio, _ = _row(library, algorithm, "efficiency", route.device.generation, NONE)
        loss = _constant(library, algorithm, "pair_loss", "loss", algorithm.pair_loss, NONE)
        ranks = Term("ranks in a domain", route.inner, basis="definition", note="of the group")
        found["inside"] = wire_time.derive(
            "bytes inside a domain",
            size=_sent(SENT[0], inside, message),
            bandwidth=route.wire,
            efficiency=lane_use.derive("efficiency", efficiency=ratio, loss=loss, ranks=ranks),
        )
    if route.network is not None and outside:
        found["outside"] = wire_time.derive(
            "bytes over the network",
            size=_sent(SENT[1], outside, message),
            bandwidth=route.network,
            efficiency=_constant(library, algorithm, "network_efficiency", "efficiency",
                                 algorithm.network_efficiency, NONE),
        )  # fmt: skip
    if algorithm.sms and algorithm.sm_rate is not None and route.domains > 1:
        found["sms"] = sm_time.derive(
            "bytes through the SMs",
            size=_sent("bytes of all copies", Fraction(message.copies), message),
            sms=_constant(library, algorithm, "sms", "SMs", message.sms or algorithm.sms, NONE),
            rate=_constant(
                library, algorithm, "sm_rate", "rate of one SM", algorithm.sm_rate, NONE
            ),
        )
    return found


def _sent(label: str, share: Fraction, message: Message) -> Term:
    return sent.derive(
        label,
        share=Term("share of the message", share, basis="definition", note="follows from the way"),
        size=message.size,
    )


def bytes_sent(time: Term) -> tuple[float, float] | None:
    """Bytes that a rank sends in one exchange inside its domain and out of it, as its time has
    them; None where no algorithm gave the time. Of several the fastest is meant."""
    while time.formula is not None and time.formula.name == least.name:
        time = min(time.inputs, key=lambda term: float(term.value))
    found = {term.label: float(term.value) for term in _inner(time) if term.label in SENT}
    return (found.get(SENT[0], 0.0), found.get(SENT[1], 0.0)) if found else None


def _inner(term: Term) -> Iterator[Term]:
    yield term
    for each in term.inputs:
        yield from _inner(each)


def _network(
    library: Library, algorithm: Algorithm, route: Route, kind: str
) -> tuple[Term | None, bool]:
    """Steps over the network, and whether somebody measured them."""
    steps = steps_outside(kind, route)
    if not steps:
        return None, True
    known, step = True, route.hop
    if algorithm.network_step is not None:
        step = _constant(library, algorithm, "network_step", "a step over the network",
                         algorithm.network_step, TIME)  # fmt: skip
    elif step is None:
        known = False
        step = _constant(library, algorithm, "unknown_step", "a step over an unknown network",
                         algorithm.unknown_step, TIME)  # fmt: skip
    many = Term(
        "steps over the network", steps, basis="definition", note=f"between {route.domains} domains"
    )
    return step_time.derive("steps over the network", steps=many, step=step), known


def _row(
    library: Library, algorithm: Algorithm, attribute: str, generation: str | None, unit: Dimension
) -> tuple[Term, str]:
    """The row of a table for a generation, and the row that it borrows where it has none of its
    own (else empty)."""
    table = getattr(algorithm, attribute)
    key = next((k for k in (generation, ANY, OTHER) if k in table), None)
    key = _nearest(library.generations, tuple(table), generation) if key is None else key
    label = attribute if key == ANY else f"{attribute} ({key})"
    lender = "" if key in (ANY, generation) else key
    note = f"borrowed: no row for {generation or 'a device that names no generation'}"
    found = _constant(library, algorithm, attribute, label, table[key], unit)
    return (replace(found, note=note) if lender else found), lender


def _lender(library: Library, algorithm: Algorithm, attribute: str, generation: str | None) -> str:
    return _row(library, algorithm, attribute, generation, NONE)[1]


def _nearest(order: tuple[str, ...], rows: tuple[str, ...], generation: str | None) -> str:
    """The row of the nearest generation, of two as near the older; the first where the order does
    not say where one stands."""
    if generation not in order:
        return rows[0]
    at = order.index(generation)
    known = [order.index(row) for row in rows if row in order]
    return order[min(known, key=lambda n: (abs(n - at), n))] if known else rows[0]


def _constant(
    library: Library, algorithm: Algorithm, attribute: str, label: str, value: Any, unit: Dimension
) -> Term:
    origin = algorithm.origin(attribute)
    return Term(
        label,
        real(value) if unit != NONE or isinstance(value, Fraction) else value,
        unit,
        basis="catalog" if library.catalog else "spec",
        span=origin.span if origin else algorithm.at,
        source=(origin.source if origin else None) or library.source,
    )
