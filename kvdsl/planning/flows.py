"""Flows: where a request's cache goes, for the plan: pools, link, tiers, and what fetching costs.

Comes in: what the pools of a deployment make together. Goes out: a `Flow` and charts; None where
there is one pool with nothing below it. Not its job: any figure (costs) or a picture (render).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvdsl.costs.balance import busy_decode, busy_prefill
from kvdsl.costs.estimate import Estimate
from kvdsl.costs.reuse import Kept, Reuse, recomputing
from kvdsl.costs.service import Service
from kvdsl.costs.tiers import request_bytes
from kvdsl.costs.transfer import Handover
from kvdsl.formulas import Term
from kvdsl.placement.cache import CachePart
from kvdsl.plan import Chart, Flow, FlowPool, MovedRow, Segment, Series, TierView, TransferView
from kvdsl.units import NONE, TOKENS, Quantity, grouped, shown

LENGTHS = tuple(256 * 2**n for n in range(12))
"""Prefixes of the chart, as far as the model's context goes."""


UNSAID = (
    "Nothing says how long a prefix is asked again (`reuse` of the workload): all that is found is "
    "taken from the nearest tier."
)


def flow(made: Service, hardware: Mapping[str, str]) -> Flow | None:
    """`hardware` says in words what each pool stands on."""
    if made.handover is None and not made.reuse:
        return None
    tiers = tuple(_tier(name, kept) for name, each in _named(made) for kept in each.kept)
    working = _working(made.reuse[0]) if made.reuse else ""
    pools = tuple(
        _pool(name, pool, hardware.get(name, ""), made) for name, pool in made.pools.items()
    )
    moved = None if made.handover is None else _transfer(made, made.handover)
    return Flow(pools, moved, tiers, working, _caption(moved, tiers))


def _named(made: Service) -> Iterator[tuple[str, Reuse]]:
    names = {id(pool): name for name, pool in made.pools.items()}
    for each in made.reuse:
        yield names[id(each.pool)], each


def _quantity(term: Term | None) -> Quantity | None:
    return None if term is None else term.quantity


def _title(title: str) -> str:
    return title.rpartition(".")[2]


def _pool(name: str, pool: Estimate, hardware: str, made: Service) -> FlowPool:
    subject = pool.subject
    role = subject.pool.role
    busy = None
    if made.balance is not None and made.arrivals is not None:
        term = (busy_prefill if role == "prefill" else busy_decode)(pool, made.arrivals)
        busy = None if term is None else Quantity(float(term.value), NONE)
    return FlowPool(
        name, role, hardware, subject.degrees.text(),
        pool.values["gpus"].quantity, pool.values["kv.tokens"].quantity, busy,
    )  # fmt: skip


def _forms(part: CachePart) -> str:
    return ", ".join(dict.fromkeys(_title(c.format.title) for c in part.components))


def _transfer(made: Service, moved: Handover) -> TransferView:
    names = {id(pool): name for name, pool in made.pools.items()}
    rows = tuple(
        MovedRow(m.part.name, _forms(m.part), m.kept.quantity, m.one.quantity,
                 Quantity(m.copies, NONE), m.size.quantity)
        for m in moved.parts
    )  # fmt: skip
    named = (
        ("setup", "other", moved.setup),
        ("encoding", "compute", moved.encode),
        ("wire", "collective", moved.wire),
        ("decoding", "compute", moved.decode),
    )
    steps = tuple(Segment(word, group, t.quantity) for word, group, t in named if t is not None)
    return TransferView(
        names[id(moved.sender)], names[id(moved.receiver)], _title(moved.transfer.over.title),
        moved.lanes.quantity, moved.algorithm, moved.basis, moved.transfer.overlap,
        moved.transfer.pipelined, rows, steps, moved.whole.quantity, moved.visible.quantity,
        _quantity(made.needed), moved.present.quantity,
    )  # fmt: skip


def _tier(pool: str, kept: Kept) -> TierView:
    held, use = kept.tier, kept.tier.use
    forms = dict.fromkeys(form for part in held.parts for form in _forms(part).split(", "))
    count = int(held.count.value)
    scope = use.capacity.scope
    place = f"{grouped(count)} {scope}{'s' if count != 1 else ''}"
    link = use.over or use.tier.link
    path = "" if link is None else f"over {_title(link.title)}"
    if use.through is not None:
        path = f"through {_title(use.through.title)} {path}".strip()
    if use.in_place:
        path = f"read in place {path}".strip()
    return TierView(
        use.name, _title(use.tier.title), pool, place, path, ", ".join(forms), use.tier.shared,
        held.capacity.quantity, held.tokens.quantity, kept.share.quantity, _quantity(kept.load),
        _quantity(kept.fetch), _quantity(kept.recompute), _quantity(kept.break_even),
        _quantity(held.read), _quantity(kept.asked), _quantity(held.write), _quantity(kept.stored),
    )  # fmt: skip


def _working(each: Reuse) -> str:
    if each.working is None:
        return UNSAID if each.found.value else ""
    near = f"{100 * float(each.near_share.value):.3g} % of them fit on the devices"
    gone = f"; {100 * each.missing:.3g} % fit nowhere" if each.missing > 0 else ""
    return f"Prefixes take {shown(each.working.quantity)} while they are asked again: {near}{gone}."


def _caption(moved: TransferView | None, tiers: tuple[TierView, ...]) -> str:
    said = []
    if moved is not None:
        said.append(
            f"A request hands over its cache in {shown(moved.whole)}, of which "
            f"{shown(moved.visible)} are seen."
        )
    if tiers:
        names = ", ".join(dict.fromkeys(tier.name for tier in tiers))
        said.append(f"Below the devices, nearest first: {names}.")
    return " ".join(said)


# --- fetch or compute ----------------------------------------------------------------------------


def fetch_charts(made: Service | None) -> tuple[Chart, ...]:
    """Of each pool that looks prefixes up: the time to fetch one against computing it."""
    if made is None:
        return ()
    return tuple(chart for each in made.reuse if (chart := _chart(made, each)) is not None)


def _chart(made: Service, each: Reuse) -> Chart | None:
    pool = each.pool
    if pool.prefill is None or all(one.tier.use.in_place or one.load is None for one in each.kept):
        return None
    longest = pool.subject.model.max_context or LENGTHS[-1]
    lengths = [length for length in LENGTHS if length + int(each.new.value) <= longest]
    computed = recomputing(pool)
    service = pool.prefill.service
    lines = []
    for one in each.kept:
        points = []
        for length in lengths:
            asked = Term("prefix", length, TOKENS)
            load = one.tier.load(request_bytes(one.tier, asked))
            if load is not None and not one.tier.use.in_place:
                points.append((float(length), 1e3 * float(one.tier.visible(load, service).value)))
        if points:
            lines.append(Series(f"fetched from {one.tier.name}", tuple(points)))
    anew = [(float(n), 1e3 * float(term.value)) for n in lengths if (term := computed(n))]
    positive = tuple(point for point in anew if point[1] > 0)
    if not lines or not positive:
        return None
    found = int(each.found.value)
    marks = ((float(found), f"a prompt finds {grouped(found)} tok"),) if found else ()
    several = len(made.reuse) > 1
    pool_name = pool.subject.pool.name
    return Chart(
        "tier.fetch" + (f".{pool_name}" if several else ""),
        "Fetching a prefix against computing it" + (f", pool {pool_name}" if several else ""),
        "Milliseconds to bring a prefix from each tier and to compute it, over its length.",
        "length of the prefix", "tok", "time", "ms",
        (Series("computed anew", positive, main=True), *lines), marks, log_y=True,
    )  # fmt: skip
