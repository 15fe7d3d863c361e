"""A piece of a bar, of memory or of time."""

from __future__ import annotations

from dataclasses import dataclass

from kvdsl.units import Quantity


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a bar. `group` is weights, cache, reserve, free, over (memory) or read, compute,
    attention, collective (time)."""

    label: str
    group: str
    quantity: Quantity
