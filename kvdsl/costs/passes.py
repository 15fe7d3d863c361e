"""A pass through the stages: weights read, cache read, arithmetic, at the roofline.

Comes in: a placement, its ledgers, and what a pass carries (tokens of a DP rank, tokens that their
attention reads). Goes out: the time of each module and of the cache on each rank class, and the
slowest rank of each stage (`time = ideal`). A module takes the longer of reading and computing.
All resident weights are read once, of routed experts those that tokens hit; a head that is tied is
read as the head.
Leaves out: kernel launches, overlap between modules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvdsl import units
from kvdsl.arithmetic import times, where
from kvdsl.costs.attention import attention_time
from kvdsl.costs.carried import Carried
from kvdsl.costs.experts import routed
from kvdsl.costs.memory import Ledger
from kvdsl.costs.origins import fixed, of_model
from kvdsl.costs.roofline import bandwidth_of, computed, peak_of, read_time
from kvdsl.costs.weights import format_of, read_terms
from kvdsl.formulas import Term, formula, greatest, total
from kvdsl.placement.placement import Placement, Stage
from kvdsl.placement.shares import spread
from kvdsl.placement.tensors import active
from kvdsl.spec.formats import Format
from kvdsl.spec.hardware import Device
from kvdsl.units import TIME, WORK, tidy

Number = int | Fraction | float


@formula(
    "2 x parameters that the tokens meet on a rank x tokens", WORK, "a multiply and an add each"
)
def product_work(parameters: Number, tokens: Number) -> Number:
    return times(2, parameters, tokens)


NO_LAUNCHES = fixed("launches", 0.0, "time = ideal", TIME)
"""Kernels start in no time."""


@dataclass(frozen=True, slots=True)
class RankTime:
    """One rank class in a pass: what each module reads and computes, and the cache."""

    ledger: Ledger
    reads: tuple[tuple[str, Term], ...]
    works: tuple[tuple[str, Term], ...]
    cache_read: Term
    attention: Term
    modules: tuple[tuple[str, Term], ...]
    """The longer of reading and computing, by module."""
    kv: Term
    """The longer of the cache's reading and attention's arithmetic."""
    launches: Term = NO_LAUNCHES

    @property
    def weight_read(self) -> Term:
        return _sum("weights read", [t for _, t in self.reads])

    @property
    def time(self) -> Term:
        parts = [*(t for _, t in self.modules), self.kv]
        return _sum("time of the rank", parts if self.launches is NO_LAUNCHES
                    else [*parts, self.launches])  # fmt: skip


def _sum(label: str, terms: list[Term]) -> Term:
    return total(label, terms) if terms else fixed(label, 0.0, "nothing of the kind here", TIME)


def rank_times(
    placement: Placement, books: tuple[Ledger, ...], carried: Carried
) -> tuple[RankTime, ...]:
    """Of every rank class. What the cache does not decide is the same in stages that are alike."""
    known: dict[tuple[int, int], _Products] = {}
    found = []
    for book in books:
        stage, device = placement.stages[book.rank.stage], book.rank.device
        key = (stage.like, id(device))
        if key not in known:
            known[key] = _products(placement, stage, book, carried)
        made = known[key]
        read = read_time.derive(
            "cache read", size=carried.cache_bytes[stage.number], bandwidth=bandwidth_of(device)
        )
        kv = greatest("attention over the cache", [read, made.attention])
        found.append(RankTime(book, made.reads, made.works, read, made.attention, made.modules, kv))
    return tuple(found)


def slowest(times: tuple[RankTime, ...]) -> dict[int, RankTime]:
    """The rank class that sets the pace, by stage number."""
    found: dict[int, tuple[float, RankTime]] = {}
    for each in times:
        stage, taken = each.ledger.rank.stage, float(each.time.value)
        if stage not in found or taken > found[stage][0]:
            found[stage] = (taken, each)
    return {stage: each for stage, (_, each) in found.items()}


@dataclass(frozen=True, slots=True)
class Setter:
    """What sets the pace of a stage: the time of its slowest rank class, and of its attention."""

    time: Term
    kv: Term


def setters(times: tuple[RankTime, ...]) -> dict[int, Setter]:
    """What sets the pace, by stage number; each load of an array may have another rank class."""
    found: dict[int, Setter] = {}
    for each in times:
        stage, own = each.ledger.rank.stage, Setter(each.time, each.kv)
        found[stage] = _slower(own, found[stage]) if stage in found else own
    return found


def _slower(own: Setter, before: Setter) -> Setter:
    slower: Any = own.time.value > before.time.value
    if not hasattr(slower, "any"):
        return own if slower else before

    def picked(one: Term, other: Term) -> Term:
        return Term(one.label, where(slower, one.value, other.value), TIME, inputs=(one, other))

    return Setter(picked(own.time, before.time), picked(own.kv, before.kv))


@dataclass(frozen=True, slots=True)
class _Products:
    """A pass's time on a rank but for the cache: as the fields of RankTime."""

    reads: tuple[tuple[str, Term], ...]
    works: tuple[tuple[str, Term], ...]
    attention: Term
    modules: tuple[tuple[str, Term], ...]


