"""The least of a text that still breaks kvdsl at the same place.

Comes in: a text and a question, whether a text breaks there. Goes out: a shorter one. Not its job:
what the place is (campaign).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

MOST_TRIES = 200
"""A text is tried so often at the most, which takes some seconds."""

_PIECES = (r"[^\n]*\n|[^\n]+", r"[^;{}\n]*[;{}\n]|[^;{}\n]+", r"\s+|\w+|[^\w\s]")
"""By lines first, then by statements and braces, then by words."""


def shrunk(text: str, breaks: Callable[[str], bool]) -> str:
    """Leaves out ever smaller runs of pieces, as long as it still breaks."""
    tries = MOST_TRIES
    for pattern in _PIECES:
        pieces = re.findall(pattern, text)
        size = len(pieces) // 2
        while size and tries > 0:
            at = 0
            while at < len(pieces) and tries > 0:
                left = pieces[:at] + pieces[at + size :]
                tries -= 1
                if breaks(_joined(left)):
                    pieces = left
                else:
                    at += size
            size //= 2
        text = _joined(pieces)
    return text


def _joined(pieces: Sequence[str]) -> str:
    return "".join(pieces)
