"""Levers: what may be done where the cache is too small or too dear, side by side.

Comes in: one pool of a deployment, formats, keep ratios, larger hardware. Goes out: rows, each
another layout, format or machine run through the same `estimate` as the plan, with what it cannot
mend. Not its job: choosing among them (search).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

from kvdsl.checks.findings import Fired, judged
from kvdsl.costs import cache
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.money import price_of_token
from kvdsl.costs.weights import stored
from kvdsl.formulas import Term
from kvdsl.placement.degrees import AttentionAxes, Degrees, ExpertAxes, WidthAxes, attention_dp
from kvdsl.placement.subject import Subject
from kvdsl.placement.topology import topology
from kvdsl.planning.subjects import inputs, recipe_title
from kvdsl.requirements import judge
from kvdsl.spec.deployment import Requirement
from kvdsl.spec.formats import Format, Recipe, RecipeLine
from kvdsl.spec.hardware import Node, Selection
from kvdsl.spec.model import Gqa, Mla, Moe
from kvdsl.units import Quantity, shown

WIDER = (2, 4, 8)
"""Times as many ranks that more TP is tried with."""


ROW = 4096
"""Values over which formats are compared, scales counted."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What is tried beside layouts: formats, shares of tokens kept, larger machines; `times` is
    the relief that is asked for."""

    formats: tuple[Format, ...] = ()
    keeps: tuple[Fraction, ...] = ()
    machines: tuple[Node, ...] = ()
    times: int = 2


@dataclass(frozen=True, slots=True)
class Lever:
    """`sort` is `base`, `devices` (more or other GPUs) or `cache` (fewer bytes of it)."""

    sort: str
    name: str
    change: str
    subject: Subject | None
    missing: str = ""
    """Why it cannot be planned here."""


@dataclass(frozen=True, slots=True)
class Row:
    """A lever with what it gives. `relief` is how many times less cache a GPU holds for the same
    requests; `cannot` what the lever does not mend, or makes worse; `failed` the requirements that
    it leaves open."""

    lever: Lever
    values: Mapping[str, Term]
    fits: bool
    relief: Fraction | None
    cannot: tuple[str, ...]
    failed: tuple[str, ...]
    measured: Term | None = None
    """Output as a run measured it, where a deployment of the file says so."""
    refused: str = ""
    """The rule that a check of it would stop at, and what it says."""

    @property
    def cost(self) -> Term | None:
        """USD a token: by the measured output, else as reckoned."""
        hourly = self.values.get("cost.per_hour")
        if self.measured is not None and hourly is not None:
            return price_of_token.derive("price of a token", price=hourly, throughput=self.measured)
        return self.values.get("cost.per_mtok")


@dataclass(frozen=True, slots=True)
class Key:
    """What two deployments must share for a run of one to speak for the other."""

    model: str
    device: str
    degrees: Degrees
    weights: str
    kv: str
    keep: Fraction
    tokens: int


def key_of(subject: Subject) -> Key:
    return Key(
        subject.model.title,
        subject.topology.device(0).title,
        replace(subject.degrees, name=""),
        recipe_title(subject.weights),
        recipe_title(subject.kv),
        subject.keep,
        cache.held_tokens(subject),
    )


def rows(
    base: Subject,
    tried: Tried,
    requirements: Sequence[Requirement],
    measured: Mapping[Key, Term],
) -> tuple[Row, ...]:
    """The base and every lever."""
    start = Lever("base", "as it is", base.degrees.text(), base)
    wrong, first = judged(base)
    if first is None:
        return (
            Row(start, {}, fits=False, relief=None, cannot=(), failed=(), refused=_said(wrong)),
        )
    own = frozenset(fired.rule.code for fired in wrong) | NO_ROOM
    found = [_row(start, first, first, requirements, measured)]
    for lever in levers(base, tried):
        made, refused = _judged(lever, own)
        row = _row(lever, first, made, requirements, measured)
        found.append(replace(row, refused=refused))
    return tuple(found)


NO_ROOM = frozenset({"KV141", "KV142"})
"""Weights that leave no room: a row says by how much itself."""


def _judged(lever: Lever, own: frozenset[str]) -> tuple[Estimate | None, str]:
    """The estimate of a lever, as a check would have it; or what the check says against it. Errors
    that the deployment has as it is are no fault of a lever."""
    if lever.subject is None:
        return None, ""
    try:
        wrong, found = judged(lever.subject)
    except ValueError:
        return None, "nothing joins its ranks"
    new = tuple(fired for fired in wrong if fired.rule.code not in own)
    return (None, _said(new)) if new else (found, "")


def _said(wrong: Sequence[Fired]) -> str:
    """`KV221: … does not divide over 16 ranks`."""
    first = wrong[0].diagnostic
    return f"{first.code}: {first.headline}"


# --- levers -------------------------------------------------------------------------------------


def levers(base: Subject, tried: Tried) -> Iterator[Lever]:
    d, times = base.degrees, tried.times
    ways = dict.fromkeys((*WIDER, times))
    for more in sorted(ways):
        a = replace(d.attention, tp=d.attention.tp * more)
        yield _laid(base, f"TP x {more}", _wider(d, a, more))
    yield _laid(base, f"PP x {times}", d.with_stages(d.pp * times))
    if d.size > 1 and d.attention.dp == 1:
        dp = attention_dp(d.size, d.size, d.pp, d.replicas)
        yield _laid(base, "DP attention", _with_experts(base, dp, d))
    own = _copied_ways(base)
    if own > 1:
        shared = replace(d.attention, tp=d.attention.tp // own, cp=d.attention.cp * own)
        yield _laid(base, "sequence over the TP ranks", replace(d, attention=shared, name=""))
    a = replace(d.attention, cp=d.attention.cp * times)
    yield _laid(base, f"context parallelism x {times}", _wider(d, a, times))
    yield _laid(base, f"replicas x {times}", replace(d, replicas=d.replicas * times, name=""))
    yield from _machines(base, tried.machines)
    for form in tried.formats:
        yield _kept(base, form, base.keep)
    for keep in tried.keeps:
        yield _kept(base, None, keep)
    narrow = min(tried.formats, key=lambda f: Fraction(stored(f, 1, ROW)), default=None)
    if narrow is not None:
        for keep in tried.keeps:
            yield _kept(base, narrow, keep)


def _copied_ways(base: Subject) -> int:
    """Ranks of attention's TP that hold the same cache: those could cut the sequence instead."""
    parts = base.model.parts.values()
    heads = [p.kv_heads for p in parts if isinstance(p, Gqa)]
    heads += [1 for p in parts if isinstance(p, Mla)]
    tp = base.degrees.attention.tp
    fewest = min(heads, default=tp)
    return tp // fewest if tp % fewest == 0 else 1


