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
from kvdsl.arithmetic import floored, over, real, times, where
from kvdsl.costs import cache
from kvdsl.costs.experts import routed
from kvdsl.costs.memory import Ledger, leaf
from kvdsl.costs.origins import fixed, of_layout, of_model
from kvdsl.costs.weights import format_of, read_terms
from kvdsl.formulas import Term, assumed, formula, greatest, total
from kvdsl.placement.placement import Placement, Stage
from kvdsl.placement.shares import spread
from kvdsl.placement.tensors import active
from kvdsl.spec.formats import Format
from kvdsl.spec.hardware import Device
from kvdsl.spec.model import Gqa, Mla
from kvdsl.units import BYTES, NONE, TIME, WORK, WORK_RATE, counted, tidy

Number = int | Fraction | float
_ROOFLINE = "Williams et al., Roofline, CACM 52(4), 2009"


@formula("bytes read / bandwidth", TIME, _ROOFLINE)
def read_time(size: Number, bandwidth: Number) -> float:
    return real(size) / real(bandwidth)


@formula("work / peak", TIME, _ROOFLINE)
def compute_time(work: Number, peak: Number) -> float:
    return real(work) / real(peak)


@formula(
    "2 x parameters that the tokens meet on a rank x tokens", WORK, "a multiply and an add each"
)
def product_work(parameters: Number, tokens: Number) -> Number:
    return times(2, parameters, tokens)


@formula(
    "layers x 2 x values a score and its use x heads on a rank x pairs of query and key",
    WORK,
    "Dao et al., FlashAttention, arXiv 2205.14135, counts alike",
)
def attention_work(layers: int, values: int, heads: Number, pairs: Number) -> Number:
    return times(layers, 2, values, heads, pairs)


@dataclass(frozen=True, slots=True)
class Carried:
    """What a pass carries on a DP rank: `tokens` new tokens, those of them that the head scores
    (`sampled`: all of a step, the last of a prompt), the cache bytes to read by stage number (of
    the busiest rank), and pairs of query and key that attention scores."""

    what: str
    tokens: Term
    sampled: Term
    cache_bytes: tuple[Term, ...]
    pairs: Term
    expanded: bool
    """MLA keys and values in full, as in prefill, or absorbed into the latent, as in decode."""
    parts: int = 1
    """Ranks that a prompt's tokens are cut over, each with its part in `tokens`."""


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


