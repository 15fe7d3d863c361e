"""A text that has a most, made of sections that give way in a stated order.

Comes in: sections with their items, most important first by `rank`. Goes out: one text of at most
so many bytes of UTF-8, in which each section says what it left out. Not its job: what a section
says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

SHARE = 0.5
"""Of what is left a section may take so much, so that a long one leaves room for those after it;
what nobody then needs is shared out again, all of it, in the same order."""


@dataclass(frozen=True, slots=True)
class Section:
    """`head` and `foot` stand around the items, `rest` tells how many are left out. The sections
    of higher rank are filled first."""

    rank: int
    head: str
    items: tuple[str, ...]
    foot: str
    rest: Callable[[int], str]


def fitted(sections: Sequence[Section], most: int) -> str:
    """The sections in their order, each ending in an empty line."""
    there = [section for section in sections if section.items]
    frames = [
        size(section.head) + size(section.foot) + size(section.rest(len(section.items))) + 3
        for section in there
    ]
    left = most - sum(frames)
    counts = dict.fromkeys(range(len(there)), 0)
    order = sorted(range(len(there)), key=lambda i: (there[i].rank, i))
    for share in (SHARE, 1):
        for index in order:
            room = int(left * share)
            for item in there[index].items[counts[index] :]:
                need = size(item) + 1
                if need > room:
                    break  # what follows is less important: a smaller one would jump the order
                room, left = room - need, left - need
                counts[index] += 1
    texts = [_text(section, counts[i]) for i, section in enumerate(there)]
    return "\n".join(texts)


def _text(section: Section, count: int) -> str:
    left = len(section.items) - count
    lines = [section.head] if section.head else []
    lines += section.items[:count]
    lines += [section.foot] if section.foot else []
    lines += [section.rest(left)] if left else []
    return "\n".join(lines) + "\n"


def size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text.encode("utf-8", "backslashreplace"))
