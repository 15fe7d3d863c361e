"""Scores of predictions: error tables by slice, the band's share, and layouts put in order.

Comes in: predictions. Goes out: lines of text. An error is |predicted / measured - 1| in percent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from benchmarks.serving_predict import Prediction

BANDS = ((1, 4), (5, 16), (17, 64), (65, 256), (257, 1_000_000))
"""Requests in flight, both ends included."""

Key = Callable[[Prediction], str]


def _crowd(one: Prediction) -> str:
    count = one.row.concurrency
    low, high = next(b for b in BANDS if b[0] <= count <= b[1])
    return f"concurrency {low}-{high}" if high < BANDS[-1][1] else f"concurrency over {low - 1}"


SLICES: tuple[Key, ...] = (
    lambda _: "all",
    lambda p: {"agg": "aggregated", "disagg": "disaggregated"}.get(p.row.mode, p.row.mode),
    lambda p: f"hardware {p.row.system}",
    lambda p: f"model {p.row.shape}",
    lambda p: f"engine {p.row.engine}",
    lambda p: f"precision {p.row.precision}",
    _crowd,
    lambda p: f"lengths {p.row.isl}/{p.row.osl}",
)

Pair = tuple[float, float]
"""Predicted and measured."""


def _pairs(what: str, one: Prediction) -> Pair | None:
    row = one.row
    if what == "TPOT":
        return one.tpot, row.tpot
    if one.ttft is None or row.ttft <= 0:
        return None
    if what == "TTFT":
        return one.ttft, row.ttft
    return one.rate(one.ttft, one.tpot), one.rate(row.ttft, row.tpot)


def lines(found: Sequence[Prediction]) -> Iterator[str]:
    """`TPOT all: median 6.9 mean 9.2 p90 19.6` for each quantity and slice, then the rest."""
    for what in ("TPOT", "TTFT", "tok/s per GPU"):
        for key in SLICES:
            slices: dict[str, list[Pair]] = defaultdict(list)
            for one in found:
                pair = _pairs(what, one)
                if pair is not None:
                    slices[key(one)].append(pair)
            for name in sorted(slices, key=_natural):
                yield f"{what} {name}: {errors(slices[name])}"
    yield from _shares(found)
    yield from _orders(found)


def _natural(name: str) -> tuple[str, int, str]:
    digits = "".join(c for c in name.partition("-")[0] if c.isdigit())
    word = name.split(" ", maxsplit=1)[0]
    return word, int(digits) if word in ("concurrency", "lengths") and digits else 0, name


def errors(pairs: Sequence[Pair]) -> str:
    off = np.array([abs(p / m - 1) * 100 for p, m in pairs])
    return f"median {np.median(off):.1f} mean {off.mean():.1f} p90 {np.percentile(off, 90):.1f}"


def _shares(found: Sequence[Prediction]) -> Iterator[str]:
    if not found:
        return
    inside = np.mean([p.low <= p.row.tpot <= p.high for p in found]) * 100
    yield f"TPOT inside the stated band: {inside:.1f} %"
    firsts = [p for p in found if p.ttft and p.row.ttft > 0]
    near = [0.5 <= (p.ttft or 0) / p.row.ttft <= 2 for p in firsts]
    if near:
        yield f"TTFT within a factor of two: {np.mean(near) * 100:.1f} %"


def _orders(found: Sequence[Prediction]) -> Iterator[str]:
    """Pairs of one build that differ in layout alone: whether the faster one is named."""
    alike: dict[tuple[object, ...], list[Prediction]] = defaultdict(list)
    for one in found:
        row = one.row
        key = (row.shape, row.system, row.engine, row.precision, row.mode, row.isl, row.osl,
               row.concurrency, row.version, row.measured[:7])  # fmt: skip
        alike[key].append(one)
    named, equal = [], []
    for group in alike.values():
        for a, b in combinations(group, 2):
            if a.row.layout == b.row.layout or a.row.tpot == b.row.tpot:
                continue
            right = (a.tpot < b.tpot) == (a.row.tpot < b.row.tpot)
            named.append(right)
            if a.devices == b.devices:
                equal.append(right)
    if named:
        yield f"layout pairs, faster named: {np.mean(named) * 100:.1f} % of {len(named)}"
    if equal:
        yield (f"layout pairs on equal GPUs, faster named: {np.mean(equal) * 100:.1f} % of "
               f"{len(equal)}")  # fmt: skip
