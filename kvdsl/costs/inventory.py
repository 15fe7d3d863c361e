"""Inventory: what a rank reads and computes in a pass, before any time is put to it.

Comes in: a placement and a ledger. Goes out: for each kind of weights the bytes, the work of a
token and the arithmetic; for each part of the cache the bytes and work of a token read; and how
many layers of each kind there are. Exact terms; nothing here depends on the load, so that one
inventory serves any number of loads. Not its job: times (step) or exchanges (collectives).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from kvdsl import units
from kvdsl.arithmetic import times
from kvdsl.costs import cache
from kvdsl.costs.attention import peak_of_keys, scoring
from kvdsl.costs.carried import most_met
from kvdsl.costs.experts import Routed, routed
from kvdsl.costs.memory import Ledger, leaf
from kvdsl.costs.origins import of_layout, of_model
from kvdsl.costs.passes import copied_over_parts, tokens_met
from kvdsl.costs.roofline import peak_of
from kvdsl.costs.weights import format_of, read_terms
from kvdsl.formulas import Term, total
from kvdsl.placement.placement import Placement, Stage
from kvdsl.placement.shares import CacheShard
from kvdsl.placement.subject import Subject
from kvdsl.placement.tensors import active
from kvdsl.spec.formats import Format
from kvdsl.spec.hardware import Device
from kvdsl.spec.model import Mla, Moe
from kvdsl.units import BYTES, WORK, tidy

KINDS = {
    "attention": "attention",
    "state_mixer": "attention",
    "indexer": "attention",
    "ffn": "dense",
    "shared_experts": "dense",
    "router": "dense",
    "norms": "dense",
    "routed_experts": "experts",
    "head": "head",
}
"""Modules whose weights a pass reads, by kind; rows of an embedding are looked up."""


@dataclass(frozen=True, slots=True)
class Product:
    """Products of one arithmetic: work of a token of each DP rank, or of one `alone`, and the
    device's peak."""

    row: str
    work: Term
    peak: Term | None
    alone: Term


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of one kind on a rank; `routed` where tokens hit a part of them. `emulated`: stored
    narrower than they are multiplied. `own`: the ranks of a prompt (pcp) have copies, each for its
    part."""

    kind: str
    label: str
    size: Term
    products: tuple[Product, ...]
    row: str
    emulated: bool
    routed: Routed | None = None
    own: bool = False


@dataclass(frozen=True, slots=True)
class CacheRead:
    """A part of the cache on a rank: bytes of a token over its layers, and work of a pair of query
    and key, in decode and in prefill. `limit` bounds the tokens that a query reads; of `every`
    tokens one entry is kept. A `state` has bytes once a request, read and written."""

    label: str
    size: Term
    decode_work: Term
    prefill_work: Term
    limit: Term | None
    every: int
    state: bool
    peak: Term | None = None
    prompt_peak: Term | None = None
    """Of the arithmetic in which a cached key is scored, in decode and in prefill."""
    keep: Fraction = Fraction(1)
    """Of the tokens, those that are not evicted; a prompt is scored whole."""

    @property
    def entry(self) -> int | Fraction:
        """Tokens for each entry that is left."""
        return self.every if self.keep == 1 else self.every / self.keep


@dataclass(frozen=True, slots=True)
class Inventory:
    """`layers` are those of the stage; `sparse`, `latent`, `mixers` and `indexers` those with
    routed experts, with MLA, with a state of fixed size, and with an indexer; `unfused` those whose
    experts no single kernel multiplies in four bits. `vector` are the bytes of a token's hidden
    state."""

    stage: Stage
    book: Ledger
    bandwidth: Term
    weights: tuple[Weights, ...]
    reads: tuple[CacheRead, ...]
    layers: Term
    sparse: Term
    unfused: Term
    latent: Term
    mixers: Term
    indexers: Term
    vector: Term

    @property
    def device(self) -> Device:
        return self.book.rank.device


def inventories(placement: Placement, books: tuple[Ledger, ...]) -> tuple[Inventory, ...]:
    """One for each rank class."""
    stages = {stage.number: stage for stage in placement.stages}
    return tuple(inventory(placement, stages[book.rank.stage], book) for book in books)


def inventory(placement: Placement, stage: Stage, book: Ledger) -> Inventory:
    """What a rank of the stage reads and computes."""
    subject, device = placement.subject, book.rank.device
    model, parts = subject.model, _part_layers(stage)

    def layers(label: str, *kinds: type) -> Term:
        count = sum(n for name, n in parts.items() if isinstance(model.parts[name], kinds))
        return of_model(model, label, count)

    weights = tuple(_weights(placement, stage, book))
    sparse = layers("layers with routed experts", Moe)
    mixing = sum(s.layers for s in stage.cache if s.part.state)
    indexed = sum(s.layers for s in stage.cache if s.part.form == "indexer")
    return Inventory(
        stage,
        book,
        leaf(device, "bandwidth", f"memory bandwidth of {device.title}", device.bandwidth,
             units.BYTE_RATE),
        weights,
        tuple(_reads(subject, stage, device)),
        of_layout(subject, "layers in the stage", stage.layers),
        sparse,
        _unfused(sparse, weights),
        layers("layers with a latent", Mla),
        of_model(model, "layers with a state", mixing),
        of_model(model, "layers with an indexer", indexed),
        of_model(model, "bytes of a hidden vector",
                 times(subject.activations.bits or 0, model.hidden), BYTES),
    )  # fmt: skip


def _unfused(sparse: Term, weights: tuple[Weights, ...]) -> Term:
    fused = any(w.kind == "experts" and w.row.endswith("4") and not w.emulated for w in weights)
    return Term("layers with unfused experts", 0 if fused else sparse.value, inputs=(sparse,),
                note="experts multiplied in four bits" if fused else "all of them")  # fmt: skip


def _part_layers(stage: Stage) -> dict[str, int]:
    """How many layers of a stage have each part that has weights."""
    found: dict[tuple[str, str, int, int, int], int] = {}
    for shard in stage.shards:
        tensor = shard.tensor
        if tensor.part and tensor.place == "layer":
            key = (tensor.part, tensor.name, tensor.rows, tensor.columns, tensor.count)
            found[key] = found.get(key, 0) + shard.layers
    parts: dict[str, int] = {}
    for (part, *_), count in found.items():
        parts[part] = max(parts.get(part, 0), count)
    return parts


# --- weights -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pile:
    """Work of a kind's tensors by arithmetic, while they are added up."""

    modules: list[str]
    works: dict[str, Fraction]
    alone: dict[str, Fraction]
    forms: dict[str, Format]