def bandwidth_of(device: Device) -> Term:
    return leaf(device, "bandwidth", f"memory bandwidth of {device.title}",
                device.bandwidth, units.BYTE_RATE)  # fmt: skip


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
    attention = _attention_time(placement, stage, device, carried)
    computed = dict(works)
    modules = [
        (m, greatest(m.replace("_", " "), [t, computed[m]]) if m in computed else t)
        for m, t in reads
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
            tokens = Term("tokens of all parts", tidy(Fraction(tokens.value) * carried.parts),
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
        peak = peak_of(device, form)
        label = f"{module.replace('_', ' ')} computed"
        found.setdefault(module, []).append(
            compute_time.derive(label, work=work, peak=peak)
            if peak is not None
            else _unknown(device, label)
        )
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


def peak_of(device: Device, form: Format) -> Term | None:
    """The peak of a format's arithmetic; where the device has none, of bf16 or its widest row."""
    word = form.arithmetic
    if word in device.compute:
        value = device.compute[word]
        return _peak_term(device, word, value, "")
    for other in ("bf16", "fp16", "fp32"):
        if other in device.compute:
            note = f"{device.title} has no {word} arithmetic, so {other} stands for it"
            return _peak_term(device, other, device.compute[other], note)
    return None


def _unknown(device: Device, label: str) -> Term:
    note = f"{device.title} names no peaks: arithmetic is taken to cost no time"
    return assumed(label, 0.0, TIME, note)


def _peak_term(device: Device, word: str, value: int | Fraction, note: str) -> Term:
    term = leaf(device, "compute", f"{word} peak of {device.title}", value, WORK_RATE)
    if note:
        return assumed(term.label, value, WORK_RATE, note)
    return term


def _attention_time(placement: Placement, stage: Stage, device: Device, carried: Carried) -> Term:
    subject, attention = placement.subject, placement.degrees.attention
    peak = peak_of(device, subject.activations)
    if peak is None:
        return _unknown(device, "attention computed")
    terms = []
    for share in stage.cache:
        part = subject.model.parts.get(share.part.name)
        if not isinstance(part, Gqa | Mla):
            continue
        if isinstance(part, Gqa):
            values = part.head_dim + part.value_width
        elif carried.expanded:
            values = part.nope_dim + part.rope_dim + part.value_dim
        else:
            values = 2 * part.kv_rank + part.rope_dim
        heads = max(Fraction(1), Fraction(part.query_heads, attention.tp))
        work = attention_work.derive(
            f"scores of {share.part.name}",
            layers=of_model(subject.model, "layers", share.layers),
            values=of_model(subject.model, "values a score and its use", values),
            heads=of_layout(subject, "query heads on a rank", tidy(heads)),
            pairs=carried.pairs,
        )
        terms.append(compute_time.derive("attention computed", work=work, peak=peak))
    return _sum("attention computed", terms)


# --- what a decode step and a prefill carry ------------------------------------------------------


@formula("requests x bytes of one at its length", BYTES)
def cache_bytes(requests: Number, each: Number) -> Number:
    return times(requests, each)


@formula(
    "whole rounds x run + the lesser of run and the rest",
    units.TOKENS,
    "runs of tokens go round the cp ranks",
)
def tokens_on_fullest(tokens: Number, ranks: int, run: int) -> Number:
    rounds = floored(tokens, ranks * run)
    rest = tokens - rounds * (ranks * run)
    return rounds * run + where(rest < run, rest, run)


def step_bytes(placement: Placement, requests: Term, context: Term) -> tuple[Term, ...]:
    """Cache bytes that a decode step reads on the fullest rank of each stage."""
    a = placement.degrees.attention
    found = []
    kept = tokens_on_fullest.derive(
        "tokens on the fullest rank",
        tokens=context,
        ranks=of_layout(placement.subject, "ranks of the sequence", a.cp),
        run=of_layout(placement.subject, "run of tokens", a.interleave),
    )
    # request_on_rank gives the mean over cp ranks; the fullest holds its run of tokens.
    sizes = cache.requests_on_ranks(placement, times(kept.value, a.cp))
    tokens = cache.stage_token_terms(placement)
    for stage in placement.stages:
        each = Term(
            f"cache of a request on a rank of stage {stage.number}",
            sizes[stage.number],
            BYTES,
            inputs=(kept, tokens[stage.number]),
            note="tokens x bytes a token on a rank",
        )
        found.append(
            cache_bytes.derive(f"cache read in stage {stage.number}", requests=requests, each=each)
        )
    return tuple(found)


def decode_carried(placement: Placement, requests: Term, context: Term) -> Carried:
    a = placement.degrees.attention
    pairs = Term(
        "pairs of query and key on a rank",
        over(times(requests.value, context.value, placement.subject.keep), a.cp),
        NONE,
        inputs=(requests, context),
        note="each request's new token with each cached one",
    )
    tokens = Term("tokens of a DP rank", requests.value, inputs=(requests,), note="one a request")
    return Carried(
        "decode step",
        tokens,
        tokens,
        step_bytes(placement, requests, context),
        pairs,
        expanded=False,
    )


@formula("new x found + new (new + 1) / 2", NONE, "causal pairs left after a prefix hit")
def causal_pairs(new: Number, found: Number) -> Number:
    return times(new, found) + over(times(new, new + 1), 2)


def prefill_carried(placement: Placement, new: Term, found: Term) -> Carried:
    """One prompt on each DP rank: `new` tokens to compute, `found` in a cache already."""
    a = placement.degrees.attention
    ways = a.cp * a.pcp
    pairs = causal_pairs.derive("pairs of query and key", new=new, found=found)
    on_rank = Term("pairs on a rank", over(pairs.value, ways), NONE, inputs=(pairs,),
                   note=f"over {counted(ways, 'ranks')} of the sequence")  # fmt: skip
    tokens = Term("tokens of a DP rank", over(new.value, a.pcp), inputs=(new,))
    one = fixed("requests", 1, "one prompt on each DP rank", units.REQUESTS)
    last = fixed("tokens that the head scores", 1, "the last of a prompt")
    read = step_bytes(placement, one, found)
    return Carried("prefill", tokens, last, read, on_rank, expanded=True, parts=a.pcp)