def attentions(slowest: Mapping[int, Setter | RankTime]) -> dict[int, Term]:
    """The time of attention on the slowest rank of each stage, by its number."""
    return {number: rank.kv for number, rank in slowest.items()}


def _products(placement: Placement, stage: Stage, book: Ledger, carried: Carried) -> _Products:
    device = book.rank.device
    bandwidth = bandwidth_of(device)
    reads = [
        (m, read_time.derive(f"{m.replace('_', ' ')} read", size=t, bandwidth=bandwidth))
        for m, t in _read(placement, stage, carried)
    ]
    works = _works(placement, stage, device, carried)
    attention = attention_time(placement, stage, device, carried)
    worked = dict(works)
    modules = [
        (m, greatest(m.replace("_", " "), [t, worked[m]]) if m in worked else t) for m, t in reads
    ]
    return _Products(tuple(reads), tuple(works), attention, tuple(modules))


def _read(placement: Placement, stage: Stage, carried: Carried) -> Iterator[tuple[str, Term]]:
    """Bytes that a pass reads of each module: of routed experts, those that tokens hit."""
    for module, size in read_terms(placement, stage).items():
        experts = routed(placement, stage) if module == "routed_experts" else None
        if experts is None:
            yield module, size
            continue
        tokens = carried.tokens
        if carried.parts > 1:
            tokens = Term("tokens of all parts", times(tokens.value, carried.parts),
                          units.TOKENS, inputs=(tokens,))  # fmt: skip
        yield module, experts.read(size, tokens)


# --- arithmetic --------------------------------------------------------------------------------


def _works(
    placement: Placement, stage: Stage, device: Device, carried: Carried
) -> list[tuple[str, Term]]:
    """Time of each module's products on a rank of the stage."""
    subject = placement.subject
    met: dict[tuple[str, str], tuple[Fraction, Format, Fraction]] = {}
    for shard in (*stage.shards, *stage.read):
        tensor = shard.tensor
        if tensor.module in ("embedding", "norms", "tower") or tensor.rows == 1:
            continue
        whole = Fraction(active(subject.model, tensor)) * shard.layers / tensor.layers
        form = format_of(subject, tensor)
        parts = _parts_met(placement, tensor.module, carried)
        tokens = tokens_met(placement, tensor.module) * parts
        key = (tensor.module, form.arithmetic)
        before = met[key][0] if key in met else Fraction(0)
        met[key] = (before + whole * shard.held, form, tokens)
    found: dict[str, list[Term]] = {}
    for (module, _), (parameters, form, tokens) in met.items():
        own = carried.sampled if module == "head" else carried.tokens
        many = Term(
            "tokens",
            times(own.value, tokens),
            inputs=(own,),
            note=f"{tokens} DP ranks' tokens" if tokens != 1 else "",
        )
        work = product_work.derive(
            f"work of {module.replace('_', ' ')}",
            parameters=of_model(subject.model, "parameters met on a rank", tidy(parameters)),
            tokens=many,
        )
        label = f"{module.replace('_', ' ')} computed"
        time = computed(device, label, work, peak_of(device, form))
        found.setdefault(module, []).append(time)
    return [(module, _sum(terms[0].label, terms)) for module, terms in found.items()]


def tokens_met(placement: Placement, module: str) -> Fraction:
    """How many DP ranks' tokens a rank of a module's mesh works on."""
    degrees = placement.degrees
    have = degrees.attention.dp
    if module in ("attention", "indexer", "state_mixer"):
        return Fraction(1)
    if module == "routed_experts":
        return Fraction(have)
    # Where there are more copies than DP ranks, each works on a part of a rank's tokens.
    return Fraction(have, spread(module, degrees, placement.subject.engine).dp)


def _parts_met(placement: Placement, module: str, carried: Carried) -> int:
    """Modules that lie over all ranks of a stage work on every part of a prompt."""
    own = module in ("attention", "indexer", "state_mixer", "head")
    return 1 if own or copied_over_parts(placement, module) else carried.parts


def copied_over_parts(placement: Placement, module: str) -> bool:
    """Whether the ranks that a prompt is cut over (pcp) have copies of a module: each works on its
    own part then."""
    degrees = placement.degrees
    if degrees.attention.pcp == 1 or module == "routed_experts":
        return False
    return spread(module, degrees, placement.subject.engine).own
