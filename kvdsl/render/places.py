"""Where a thing stands in the spec, as words and as a link into the report's own listing.

Comes in: spans, and the files that a report prints. Goes out: `Spot`s. A span of a file that the
report does not print (the catalog) has words and no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kvdsl.source import Span

_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Spot:
    text: str
    href: str = ""

    @property
    def long(self) -> bool:
        """Whether a column of a table would burst if the words were kept on one line."""
        return len(self.text) > _LONGEST


@dataclass(frozen=True, slots=True)
class Places:
    """The files that a report prints, in order; a line's id is `L1-12`: file and line."""

    files: tuple[str, ...]

    def spot(self, span: Span | None) -> Spot | None:
        if span is None:
            return None
        if span.file.name not in self.files:
            return Spot(f"{span.file.name}:{span.line}")
        return Spot(f"{_short(span.file.name)}:{span.line}", f"#{self.line_id(span)}")

    def line_id(self, span: Span) -> str:
        return line_id(self.files.index(span.file.name), span.line)


def line_id(file: int, line: int) -> str:
    return f"L{file + 1}-{line}"


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def slug(text: str) -> str:
    """What may stand in an id: letters, digits, hyphens; never empty."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "x"


def slugs(texts: Iterable[str]) -> tuple[str, ...]:
    """A slug for each text; equal ones are numbered."""
    seen: dict[str, int] = {}
    found = []
    for text in texts:
        name = slug(text)
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return tuple(found)
