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
_ADDRESS = re.compile(r"https?://[^\s<>\"')]*[^\s<>\"'),.;]")
_COMMIT = re.compile(r"@([0-9a-f]{8,40})\b")
_REPOSITORY = re.compile(r"(?<![\w/.-])[A-Za-z0-9][\w-]*/[\w.-]+(?![\w/.-])")
_FILE = re.compile(r"\.[a-z]{1,5}$")


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

    def own(self, span: Span | None) -> bool:
        """Whether it stands in a file that the report prints."""
        return span is not None and span.file.name in self.files

    def spot(self, span: Span | None) -> Spot | None:
        if span is None:
            return None
        if not self.own(span):
            return Spot(f"{span.file.name}:{span.line}")
        file = f"{_short(span.file.name)}:" if len(self.files) > 1 else "line "
        return Spot(f"{file}{span.line}", f"#{self.line_id(span)}")

    def line_id(self, span: Span) -> str:
        return line_id(self.files.index(span.file.name), span.line)


def addressed(text: str) -> tuple[tuple[str, str], ...]:
    """A source's words in runs of (text, address); the address is empty for plain words."""
    runs = re.split(f"({_ADDRESS.pattern})", text)
    return tuple((run, run if _ADDRESS.match(run) else "") for run in runs if run)


def cited(text: str) -> tuple[tuple[str, str], ...]:
    """The same for a citation of the catalog, where `owner/repository FILE @commit` is a tree on
    GitHub. The file's own address is not made up: people write the end of a long path."""
    found: list[tuple[str, str]] = []
    at = 0
    for commit in _COMMIT.finditer(text):
        names = [
            m for m in _REPOSITORY.finditer(text, at, commit.start()) if not _FILE.search(m[0])
        ]
        if not names:
            continue
        name = names[-1]
        found += addressed(text[at : name.start()])
        address = f"https://github.com/{name[0]}/tree/{commit[1]}"
        found.append((text[name.start() : commit.end()], address))
        at = commit.end()
    return (*found, *addressed(text[at:]))


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
