"""What a user is told about files: those that cannot be read, and imports.

Comes in: facts from the loader. Goes out: diagnostics. Not its job: reading anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kvdsl.diagnostics import Message
from kvdsl.source import Span

CODES: tuple[tuple[str, str, str], ...] = (
    ("KV020", "unreadable-file", "A file cannot be read as kvspec text."),
    ("KV021", "bad-import", "An import names no file that can be imported, or has no name."),
    ("KV022", "import-cycle", "Files import each other in a circle."),
)


@dataclass(frozen=True)
class Unreadable(Message):
    """`reason` says why, `way_out` what to do; both are the loader's own short texts."""

    code: ClassVar[str] = "KV020"
    headline: ClassVar[str] = "cannot read `{name}`: {reason}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    name: str
    reason: str
    way_out: str | None = None


@dataclass(frozen=True)
class BadImport(Message):
    code: ClassVar[str] = "KV021"
    headline: ClassVar[str] = "cannot import `{path}`: {reason}"
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    path: str
    reason: str
    way_out: str | None = None


@dataclass(frozen=True)
class UnnamedImport(Message):
    code: ClassVar[str] = "KV021"
    headline: ClassVar[str] = "`{stem}` is not a name that an import can go by"
    label: ClassVar[str] = "named by its stem, unless `as` gives a name"
    helps: ClassVar[tuple[str, ...]] = ('write `import "{path}" as {suggestion}`',)
    span: Span
    stem: str
    path: str
    suggestion: str


@dataclass(frozen=True)
class ImportCycle(Message):
    code: ClassVar[str] = "KV022"
    headline: ClassVar[str] = "this import closes a circle of files"
    notes: ClassVar[tuple[str, ...]] = ("the circle: {chain}",)
    helps: ClassVar[tuple[str, ...]] = ("{way_out}",)
    span: Span
    chain: str
    way_out: str = "move what both files need to a third one, and import that"
