"""From values to places on paper: scales, round ticks, widths of words, labels moved apart.

Comes in: numbers and words. Goes out: coordinates. Widths are those of the reports' own text font,
so that a label is known to fit before it is drawn. Not its job: drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from unicodedata import east_asian_width

_ASCII_WIDTHS = (
    *(281, 288, 466, 633, 642, 982, 644, 300, 391, 391, 648, 662, 288, 648, 288, 360, 648, 648),
    *(648, 648, 648, 648, 648, 648, 648, 648, 288, 302, 662, 662, 662, 511, 966, 690, 654, 730),
    *(722, 601, 590, 746, 743, 269, 571, 672, 565, 903, 753, 765, 639, 765, 644, 642, 646, 744),
    *(690, 985, 682, 679, 629, 391, 360, 391, 471, 456, 323, 562, 612, 571, 612, 583, 370, 613),
    *(591, 242, 242, 549, 242, 876, 591, 600, 612, 612, 376, 528, 327, 591, 562, 818, 546, 562),
    *(552, 426, 333, 426, 662),
)
"""Advance widths of Inter Regular from the space to `~`, in thousandths of the size; of a sign that
is wider where figures stand in columns, the wider one: a report sets all drawings so."""

_BOLD = 1.035
"""Inter SemiBold is wider than Regular by this much."""


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    thousandths = 0
    for sign in text:
        code = ord(sign)
        if 32 <= code < 127:
            thousandths += _ASCII_WIDTHS[code - 32]
        else:
            thousandths += 1000 if east_asian_width(sign) in "WF" else 700
    return thousandths / 1000 * size * (_BOLD if bold else 1)


def fitted(text: str, most: float, size: float, *, bold: bool = False) -> str:
    """The text, cut with `…` where it is wider than `most`; nothing where not even that fits."""
    if text_width(text, size, bold=bold) <= most:
        return text
    kept = text
    while kept and text_width(kept.rstrip() + "…", size, bold=bold) > most:
        kept = kept[:-1]
    return kept.rstrip() + "…" if kept else ""


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` laid from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        if self.log:
            share = log10(value / self.low) / log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def linear_ticks(low: float, high: float, most: int = 6) -> tuple[float, ...]:
    """Round values from at or below `low` to at or above `high`, about `most` of them."""
    if not high > low:
        high = low + (abs(low) or 1.0)
    raw = (high - low) / max(1, most - 1)
    power = 10.0 ** floor(log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return tuple(_rounded(step * i) for i in range(first, last + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Round values within and around: 1, 2, 5 in each decade, or decades where there are many."""
    decades = range(floor(log10(low) + 1e-9), ceil(log10(high) - 1e-9) + 1)
    steps = (1, 2, 5) if log10(high / low) <= 3 else (1,)
    all_ticks = [_rounded(m * 10.0**d) for d in decades for m in steps]
    below = [t for t in all_ticks if t <= low * 1.0001]
    above = [t for t in all_ticks if t >= high * 0.9999]
    first, last = below[-1] if below else all_ticks[0], above[0] if above else all_ticks[-1]
    return tuple(t for t in all_ticks if first <= t <= last)


def next_round(value: float) -> float:
    """The least of 1, 2, 5, 10, 20, ... that is not below the value."""
    power = 10.0 ** floor(log10(value) + 1e-9)
    return _rounded(next(power * m for m in (1, 2, 5, 10) if power * m >= value * 0.9999))


def _rounded(value: float) -> float:
    return float(f"{value:.10g}")


def tick_text(value: float) -> str:
    """`0`, `0.5`, `250`, `20k`, `1.4M`: what stands at a tick."""
    size = abs(value)
    for factor, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= factor:
            return f"{value / factor:.4g}{suffix}"
    return f"{value:.4g}"


def spread(
    wanted: Sequence[float], sizes: Sequence[float], low: float, high: float
) -> tuple[float, ...]:
    """Centres nearest to `wanted`, in the order given, so that no two of `sizes` overlap.

    Neighbours that touch form a block, which sits at the mean of what its members want and never
    outside `low` to `high`. If all together are larger than the room, they start at `low`.
    """
    blocks: list[tuple[list[int], float]] = []  # members, start of the block
    for index in range(len(wanted)):
        members = [index]
        start = _block_start(members, wanted, sizes, low, high)
        while blocks and blocks[-1][1] + sum(sizes[i] for i in blocks[-1][0]) > start + 1e-9:
            members = [*blocks.pop()[0], *members]
            start = _block_start(members, wanted, sizes, low, high)
        blocks.append((members, start))
    places = [0.0] * len(wanted)
    for members, start in blocks:
        cursor = start
        for i in members:
            places[i] = cursor + sizes[i] / 2
            cursor += sizes[i]
    return tuple(places)


def _block_start(
    members: Sequence[int],
    wanted: Sequence[float],
    sizes: Sequence[float],
    low: float,
    high: float,
) -> float:
    offset, starts = 0.0, []
    for i in members:
        starts.append(wanted[i] - sizes[i] / 2 - offset)
        offset += sizes[i]
    mean = sum(starts) / len(starts)
    return max(low, min(mean, high - offset))
