"""Nearest names, for "did you mean".

Comes in: a word and the known ones. Goes out: a few of them, nearest first, the same every time.
Not its job: knowing which names may stand where.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

_SIMILAR = 0.6
"""Below this share of common letters a suggestion puzzles more than it helps."""

_LONGEST = 64
"""Comparing takes time that grows with the product of lengths; no real name is longer."""


def nearest(word: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Up to `most` of the known names that look like the word; equal scores go by the alphabet."""
    if len(word) > _LONGEST:
        return ()
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(word.lower())
    scored: list[tuple[float, str]] = []
    for name in sorted(set(known)):
        if name == word or len(name) > _LONGEST:
            continue
        matcher.set_seq1(name.lower())
        # The two quick ratios are upper bounds, and cheap.
        if matcher.real_quick_ratio() < _SIMILAR or matcher.quick_ratio() < _SIMILAR:
            continue
        score = matcher.ratio()
        if score >= _SIMILAR:
            scored.append((-score, name))
    return tuple(name for _, name in sorted(scored)[:most])
