"""Text of users made safe to look at: what cannot be seen is spelt out.

Comes in: any string of a plan. Goes out: the same, with control characters, bidirectional marks and
other invisible signs as `<U+202E>`, so that no name can reorder or hide what stands beside it. Not
its job: escaping markup (the template engine, `svg.elements`).
"""

from __future__ import annotations

import re
from unicodedata import category

_KEPT = "\n\t\u200c\u200d"
"""Line structure, and the two joiners that scripts and emoji need to be drawn at all."""

_SUSPECT = re.compile(r"[^\x20-\x7e\n]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    return _SUSPECT.sub(_spelt, text)


def _spelt(match: re.Match[str]) -> str:
    sign = match[0]
    if sign in _KEPT or category(sign) not in _HIDDEN:
        return sign
    return f"<U+{ord(sign):04X}>"