def _weights(placement: Placement, stage: Stage, book: Ledger) -> list[Weights]:
    subject, device = placement.subject, book.rank.device
    sizes = read_terms(placement, stage)
    piles: dict[tuple[str, bool], _Pile] = {}
    tokens: dict[str, Fraction] = {}
    for shard in (*stage.shards, *stage.read):
        tensor = shard.tensor
        kind = KINDS.get(tensor.module)
        if kind is None:
            continue
        own = kind == "dense" and copied_over_parts(placement, tensor.module)
        pile = piles.setdefault((kind, own), _Pile([], {}, {}, {}))
        if tensor.module not in pile.modules:
            pile.modules.append(tensor.module)
        if tensor.rows == 1:
            continue
        form = format_of(subject, tensor)
        work = 2 * active(subject.model, tensor) * shard.layers
        if tensor.module not in tokens:
            tokens[tensor.module] = tokens_met(placement, tensor.module)
        each, met = Fraction(work, tensor.layers * shard.parts), tokens[tensor.module]
        pile.works[form.title] = pile.works.get(form.title, Fraction(0)) + each * met
        pile.alone[form.title] = pile.alone.get(form.title, Fraction(0)) + each * min(
            met, Fraction(1)
        )
        pile.forms[form.title] = form
    found = []
    for (kind, own), pile in piles.items():
        here = [sizes[m] for m in pile.modules if m in sizes]
        if here and pile.works:
            size = total(f"{kind} on a rank", here) if len(here) > 1 else here[0]
            made = _of_kind(placement, stage, kind, pile, size, device)
            found.append(replace(made, own=own))
    return found


