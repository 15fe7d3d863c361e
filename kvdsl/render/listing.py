"""A spec's text for reading: coloured words, numbered lines, marks where findings point.

Comes in: the text, and what points into it. Goes out: lines of pieces. Words are told apart by
their looks alone, since a renderer has no parser: good enough for colour, never for meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvdsl.render.places import line_id

_PIECES = re.compile(
    r"""(?P<doc>\#\#.*)
      | (?P<comment>\#.*)
      | (?P<string>"[^"]*"?)
      | (?P<number>\b[0-9][0-9_]*(?:\.[0-9_]+)?(?:[eE][+-]?[0-9]+)?(?:[ ]?%|[ ][kMGTPE]?i?
            (?:B|bit|tok|FLOP|OP|W|Wh|req|USD|J|ns|us|ms|s|min|h|d)\b(?:/[A-Za-z]+)?)?)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<other>[^A-Za-z0-9_"\#]+|.)""",
    re.VERBOSE,
)
_STATEMENTS = frozenset(
    [
        "kvspec",
        "import",
        "let",
        "require",
        "expect",
        "allow",
        "compare",
        "drop",
        "extends",
        "when",
        "as",
        "because",
        "until",
        "within",
        "of",
        "per",
        "x",
        "from",
        "and",
        "or",
        "not",
    ]
)
_DECLARATIONS = frozenset(
    [
        "model",
        "device",
        "link",
        "node",
        "rack",
        "cluster",
        "format",
        "recipe",
        "tier",
        "engine",
        "layout",
        "workload",
        "deployment",
        "fleet",
        "policy",
        "budget",
        "pool",
        "sweep",
        "search",
        "tiers",
        "transfer",
        "stack",
        "attention",
        "ffn",
        "experts",
    ]
)


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that points at a line: its code, its severity and where it is told."""

    text: str
    kind: str
    href: str


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    name: str
    pieces: tuple[tuple[str, str], ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    name: str
    lines: tuple[Line, ...]


def listing(
    number: int, name: str, text: str, marks: Mapping[tuple[str, int], Sequence[Mark]]
) -> Listing:
    lines = []
    for index, line in enumerate(text.rstrip("\n").split("\n"), start=1):
        pointing = tuple(marks.get((name, index), ()))
        lines.append(Line(index, line_id(number, index), pieces(line), pointing))
    return Listing(name, tuple(lines))


def pieces(line: str) -> tuple[tuple[str, str], ...]:
    """Runs of a line with their looks: `("statement", "require")`. Joined they are the line."""
    found: list[tuple[str, str]] = []
    for match in _PIECES.finditer(line):
        kind = match.lastgroup or "other"
        if kind == "word":
            kind = _word(match, line)
        if kind == "other" and found and found[-1][0] == "other":
            found[-1] = ("other", found[-1][1] + match[0])
        else:
            found.append((kind, match[0]))
    return tuple(found)


def _word(match: re.Match[str], line: str) -> str:
    if match[0] in _STATEMENTS and not line[match.end() :].lstrip().startswith("="):
        return "statement"
    first = not line[: match.start()].strip()
    if match[0] in _DECLARATIONS and (first or line[: match.start()].rstrip().endswith(("{", ";"))):
        return "declaration"
    return "other"
