"""Source text and places in it.

Comes in: text. Goes out: files, spans, lines and columns on demand. Not its job: reading from
disk (project) or drawing underlines (render).

Offsets count characters of the decoded text, because that is what the lexer and Python's strings
count; `Span.byte_range` converts for protocols that count bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, eq=False)
class SourceFile:
    """One text under the name that a user knows it by. Two files are equal only if identical."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> tuple[int, ...]:
        starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        return tuple(starts)

    @property
    def line_count(self) -> int:
        return len(self._line_starts)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1) without its line ending."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        text = self.text[start:] if end < 0 else self.text[start:end]
        return text.removesuffix("\r")

    def span(self, start: int, end: int) -> Span:
        return Span(self, start, end)


@dataclass(frozen=True, slots=True)
class Span:
    """A run of characters of one file: start included, end not."""

    file: SourceFile
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end <= len(self.file.text):
            raise ValueError(f"no such place: {self.start}..{self.end} in {self.file.name}")

    @property
    def text(self) -> str:
        return self.file.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.file.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.file.position(self.start)[1]

    @property
    def byte_range(self) -> tuple[int, int]:
        before = len(self.file.text[: self.start].encode())
        return before, before + len(self.text.encode())

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}:{self.column}"

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of `other`, in the same file."""
        if other.file is not self.file:
            raise ValueError("a span cannot join two files")
        return Span(self.file, min(self.start, other.start), max(self.end, other.end))
