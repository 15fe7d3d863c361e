"""What a spec and its imports are, and whether they read the same on two shelves, without parsing.

Comes in: paths and shelves. Goes out: names of files; yes, or not known to be. Imports are found by
their looks, which finds too many (one in a string or a comment) and never too few: then a file is
compared that need not be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
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
        waiting += _imported(each, text)
    return True


def read_with(paths: Iterable[str], shelf: Shelf) -> tuple[str, ...]:
    """The files themselves and all that they import, each once."""
    known: dict[str, None] = {}
    waiting = [os.path.normpath(path) for path in paths]
    while waiting:
        each = waiting.pop()
        if each in known:
            continue
        known[each] = None
        text = shelf.read(Path(each))
        waiting += [] if isinstance(text, Refusal) else _imported(each, text)
    return tuple(known)


def _imported(path: str, text: str) -> list[str]:
    folder = Path(path).parent
    return [os.path.normpath(folder / found) for found in _IMPORT.findall(text)]
