"""Wrong claims: which known mistake gives the figure that was claimed.

Comes in: a failed `==` or `within`, and the estimate. Goes out: a sentence that names the wrong
derivation, or nothing. Candidates are run, not guessed: other layouts through `estimate`, mistakes
through the same formulas with the mistake in them. Mistakes from the worked cases: the capacity
floored once over pooled bytes, the latent without its rope key, GiB read for GB, the cache divided
by TP past its heads; from reports: the ranks of a replica added up. Division makes the figure that
the same devices have in more stages: both are said, the mistake first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kvdsl.costs import cache, memory
from kvdsl.costs.estimate import Estimate, memory_estimate
from kvdsl.placement.degrees import uniform
from kvdsl.spec.model import Mla
from kvdsl.units import BYTES_PER_TOKEN, Quantity, counted, shown

GIB_OVER_GB = Fraction(2**30, 10**9)
NEIGHBOURS = 8
"""Other cuts of the same devices into stages that are tried."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """`also` says whose figure it is, where a layout that nobody named has the same."""

    text: str
    value: Fraction
    also: str = ""


def explanation(
    name: str, claim: Quantity, tolerance: Fraction, found: Estimate,
    compared: Sequence[tuple[str, Estimate]],
) -> tuple[str, str]:  # fmt: skip
    """What the claimed figure fits, and what else has it; empty if nothing known."""
    target = Fraction(claim.value)
    for mistake in _mistakes(name, found, compared):
        if abs(mistake.value - target) <= tolerance * abs(target):
            return mistake.text, mistake.also
    return "", ""


def _mistakes(
    name: str, found: Estimate, compared: Sequence[tuple[str, Estimate]]
) -> Iterator[Mistake]:
    for title, other in compared:
        if name in other.values:
            text = other.subject.degrees.text()
            yield Mistake(f"it is the figure of layout {title} ({text})", _value(other, name))
    cuts, divided = list(_other_cuts(name, found)), list(_divided(name, found))
    if found.values["kv.copies"].value != 1:
        for each in divided:
            yield replace(each, also=next((c.text for c in cuts if c.value == each.value), ""))
    yield from (*cuts, *divided)
    yield from _pooled(name, found)
    yield from _summed(name, found)
    yield from _added(name, found)
    yield from _without_rope(name, found)
    yield from _gibibytes(name, found)


def _value(found: Estimate, name: str) -> Fraction:
    return Fraction(found.values[name].value)


def _token(found: Estimate) -> Fraction:
    """Bytes of a token on the device whose room ends first."""
    return Fraction(memory.fullest(found.ledgers).token.value)


def _other_cuts(name: str, found: Estimate) -> Iterator[Mistake]:
    """The same devices as fewer ranks and more stages: TP=16 claimed with TP=8 x PP=2's figure."""
    if not name.startswith(("kv.", "memory.")):
        return
    degrees, layers = found.subject.degrees, found.subject.model.layers
    if degrees.stage_layers is not None:
        even = memory_estimate(found.subject.under(degrees.with_stages(degrees.pp)))
        yield Mistake("it is the figure of even stages", _value(even, name))
    ways = [k for k in range(2, degrees.size + 1) if degrees.size % k == 0][:NEIGHBOURS]
    for k in ways:
        if degrees.pp * k > layers:
            continue
        other = uniform(degrees.size // k, degrees.pp * k, degrees.replicas)
        made = memory_estimate(found.subject.under(other))
        if name in made.values:
            yield Mistake(f"it is the figure of {other.text()}", _value(made, name))


def _divided(name: str, found: Estimate) -> Iterator[Mistake]:
    """One copy of the cache divided by all ranks, as if heads or the latent split for ever."""
    degrees = found.subject.degrees
    size = degrees.size * degrees.pp
    ranks = counted(size, "ranks")
    logical = _value(found, "kv.bytes_per_token")
    text = f"it divides the cache by all {ranks}, though each holds at least one whole head"
    if any(isinstance(p, Mla) for p in found.subject.model.parts.values()):
        text = f"it divides the latent by {ranks}, though every rank holds all of it"
    if name == "kv.bytes_per_token_per_gpu":
        yield Mistake(text, logical / size)
    if name == "kv.tokens" and logical and found.values["kv.copies"].value != 1:
        room = _value(found, "memory.kv")
        yield Mistake(text, Fraction(room * size // logical * degrees.replicas))


def _summed(name: str, found: Estimate) -> Iterator[Mistake]:
    """The sum over all holders, claimed of one."""
    if name == "kv.tokens_per_rank":
        holders = counted(found.subject.degrees.holders, "ranks")
        yield Mistake(f"it sums {holders}; this asks one", _value(found, "kv.tokens"))


def _added(name: str, found: Estimate) -> Iterator[Mistake]:
    """The devices of a replica added up, as if each held tokens of its own."""
    degrees = found.subject.degrees
    ranks = degrees.size * degrees.pp // degrees.attention.dp
    if ranks == 1:
        return
    every, each = counted(ranks, "ranks"), _value(found, "kv.bytes_per_token_per_gpu")
    if name == "memory.kv":
        yield Mistake(f"it adds up {every}; this asks one", _value(found, name) * ranks)
    if name in ("kv.tokens", "kv.sequences"):
        text = (
            f"it adds up {every}, and each holds a part of every token, "
            f"{shown(Quantity(each, BYTES_PER_TOKEN))}: tokens are the minimum over ranks, not "
            "their sum"
        )
        yield Mistake(text, _value(found, name) * ranks)


def _pooled(name: str, found: Estimate) -> Iterator[Mistake]:
    """One floor over the bytes of all holders."""
    if name not in ("kv.tokens", "kv.sequences"):
        return
    holders = found.subject.degrees.holders
    room, token = _value(found, "memory.kv"), _token(found)
    if not token or holders == 1:
        return
    pooled = holders * room / token
    if name == "kv.tokens":
        every = counted(holders, "holders")
        text = f"it floors once over all {every}; a request cannot straddle them"
        yield Mistake(text, Fraction(pooled // 1))
        return
    length = cache.held_tokens(found.subject)
    text = f"it pools the bytes of {holders} holders; a request lies in one of them"
    yield Mistake(text, Fraction(pooled // length))
    yield Mistake(text, Fraction(_value(found, "kv.tokens") // length))


def _without_rope(name: str, found: Estimate) -> Iterator[Mistake]:
    parts = [p for p in found.subject.model.parts.values() if isinstance(p, Mla)]
    if not parts or name not in ("kv.bytes_per_token", "kv.bytes_per_token_per_gpu"):
        return
    part = parts[0]
    share = Fraction(part.kv_rank, part.kv_rank + part.rope_dim)
    text = f"it leaves out the rope key, {part.rope_dim} of {part.kv_rank + part.rope_dim} values"
    yield Mistake(text, _value(found, name) * share)


def _gibibytes(name: str, found: Estimate) -> Iterator[Mistake]:
    """GB read as GiB, of the device's memory or of the room that is left."""
    if name in ("memory.kv", "memory.weights", "memory.reserve"):
        yield Mistake("it reads GB as GiB, 7.4 % apart", _value(found, name) * GIB_OVER_GB)
        yield Mistake("it reads GiB as GB, 7.4 % apart", _value(found, name) / GIB_OVER_GB)
    token = _token(found)
    if name != "kv.tokens" or not token:
        return
    holders = found.subject.degrees.holders
    room = _value(found, "memory.kv")
    yield Mistake(
        "it reads the room in GB as GiB, 7.4 % apart",
        Fraction(room * GIB_OVER_GB // token * holders),
    )
    usable = Fraction(memory.fullest(found.ledgers).usable.value)
    yield Mistake(
        "it takes the device's memory in GB for GiB, 7.4 % apart before weights are subtracted",
        Fraction((room + usable * (GIB_OVER_GB - 1)) // token * holders),
    )
