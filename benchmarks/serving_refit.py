"""Runs of the fit: catalog text with bands, and left-out tables.

Comes in: groups of rows. Goes out: lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.serving_fit import Fit, Table, fit, left_out, stacks, table
from benchmarks.serving_predict import Group
from benchmarks.serving_rows import Row
from benchmarks.serving_scores import errors
from benchmarks.serving_text import pace
from kvdsl.project.catalog import catalog_root

Keys = Mapping[str, Callable[[Row], str]]
USUAL, WIDE = 2 / 3, 0.9
"""Shares of left-out rows that a band holds."""

STEP = 0.05
"""Bands are rounded up to this."""


def blocks(groups: Sequence[Group], keys: Keys) -> Iterator[str]:
    """The pace of each engine."""
    data = table(stacks(groups))
    whole = fit(data)
    yield from _told(data, whole)
    key = next(iter(keys.values()))
    tpot, ttft = left_out(data, [key(row) for row in data.rows], whole)
    yield f"# left out by {next(iter(keys))}:"
    yield from _errors(data, tpot, ttft)
    bands = {"tpot": band(tpot, data.tpot), "ttft": band(ttft, data.ttft)}
    said = f"benchmarks/serving.py --fit, {len(data.rows):,} rows"
    for engine in sorted({stack.engine for stack in data.stacks}):
        yield f"# {engine}"
        yield pace(whole, engine, said, _before(engine), bands)


def _before(engine: str) -> str:
    """The version that the catalog has, which a fit does not move."""
    text = (catalog_root() / "engines" / f"{engine}.kvspec").read_text(encoding="utf-8")
    found = re.search(r'before\s*=\s*"([^"]+)"', text)
    return found[1] if found else ""


def band(predicted: Any, measured: Any) -> tuple[float, float]:
    """Factors less 1 that hold two of three and nine of ten rows."""
    kept = measured > 0
    off = np.abs(np.log(predicted[kept] / measured[kept]))
    usual, wide = np.quantile(off, USUAL), np.quantile(off, WIDE)
    return _up(float(np.exp(usual)) - 1), _up(float(np.exp(wide)) - 1)


def _up(value: float) -> float:
    return float(np.ceil(value / STEP - 1e-9) * STEP)


def tables(groups: Sequence[Group], keys: Keys) -> Iterator[str]:
    """Errors with each group left out in turn, for each way to group."""
    data = table(stacks(groups))
    whole = fit(data)
    yield from _told(data, whole)
    for name, key in keys.items():
        tpot, ttft = left_out(data, [key(row) for row in data.rows], whole)
        yield f"# left out by {name}:"
        yield from _errors(data, tpot, ttft)


def _told(data: Table, whole: Fit) -> Iterator[str]:
    yield f"# fitted over {len(data.rows):,} rows:"
    yield from _errors(data, *data.predicted(whole.values))


def _errors(data: Table, tpot: Any, ttft: Any) -> Iterator[str]:
    yield f"# TPOT: {errors(list(zip(tpot, data.tpot, strict=True)))}"
    kept = data.ttft > 0
    yield f"# TTFT: {errors(list(zip(ttft[kept], data.ttft[kept], strict=True)))}"
    two = np.mean(np.abs(np.log(ttft[kept] / data.ttft[kept])) <= np.log(2)) * 100
    yield f"# TTFT within a factor of two: {two:.1f} %"