def _with_experts(base: Subject, made: Degrees, before: Degrees) -> Degrees:
    counts = [p.experts for p in base.model.parts.values() if isinstance(p, Moe)]
    if not counts:  # no module of the model has experts, whatever axes they would have
        return replace(made, experts=ExpertAxes(tp=made.size))
    if all(count % made.size == 0 for count in counts):
        return made
    return replace(made, experts=before.experts)


def _wider(d: Degrees, attention: AttentionAxes, times: int) -> Degrees:
    """Each module over so many times as many ranks, attention as given; replicas make room where
    they can."""

    def width(axes: WidthAxes) -> WidthAxes:
        return replace(axes, tp=axes.tp * times)

    e = d.experts
    experts = replace(e, ep=e.ep * times) if e.ep > 1 else ExpertAxes(e.ep, e.tp * times)
    return replace(
        d,
        size=d.size * times,
        attention=attention,
        ffn=width(d.ffn),
        shared=width(d.shared),
        vocab=width(d.vocab),
        experts=experts,
        name="",
    )


def _laid(base: Subject, name: str, degrees: Degrees) -> Lever:
    here = base.topology.devices
    missing = ""
    if degrees.devices > here:
        missing = f"needs {degrees.devices:,} devices, and {here:,} are here: widen `on`"
    subject = None if missing else base.under(degrees)
    return Lever("devices", name, degrees.text(), subject, missing)


def _machines(base: Subject, machines: Sequence[Node]) -> Iterator[Lever]:
    """The same layout on nodes of larger devices, as many nodes as the layout needs."""
    for node in machines:
        title = node.devices[0].of.title.rpartition(".")[2]
        there = topology(Selection(count=1, of=node))
        missing = ""
        if base.degrees.devices > there.devices:
            missing = f"needs {base.degrees.devices:,} devices, and such a node has {there.devices}"
        # The deployment's price is of its own devices; the catalog's holds for others.
        unpriced = base.deployment.model_copy(update={"price": None})
        subject = None if missing else replace(base.on(there), deployment=unpriced)
        yield Lever("devices", f"larger device: {title}", f"on = {node.title}", subject, missing)


def _kept(base: Subject, form: Format | None, keep: Fraction) -> Lever:
    said, names = [], []
    kv = base.kv
    if form is not None:
        kv = Recipe(lines=(RecipeLine(format=form),))
        said.append(f"kv = {form.title}")
        names.append(f"cache in {form.title.rpartition('.')[2]}")
    if keep != base.keep or form is None:
        said.append(f"keep = {float(100 * keep):g} %")
        names.append(f"{float(100 * keep):g} % of tokens kept")
    subject = replace(base, kv=kv, keep=keep)
    return Lever("cache", ", ".join(names), "; ".join(said), subject)


