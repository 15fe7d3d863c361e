"""Who had each device first: runs of devices in line, apart and in order.

Comes in: runs with a name, one after the other. Goes out: how many devices of a run another name
had already. Not its job: which devices a pool stands on (placement).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter


class Ranges:
    """`starts[n]` to `ends[n]` (not included) belong to `names[n]`."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._names: list[str] = []

    def take(self, start: int, end: int, name: str) -> Counter[str]:
        """Gives what is free of a run to a name; the others' devices in it, by their names."""
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end)
        found: Counter[str] = Counter()
        pieces: list[tuple[int, int, str]] = []
        at = start
        for index in range(first, last):
            own = self._starts[index], self._ends[index], self._names[index]
            if at < own[0]:
                pieces.append((at, own[0], name))
            pieces.append(own)
            found[own[2]] += min(own[1], end) - max(own[0], start)
            at = own[1]
        if at < end:
            pieces.append((at, end, name))
        self._starts[first:last] = [piece[0] for piece in pieces]
        self._ends[first:last] = [piece[1] for piece in pieces]
        self._names[first:last] = [piece[2] for piece in pieces]
        return found
