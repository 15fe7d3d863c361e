"""Where a request's cache goes: pools side by side, the link between them, the tiers below.

Comes in: the flow of a plan. Goes out: a drawing. Pools that hand over stand on the left, those
that take on the right; tiers are rows across, nearest first, each with the part of the prefixes
that it keeps as a bar. What is asked beyond what is there is drawn as an alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvdsl.plan import Flow, FlowPool, TierView, TransferView
from kvdsl.render.svg.boxes import WIDTH
from kvdsl.render.svg.colours import HUES, painted
from kvdsl.render.svg.elements import Frame, Lettering, drawing, lettered, line, tag
from kvdsl.render.svg.scales import text_width
from kvdsl.units import Quantity, counted, shown

_POOL, _GAP = 340, 16
_BOX = 92
_TIER, _STEP = 62, 76
_BAR = 150
_SOFT = Lettering(11, ink="ink-soft")


def flow(name: str, title: str, found: Flow) -> str:
    left = [pool for pool in found.pools if pool.role != "decode"]
    right = [pool for pool in found.pools if pool.role == "decode"]
    height = max(len(left), len(right)) * (_BOX + _GAP) - _GAP
    parts: list[str] = []
    for side, x in ((left, 0.0), (right, float(WIDTH - _POOL))):
        top = (height - len(side) * (_BOX + _GAP) + _GAP) / 2
        for number, pool in enumerate(side):
            parts += _pool(pool, x, top + number * (_BOX + _GAP))
    if found.transfer is not None and right:
        parts += _link(found.transfer, height / 2)
    bottom = float(height)
    if found.tiers:
        parts += _tiers(found.tiers, height, several=len({t.pool for t in found.tiers}) > 1)
        bottom = height + 14 + len(found.tiers) * _STEP
    frame = Frame(name, title, _told(found))
    return drawing(frame, WIDTH, bottom + 2, parts)


def _told(found: Flow) -> str:
    pools = "; ".join(f"{p.name or 'one pool'} on {p.hardware}: {p.layout}" for p in found.pools)
    tiers = "; ".join(f"{t.name} ({t.tier}) holds {shown(t.tokens)}" for t in found.tiers)
    return " ".join(filter(None, (f"{pools}.", found.caption, tiers)))


def _pool(pool: FlowPool, x: float, y: float) -> Iterator[str]:
    colour = "hue-0" if pool.role != "decode" else "hue-1"
    box = {"x": x + 0.5, "y": y + 0.5, "width": _POOL - 1.0, "height": float(_BOX)}
    yield tag("rect", **box, rx=6, **painted("panel", "frame"))
    yield tag("rect", x=x + 0.5, y=y + 0.5, width=6, height=_BOX, rx=3, **painted(colour, colour))
    most = _POOL - 32
    name = pool.name or "prefill and decode"
    role = "" if pool.name in ("", pool.role) else f", {pool.role}"
    devices = counted(pool.devices.value, "devices")
    many = text_width(devices, 11)
    yield lettered(x + 18, y + 22, name + role, Lettering(13, bold=True, most=most - many - 12))
    yield lettered(x + _POOL - 14, y + 22, devices, Lettering(11, anchor="end", ink="ink-soft"))
    lines = [
        pool.hardware,
        pool.layout,
        f"room for {shown(pool.tokens)} of cache",
    ]
    if pool.busy is not None:
        lines[2] += f", {100 * float(pool.busy.value):.3g} % busy"
    for number, text in enumerate(lines):
        style = Lettering(11, ink="ink-soft", most=most)
        yield lettered(x + 18, y + 41 + 17 * number, text, style)


def _link(moved: TransferView, y: float) -> Iterator[str]:
    start, end = _POOL + 4.0, WIDTH - _POOL - 10.0
    beyond = moved.needed is not None and moved.needed.value > moved.present.value
    ink = "alarm" if beyond else "wire"
    yield line(start, y, end, y, ink, stroke_width=3)
    head = f"M{end - 4:g} {y - 7:g}L{end + 8:g} {y:g}L{end - 4:g} {y + 7:g}Z"
    yield tag("path", d=head, **painted(ink, ink))
    middle, most = WIDTH / 2, end - start
    size = _sum([row.size for row in moved.rows])
    above = Lettering(12, bold=True, anchor="middle", most=most)
    below = Lettering(11, ink="ink-soft", anchor="middle", most=most)
    lanes = f"{shown(moved.lanes)} x {moved.link}"
    yield lettered(middle, y - 25, f"{size} a request", above)
    yield lettered(middle, y - 9, f"over {lanes}", below)
    seen = f"{shown(moved.whole)}, {shown(moved.visible)} seen"
    how = "layer by layer" if moved.overlap == "layerwise" else "after the prefill"
    yield lettered(middle, y + 20, f"{how}: {seen}", below)
    if moved.needed is not None:
        asked = f"{shown(moved.needed)} asked of {shown(moved.present)}"
        style = Lettering(11, bold=beyond, ink=ink if beyond else "ink-soft", anchor="middle",
                          most=most)  # fmt: skip
        yield lettered(middle, y + 36, asked, style)


def _sum(sizes: Sequence[Quantity]) -> str:
    if not sizes:
        return "nothing"
    return shown(Quantity(sum(size.value for size in sizes), sizes[0].dimension))


def _tiers(tiers: Sequence[TierView], top: float, *, several: bool) -> Iterator[str]:
    spine = 26.0
    last = top + 14 + (len(tiers) - 1) * _STEP + _TIER / 2
    yield line(spine, top, spine, last, "wire", stroke_width=2)
    for number, tier in enumerate(tiers):
        y = top + 14 + number * _STEP
        yield line(spine, y + _TIER / 2, spine + 18, y + _TIER / 2, "wire", stroke_width=2)
        yield from _tier(tier, spine + 18, y, number, several=several)


def _tier(tier: TierView, x: float, y: float, number: int, *, several: bool) -> Iterator[str]:
    wide = WIDTH - x - 1
    colour = f"hue-{(number + 2) % HUES}"
    yield tag("rect", x=x, y=y, width=wide, height=_TIER, rx=6, **painted("panel", "frame"))
    yield tag("rect", x=x, y=y, width=6, height=_TIER, rx=3, **painted(colour, colour))
    most = wide - _BAR - 50
    under = f" of {tier.pool}" if several and tier.pool else ""
    shared = ", shared by all" if tier.shared else ""
    head = f"{tier.name}{under}: {shown(tier.capacity)} of {tier.tier} on {tier.place}{shared}"
    yield lettered(x + 18, y + 21, head, Lettering(12.5, bold=True, most=most))
    yield lettered(x + 18, y + 38, _holds(tier), Lettering(11, ink="ink-soft", most=most))
    beyond = any(
        asked is not None and has is not None and asked.value > has.value
        for asked, has in ((tier.reads, tier.read), (tier.writes, tier.written))
    )
    style = Lettering(11, bold=beyond, ink="alarm" if beyond else "ink-soft", most=most)
    yield lettered(x + 18, y + 54, _rates(tier), style)
    yield from _share(tier, x + wide - _BAR - 14, y, colour)


def _holds(tier: TierView) -> str:
    said = f"holds {shown(tier.tokens)} in {tier.form}"
    if tier.path:
        said += f", {tier.path}"
    if tier.fetch is not None and tier.recompute is not None:
        said += f"; what a prompt finds: {shown(tier.fetch)}, computed {shown(tier.recompute)}"
    elif tier.load is not None:
        said += f"; a request: {shown(tier.load)}"
    return said


def _rates(tier: TierView) -> str:
    said = []
    for word, asked, has in (
        ("read", tier.reads, tier.read),
        ("written", tier.writes, tier.written),
    ):
        if has is not None:
            beside = f"{shown(asked)} of " if asked is not None else "at most "
            said.append(f"{word} {beside}{shown(has)}")
    return ", ".join(said) or "nothing says how fast"


def _share(tier: TierView, x: float, y: float, colour: str) -> Iterator[str]:
    part = min(1.0, max(0.0, float(tier.share.value)))
    yield lettered(x, y + 23, f"{100 * part:.3g} % of what is found", _SOFT)
    yield tag("rect", x=x, y=y + 32, width=_BAR, height=12, rx=2, **painted("paper", "frame"))
    if part:
        yield tag("rect", x=x, y=y + 32, width=_BAR * part, height=12, rx=2,
                  **painted(colour, "frame"))  # fmt: skip
