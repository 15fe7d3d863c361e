"""Text of strangers inside Markdown: it can mark up nothing, call nobody and link nowhere.

Comes in: any text, a user's name or sentence. Goes out: Markdown that shows it. Names stand in code
spans, where GitHub and GitLab look for nothing; sentences are escaped sign by sign, and what would
be found behind the escapes (a mention, an issue, an address, a commit) is broken by a character of
no width. Not its job: which text goes where.
"""

from __future__ import annotations

import re

from kvdsl.render.visible import visible

BREAK = "\u200b"
"""No width; between a sign and what follows it, so that the two are no mention."""

LONGEST = 160
"""Characters of one text: a name that is longer is cut, and says so."""

_MARKUP = re.compile(r"([\\`*_\[\]<>#|~^$&@])")
_START = re.compile(r"^(\s*)([-+](?=\s|$)|-(?=--)|\d+(?=[.)](?:\s|$)))")
_CALLS = re.compile(r"([@#!~%$&:])(?=[\w\[*])")
_ADDRESS = re.compile(r"(?i)(?<=\w)(?=://)|(?<=\bwww)(?=\.)")
_COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b", re.IGNORECASE)
_ISSUE = re.compile(r"\b(GH|[A-Z][A-Z0-9]+)-(?=\d)")


def clipped(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def code(text: str, longest: int = LONGEST) -> str:
    """A code span. An empty text is `-`."""
    shown = clipped(" ".join(visible(text).split()), longest) or "-"
    longest_run = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest_run + 1)
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell(text: str, longest: int = LONGEST) -> str:
    """A code span in a table, which ends a cell at every bar, in code too, unless it is escaped."""
    return code(text, longest).replace("|", "\\|")


def prose(text: str, longest: int = 600) -> str:
    """A sentence; what it has in backticks stays code."""
    pieces = clipped(" ".join(visible(text).split()), longest).split("`")
    if len(pieces) % 2 == 0:  # a backtick without its fellow
        return _escaped("`".join(pieces))
    return "".join(
        (code(piece) if piece else "") if index % 2 else _escaped(piece)
        for index, piece in enumerate(pieces)
    )


def _escaped(text: str) -> str:
    text = _COMMIT.sub(lambda m: m[0][:4] + BREAK + m[0][4:] if _is_commit(m[0]) else m[0], text)
    text = _ISSUE.sub(lambda m: m[0] + BREAK, text)
    text = _ADDRESS.sub(BREAK, text)
    text = _CALLS.sub(lambda m: m[1] + BREAK, text)
    text = _MARKUP.sub(r"\\\1", text)
    # At the start of a line `-` opens a list and `1.` a numbered one.
    return _START.sub(rf"\1{BREAK}\2", text)


def _is_commit(word: str) -> bool:
    """A run of hexadecimal digits with letters and digits; a plain number is a figure."""
    return any(c.isalpha() for c in word) and any(c.isdigit() for c in word)


def fenced(lines: list[str], language: str = "") -> tuple[str, str]:
    """Opening and closing of a block that no line of it can close."""
    runs = (len(run) for line in lines for run in re.findall(r"`{3,}", line))
    fence = "`" * max([3, *(run + 1 for run in runs)])
    return f"{fence}{language}", fence


def plain_line(text: str, longest: int = LONGEST) -> str:
    """A line inside a fence: nothing is markup there, but a line must stay one."""
    return clipped(" ".join(visible(text).split()), longest)