# --- what a lever gives ---------------------------------------------------------------------------


def _row(
    lever: Lever,
    base: Estimate,
    found: Estimate | None,
    requirements: Sequence[Requirement],
    measured: Mapping[Key, Term],
) -> Row:
    if found is None:
        return Row(lever, {}, fits=False, relief=None, cannot=(), failed=())
    values = {**inputs(found.subject), **found.values}
    judged = [judge(r, values) for r in requirements] if found.fits else []
    failed = tuple(one.result.text for one in judged if one.result.status == "fails")
    relief = _pressure(base) / _pressure(found) if _pressure(found) else None
    cannot = () if lever.sort == "base" else tuple(_cannot(lever, base, found, relief))
    own = measured.get(key_of(found.subject))
    return Row(lever, values, found.fits, relief, cannot, failed, own)


def _pressure(found: Estimate) -> Fraction:
    """Cache bytes on the fullest GPU for each request in flight."""
    placement = found.placement
    length = cache.held_tokens(placement.subject)
    each = max(cache.request_on_rank(stage, length) for stage in placement.stages)
    return each / placement.degrees.holders


def _cannot(
    lever: Lever, base: Estimate, found: Estimate, relief: Fraction | None
) -> Iterator[str]:
    """What a lever leaves as it is, or makes worse."""
    if not found.fits:
        yield _no_room(lever, found)
        return
    if lever.sort == "devices":
        ways = Fraction(found.placement.used, base.placement.used)
        if relief is not None and ways > 1 and relief < ways:
            yield f"{ways} times the GPUs and {float(relief):.3g} times the relief: copies are kept"
        d = found.subject.degrees
        if d.replicas > base.subject.degrees.replicas:
            yield "each copy holds all weights again, and no longer request fits than before"
    elif found.load is not None and base.load is not None and base.fits:
        if not base.crowded:
            yield "no request waits for the cache as it is: room is not what limits"
        yield "weights stay as they are"
        yield from _converted(found)
    yield from _slower(base, found)


def _converted(found: Estimate) -> Iterator[str]:
    """Formats that a device does not compute in."""
    device = found.subject.topology.device(0)
    forms = {c.format.title: c.format for p in found.placement.parts for c in p.components}
    for title, form in forms.items():
        narrow = (form.bits or 0) < (found.subject.activations.bits or 0)
        if device.compute and form.arithmetic not in device.compute and narrow:
            word, name = title.rpartition(".")[2], device.title.rpartition(".")[2]
            yield f"{name} has no {form.arithmetic} arithmetic: kernels convert {word}"


def _no_room(lever: Lever, found: Estimate) -> str:
    book = min(found.ledgers, key=lambda b: Fraction(b.room.value))
    over = shown(Quantity(-Fraction(book.room.value), book.room.dimension))
    if lever.sort == "cache":
        return f"weights exceed a GPU by {over}, and no cache is small enough for that"
    if found.subject.degrees.holders > 1:
        return f"weights exceed a GPU by {over} with any number of copies"
    return f"weights still exceed a GPU by {over}"


def _slower(base: Estimate, found: Estimate) -> Iterator[str]:
    if base.decode is None or found.decode is None or not base.fits:
        return
    before, after = base.number("decode.tpot"), found.number("decode.tpot")
    if after > before * 1.005:
        yield f"a token takes {100 * (after / before - 1):.0f} % more time"


# --- at the same relief ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Match:
    """At one relief: the cheapest lever of either sort, and how many times dearer more GPUs are."""

    relief: Fraction
    devices: Row
    cache: Row
    ratio: float


def matches(found: Sequence[Row]) -> tuple[Match, ...]:
    """More TP against a smaller cache at each relief that both reach. Where one of two costs is
    measured and the other is not, or one is nothing or without end, nothing is compared."""
    made = []
    reliefs = sorted({r.relief for r in found if r.relief is not None and r.relief > 1})
    for relief in reliefs:
        here = [r for r in found if r.relief == relief and r.fits and 0 < _dollars(r) < inf]
        if any(r.measured is not None for r in here):
            here = [r for r in here if r.measured is not None]
        wide = [r for r in here if r.lever.name.startswith("TP x")]
        small = [r for r in here if r.lever.sort == "cache"]
        if wide and small:
            dear, cheap = (min(rows_, key=_dollars) for rows_ in (wide, small))
            made.append(Match(relief, dear, cheap, _dollars(dear) / _dollars(cheap)))
    return tuple(made)


def _dollars(row: Row) -> float:
    return float(row.cost.value) if row.cost is not None else inf
