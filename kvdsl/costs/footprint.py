"""Footprint: what a request of some length takes of a rank, and the line that it follows.

Comes in: a stage and the engine's pages. Goes out: bytes at a length, and those bytes as a fixed
part and a slope. Windows, states and pages of several kinds make the fixed part: one bytes-a-token
figure would be wrong at every length but one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvdsl.costs import cache, pages
from kvdsl.placement.placement import Stage
from kvdsl.placement.subject import Subject

FAR = 2**20
"""Tokens from which every window is full: longer than any in use."""


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes of a request of so many tokens are near `fixed` + `slope` x tokens."""

    fixed: Fraction
    slope: Fraction


def of_request(subject: Subject, stage: Stage, length: int) -> Fraction:
    """Bytes of a request on a rank, in whole pages of the engine."""
    pool = pages.pool(subject, stage)
    if pool is None or not pool.page:
        size = subject.engine.block if subject.engine else 1
        return Fraction(cache.request_on_rank(stage, length, size))
    return pool.blocks(length) * Fraction(pool.page)


def line(subject: Subject, stage: Stage) -> Line:
    """The line through two lengths of whole pages at which every window is full."""
    pool = pages.pool(subject, stage)
    page = pool.tokens if pool is not None else 1
    length = -(-FAR // page) * page
    near, far = (of_request(subject, stage, times * length) for times in (1, 2))
    slope = (far - near) / length
    return Line(near - slope * length, slope)
