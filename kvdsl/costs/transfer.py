"""Transfer: a request's cache handed from the pool that prefills to the one that decodes.

Comes in: the estimates of both pools and the deployment's `transfer`. Goes out: a `Handover`: bytes
by part, in the format that is sent, as many times as devices of the decode pool pull them; the time
of its steps (setup, codec, wire) and what of it a user sees; what the lanes carry in all. Leaves
out: what the decode pool holds of a prompt already, and requests that wait for one another's lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import at_least, over, raised, real, times
from kvdsl.costs import cache
from kvdsl.costs.codecs import codec_steps
from kvdsl.costs.collectives import Number
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.libraries import Price, price
from kvdsl.costs.memory import leaf
from kvdsl.costs.message import Message
from kvdsl.costs.origins import fixed, of_layout, of_model
from kvdsl.costs.prefill import prompt_terms
from kvdsl.costs.routes import Route
from kvdsl.formulas import Term, assumed, formula, greatest, least, total
from kvdsl.placement.cache import CachePart, cache_parts
from kvdsl.placement.sites import one_piece
from kvdsl.placement.topology import Reach, Topology
from kvdsl.spec.deployment import Transfer
from kvdsl.spec.formats import Recipe, RecipeLine
from kvdsl.units import BYTE_RATE, BYTES, NONE, TIME, tidy

_SOURCE = "Patel et al., Splitwise, arXiv 2311.18677: serial, or layer by layer behind the prefill"


@formula("ceil(tokens / page) x page", units.TOKENS, "pages are sent whole")
def paged(tokens: Number, page: int) -> Number:
    return raised(tokens, page) * page


@formula(
    "bytes of one copy x devices that pull each byte",
    BYTES,
    "each decode rank pulls its own part: vLLM's NIXL connector, latents to every rank",
)
def pulled(one: Number, copies: Number) -> Number:
    return times(one, copies)


@formula("lanes x bandwidth x efficiency", BYTE_RATE, "definition")
def lanes_rate(lanes: Number, bandwidth: Number, efficiency: Number) -> Number:
    return times(lanes, bandwidth, efficiency)


@formula("bytes / bandwidth of the lanes", TIME, "point to point over several links")
def wire_time(size: Number, bandwidth: Number) -> float:
    return real(size) / real(bandwidth)


@formula("bytes / (piece x pieces a second)", TIME,
         "Mooncake, transfer-engine/efa_transport.md: small pieces cap the rate")  # fmt: skip
def pieces_time(size: Number, piece: Number, pieces: Number) -> float:
    return real(size) / (real(piece) * real(pieces))


@formula("time of the bytes - time of no bytes", TIME)
def without_setup(time: float, setup: float) -> float:
    return time - setup


@formula(
    "the greater of transfer / layers and transfer - prefill x (layers - 1) / layers", TIME, _SOURCE
)
def visible_layerwise(transfer: float, prefill: float, layers: int) -> float:
    last = transfer / layers
    return last + at_least(transfer - prefill * (layers - 1) / layers - last, 0)


@dataclass(frozen=True, slots=True)
class Moved:
    """A part of the cache on its way: bytes of one copy and of all that is pulled."""

    part: CachePart
    kept: Term
    one: Term
    size: Term
    copies: Fraction


@dataclass(frozen=True, slots=True)
class Handover:
    """`lanes` are those of a request. `stream` is what may hide behind the prefill: codec and wire,
    without the setup. `present` is what all lanes carry. `devices` are those of each side that hold
    a request. `basis` says what its constants are, `inside` that a scale-up domain joins it."""

    transfer: Transfer
    sender: Estimate
    receiver: Estimate
    parts: tuple[Moved, ...]
    one: Term
    size: Term
    lanes: Term
    setup: Term
    encode: Term | None
    wire: Term
    decode: Term | None
    stream: Term
    whole: Term
    visible: Term
    present: Term
    devices: tuple[Term, Term]
    algorithm: str
    basis: str
    inside: bool

    @property
    def terms(self) -> dict[str, Term]:
        return {
            "transfer.bytes": self.size,
            "transfer.time": self.visible,
            "transfer.whole": self.whole,
            "transfer.bandwidth": self.present,
        }


def handover(transfer: Transfer, sender: Estimate, receiver: Estimate) -> Handover:
    """The transfer of one request of the mean length from one pool to the other."""
    parts = tuple(_moved(transfer, sender, receiver))
    one, size = _sum("one copy", [m.one for m in parts]), _sum("a request", [m.size for m in parts])
    devices = (holding(sender, "sending"), holding(receiver, "receiving"))
    lanes = _lanes(transfer, sender, receiver, devices)
    band = _bandwidth(transfer, sender, lanes)
    reach = between(sender, receiver)
    inside = reach is not None and reach.fast
    setup, wire, algorithm, basis = _steps(transfer, sender, reach, size, band)
    encode, decode = codec_steps(transfer.format, one, size, devices)
    steps = [step for step in (encode, wire, decode) if step is not None]
    stream = steps[0]
    if len(steps) > 1:
        join = greatest if transfer.pipelined else total
        stream = join("codec and wire", steps)
    whole = total("transfer of a request", [setup, stream])
    return Handover(
        transfer, sender, receiver, parts, one, size, lanes, setup, encode, wire, decode, stream,
        whole, _visible(transfer, sender, setup, stream, whole),
        _present(transfer, sender, receiver, devices, band, lanes), devices, algorithm, basis,
        inside,
    )  # fmt: skip


# --- bytes ---------------------------------------------------------------------------------------


def sent_recipe(transfer: Transfer, sender: Estimate) -> Recipe:
    """The format of each component on the wire: that of the cache unless the transfer has one."""
    if transfer.format is None:
        return sender.subject.kv
    return Recipe(lines=(RecipeLine(format=transfer.format),))


def _moved(transfer: Transfer, sender: Estimate, receiver: Estimate) -> Iterator[Moved]:
    subject = sender.subject
    new, found = prompt_terms(subject)
    whole = Fraction(new.value) + Fraction(found.value)
    length = -(-whole.numerator // whole.denominator)
    prompt = Term("tokens of the prompt", length, units.TOKENS, inputs=(new, found))
    page = subject.engine.block if subject.engine else 1
    copies = pulls(receiver)
    for part in cache_parts(subject.model, sent_recipe(transfer, sender)):
        kept = Term(f"kept in {part.name}", part.tokens(length), units.TOKENS, inputs=(prompt,),
                    note=cache.kept_note(part))  # fmt: skip
        if page > 1 and not part.state:
            block = leaf(subject.engine, "block", "page", page, units.TOKENS)  # type: ignore[arg-type]
            kept = paged.derive(f"kept in {part.name}, in pages", tokens=kept, page=block)
        record = Term(
            f"bytes a token and layer in {part.name}", cache.record_bytes(part),
            units.BYTES_PER_TOKEN, inputs=(sender.values["kv.bytes_per_token"],),
        )  # fmt: skip
        layers = of_model(subject.model, "layers", part.layers)
        one = cache.bytes_per_request.derive(
            f"the prompt in {part.name}", layers=layers, record=record, kept=kept
        )
        often = copies.get(part.name, Fraction(1))
        many = of_layout(receiver.subject, "devices that pull each byte", tidy(often))
        yield Moved(
            part, kept, one, pulled.derive(f"{part.name} sent", one=one, copies=many), often
        )


def pulls(receiver: Estimate) -> Mapping[str, Fraction]:
    """How many devices of the decode pool pull each byte of a part: 1 where heads are split, all
    ranks of a TP group where each has the whole latent."""
    on_ranks: dict[str, Fraction] = {}
    one: dict[str, Fraction] = {}
    for stage in receiver.placement.stages:
        for share in stage.cache:
            name = share.part.name
            held = cache.rank_record(share) * share.layers * share.ranks
            on_ranks[name] = on_ranks.get(name, Fraction(0)) + held
            alone = Fraction(cache.record_bytes(share.part)) * share.layers
            one[name] = one.get(name, Fraction(0)) + alone
    return {name: on_ranks[name] / one[name] for name in one if one[name]}


def _sum(what: str, terms: list[Term]) -> Term:
    if not terms:
        return fixed(f"bytes of {what}", 0, "the model keeps no cache", BYTES)
    return total(f"bytes of {what}", terms)


# --- lanes ---------------------------------------------------------------------------------------


def holding(pool: Estimate, word: str) -> Term:
    """Devices that hold one request together: a DP rank over all stages."""
    degrees = pool.subject.degrees
    devices = over(degrees.size * degrees.pp, degrees.attention.dp)
    return of_layout(pool.subject, f"{word} devices", devices, "those that hold the request")


def _links(transfer: Transfer, pool: Estimate, devices: Term) -> Term:
    """Lanes that a side has for a request: one a device, or its share of the NICs of that kind."""
    join = pool.subject.topology.root.join
    if join is None or join.kind != "fabric" or join.link.title != transfer.over.title:
        return devices
    if join.share == 1:
        return devices
    return Term(f"lanes of the {devices.label}", times(devices.value, join.share),
                inputs=(devices,), note=f"{join.share} of {join.link.title} a device")  # fmt: skip


def _lanes(
    transfer: Transfer, sender: Estimate, receiver: Estimate, devices: tuple[Term, Term]
) -> Term:
    if transfer.lanes is not None:
        return leaf(transfer, "lanes", "lanes", transfer.lanes, NONE)
    sides = [
        _links(transfer, pool, side) for pool, side in zip((sender, receiver), devices, strict=True)
    ]
    return least("lanes of a request", sides)


def _bandwidth(transfer: Transfer, sender: Estimate, lanes: Term) -> Term:
    link = transfer.over
    ideal = sender.subject.ideal
    efficiency = (
        fixed("efficiency", Fraction(1), "time = ideal")
        if ideal
        else leaf(link, "efficiency", "efficiency", Fraction(link.efficiency), NONE)
    )
    each = leaf(link, "bandwidth", f"bandwidth of {link.title}", link.bandwidth, BYTE_RATE)
    return lanes_rate.derive(
        "bandwidth of the lanes", lanes=lanes, bandwidth=each, efficiency=efficiency
    )


def _present(
    transfer: Transfer, sender: Estimate, receiver: Estimate, devices: tuple[Term, Term],
    band: Term, lanes: Term,
) -> Term:  # fmt: skip
    """What the lanes of all requests carry together: the side with fewer sets the pace."""
    sides = []
    for pool, side in zip((sender, receiver), devices, strict=True):
        own = lanes if transfer.lanes is not None else _links(transfer, pool, side)
        many = of_layout(pool.subject, "requests at once", pool.subject.degrees.holders)
        sides.append(
            Term(f"{side.label.split()[0]} lanes in all", times(own.value, many.value),
                 inputs=(own, many))
        )  # fmt: skip
    fewest = least("lanes in all", sides)
    return lanes_rate.derive("bandwidth between the pools", lanes=fewest, bandwidth=band.inputs[1],
                             efficiency=band.inputs[2])  # fmt: skip


def between(sender: Estimate, receiver: Estimate) -> Reach | None:
    """Where the first device of one pool meets the first of the other; None where the pools stand
    on hardware apart."""
    a, b = sender.subject.topology, receiver.subject.topology
    one, other = sender.subject.pool.on, receiver.subject.pool.on
    if one is None or other is None or not one_piece(one, other):
        return None
    if a.root.devices != b.root.devices:
        return None
    line = ((0, a.in_root(0), 1), (1, b.in_root(0), 1))
    return Topology(a.root, 2, line).reach((0, 1))


# --- times ---------------------------------------------------------------------------------------


def _steps(
    transfer: Transfer, sender: Estimate, reach: Reach | None, size: Term, band: Term
) -> tuple[Term, Term, str, str]:
    """Setup and wire, with the algorithm that does them and the basis of its constants."""
    found = None if sender.subject.ideal else _priced(transfer, sender, reach, size, band)
    if found is None:
        plain = wire_time.derive("bytes on the wire", size=size, bandwidth=band)
        return _setup(transfer, _latency(transfer)), plain, "point to point", "ideal"
    nothing = _priced(transfer, sender, reach, fixed("no bytes", 0, "a setup alone", BYTES), band)
    launch = (nothing or found).time.named("setup before the first byte")
    wire = without_setup.derive("bytes on the wire", time=found.time, setup=launch)
    algorithm = found.chosen[0].algorithm
    if algorithm.pieces is not None:
        pace = leaf(algorithm, "pieces", "pieces a second", algorithm.pieces, units.REQUEST_RATE)
        slow = pieces_time.derive(
            "pieces on the wire", size=size, piece=_piece(transfer, sender), pieces=pace
        )
        wire = greatest("bytes on the wire", [wire, slow])
    title = found.chosen[0].library.title.rpartition(".")[2]
    return _setup(transfer, launch), wire, f"{algorithm.name} of {title}", found.basis


def _setup(transfer: Transfer, otherwise: Term) -> Term:
    if transfer.setup is None:
        return otherwise
    return leaf(transfer, "setup", "setup before the first byte", transfer.setup, TIME)


def _latency(transfer: Transfer) -> Term:
    link = transfer.over
    if link.latency is None:
        return assumed(f"latency of {link.title}", 0.0, TIME, "the link names no latency")
    return leaf(link, "latency", f"latency of {link.title}", link.latency, TIME)


def _piece(transfer: Transfer, sender: Estimate) -> Term:
    """Contiguous bytes: a page of one layer on a sending rank."""
    if transfer.piece is not None:
        return leaf(transfer, "piece", "piece", transfer.piece, BYTES)
    page = sender.subject.engine.block if sender.subject.engine else 1
    shares = [s for stage in sender.placement.stages for s in stage.cache if not s.part.state]
    each = min((page * cache.rank_record(s) for s in shares), default=Fraction(1))
    return Term("piece", tidy(each), BYTES, basis="spec", span=sender.subject.place("layout"),
                note=f"{page} tok of one layer on a rank")  # fmt: skip


def _priced(
    transfer: Transfer, sender: Estimate, reach: Reach | None, size: Term, band: Term
) -> Price | None:
    """What the transfer's library makes of it, else the engine's, else that of the devices."""
    subject = sender.subject
    own = (transfer.library,) if transfer.library is not None else ()
    engine = subject.engine.libraries if subject.engine else ()
    inside = reach is not None and reach.fast
    link = transfer.over
    step = None
    if link.step is not None:
        step = leaf(link, "step", f"a step over {link.title}", float(link.step), TIME)
    way = Route(
        ranks=2,
        inner=2 if inside else 1,
        domains=1 if inside else 2,
        machines=reach.nodes if reach is not None else 2,
        ground="switch",
        device=subject.topology.device(0),
        wire=band if inside else None,
        network=None if inside else band,
        hop=step,
        in_switch=False,
        peer=True,
    )
    return price((*own, *engine, *subject.pool.libraries), way, Message("send", size))


def _visible(transfer: Transfer, sender: Estimate, setup: Term, stream: Term, whole: Term) -> Term:
    if transfer.overlap == "none" or sender.prefill is None:
        return whole.named("visible transfer")
    hidden = visible_layerwise.derive(
        "behind the prefill",
        transfer=stream,
        prefill=sender.prefill.service,
        layers=of_model(sender.subject.model, "layers", sender.subject.model.layers),
    )
    return total("visible transfer", [setup, hidden])
