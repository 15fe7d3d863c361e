"""Whether a spec and all that it imports read the same on two shelves, without parsing them.

Comes in: a path and two shelves. Goes out: yes, or not known to be. Imports are found by their
looks, which finds too many (one in a string or a comment) and never too few: then a file is
compared that need not be.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from kvdsl.project.reading import Refusal
from kvdsl.project.shelves import Shelf

_IMPORT = re.compile(r'\bimport\s*"([^"\n]+)"')


def same_text(path: str, one: Shelf, other: Shelf, seen: set[str] | None = None) -> bool:
    """`seen` are paths that are known to be the same or are being asked about."""
    known = set() if seen is None else seen
    waiting = [os.path.normpath(path)]
    while waiting:
        each = waiting.pop()
        if each in known:
            continue
        known.add(each)
        text, beside = one.read(Path(each)), other.read(Path(each))
        if isinstance(text, Refusal) and isinstance(beside, Refusal):
            if one.raw(Path(each)) != other.raw(Path(each)):
                return False
            continue  # what is no text imports nothing
        if isinstance(text, Refusal) or text != beside:
            return False
        folder = Path(each).parent
        waiting += [os.path.normpath(folder / found) for found in _IMPORT.findall(text)]
    return True