def _of_kind(
    placement: Placement, stage: Stage, kind: str, pile: _Pile, size: Term, device: Device
) -> Weights:
    subject = placement.subject
    products, emulated, widest = [], False, ("", Fraction(0))
    for title, work in pile.works.items():
        form = pile.forms[title]
        peak = peak_of(device, form)
        row = row_of(device, form)
        label = f"work of a token in {kind}, {title.rpartition('.')[2]}"
        both = (of_model(subject.model, label, tidy(each), WORK)
                for each in (work, pile.alone[title]))  # fmt: skip
        whole, alone = both
        products.append(Product(row, whole, peak, alone))
        if work > widest[1]:
            widest, emulated = (row, work), narrower(form, row)
    found = routed(placement, stage) if kind == "experts" else None
    label = kind if found is None else "routed experts"
    return Weights(kind, label, size, tuple(products), widest[0], emulated, found)


def row_of(device: Device, form: Format) -> str:
    """The row of the device's compute in which a format is multiplied: its own, else bf16."""
    word = form.arithmetic
    if word in device.compute:
        return word
    return next((other for other in ("bf16", "fp16", "fp32") if other in device.compute), word)


def narrower(form: Format, row: str) -> bool:
    """Whether values are stored in fewer bits than they are multiplied in."""
    digits = "".join(c for c in row if c.isdigit())
    if form.bits is None or not digits:
        return False
    return form.bits * 8 < int(digits)


# --- cache ---------------------------------------------------------------------------------------


def _reads(subject: Subject, stage: Stage, device: Device) -> Iterator[CacheRead]:
    """One for each part, however many runs of layers it has."""
    runs: dict[tuple[str, Fraction], list[CacheShard]] = {}
    for share in stage.cache:
        runs.setdefault((share.part.name, cache.rank_record(share)), []).append(share)
    for shares in runs.values():
        yield _read(subject, shares, device)


def _read(subject: Subject, shares: list[CacheShard], device: Device) -> CacheRead:
    model, part = subject.model, shares[0].part
    layers = sum(share.layers for share in shares)
    size = Term(
        f"{part.name}, bytes of a token on a rank",
        tidy(cache.rank_record(shares[0]) * layers),
        BYTES,
        inputs=() if part.state else tuple(cache.shard_term(subject, s) for s in shares),
        note="over the layers of the stage",
    )
    decode, prefill = _pair_work(subject, shares[0], layers)
    scored = peak_of_keys(subject, part, device)
    # A prompt's own keys are not yet narrowed, an index's are.
    prompt = scored if part.form == "indexer" else peak_of(device, subject.activations)
    return CacheRead(part.name, size, decode, prefill, most_met(model, part), part.every,
                     part.state, scored, prompt, part.keep)  # fmt: skip


def _pair_work(subject: Subject, share: CacheShard, layers: int) -> tuple[Term, Term]:
    """Work of one pair of query and key over the layers of a part on a rank: a score and its use,
    a multiply and an add each, of the heads there."""
    model, made = subject.model, scoring(subject, share.part)
    decode = prefill = Fraction(0)
    if made is not None:
        decode, prefill = 2 * made.heads * made.cached, 2 * made.heads * made.expanded
    ways = share.tokens.size
    label = f"work of a pair in {share.part.name}"
    return (
        of_model(model, label, tidy(decode * layers / ways), WORK),
        of_model(model, label, tidy(prefill * layers / ways), WORK),
    )
