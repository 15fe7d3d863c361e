"""Names in a sentence: the nearest ones, for "did you mean", and several of them in a row.

Comes in: a word and the known ones. Goes out: a few of them, nearest first, the same every time.
Not its job: knowing which names may stand where.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_SIMILAR = 0.6
"""Below this share of common letters a suggestion puzzles more than it helps."""

_LONGEST = 64
"""Comparing takes time that grows with the product of lengths; no real name is longer."""


def nearest(word: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Up to `most` of the known names that look like the word; equal scores go by the alphabet.

    A name that differs in case and signs only comes first: `Llama-3.1-8B` is `llama_3_1_8b`. A name
    that holds the whole word, or lies in it, between signs, looks more like it than letters tell:
    `h100` is `hgx_h100`, `model_name` is `model`.
    """
    if len(word) > _LONGEST:
        return ()
    plain = plainly(word)
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(plain)
    scored: list[tuple[float, str]] = []
    for name in sorted(set(known)):
        if name == word or len(name) > _LONGEST:
            continue
        own = plainly(name)
        bonus = _bonus(plain, own)
        matcher.set_seq1(own)
        # The two quick ratios are upper bounds, and cheap.
        if bonus + min(matcher.real_quick_ratio(), matcher.quick_ratio()) < _SIMILAR:
            continue
        score = bonus + matcher.ratio()
        if score >= _SIMILAR:
            scored.append((-score, name))
    best = sorted(scored)[:most]
    return tuple(name for score, name in best if best[0][0] > -_SAME or score <= -_SAME)


def in_a_row(words: Iterable[str], last: str) -> str:
    """`a`, `a and b`, `a, b and c`, where the last word is "and"; empty for none."""
    row = list(words)
    return f" {last} ".join([", ".join(row[:-1]), row[-1]] if len(row) > 1 else row)


def plainly(word: str) -> str:
    """The word in small letters, with `_` for every other sign."""
    return _SIGNS.sub("_", word.lower()).strip("_")


_SIGNS = re.compile(r"[^a-z0-9]+")


def _bonus(word: str, name: str) -> float:
    if word.replace("_", "") == name.replace("_", ""):
        return _SAME
    inner, outer = sorted((word, name), key=len)
    return _PART if len(inner) > _SHORTEST and f"_{inner}_" in f"_{outer}_" else 0.0


_SAME = 1.5
"""Where only case and signs differ, nothing else was meant."""

_PART = 0.3
"""What a common part between signs adds to the share of common letters."""

_SHORTEST = 2
"""Parts of so few letters say nothing."""
