"""Which files below a folder are not meant: `.kvspecignore`, in the manner of .gitignore.

Comes in: patterns, a line each. Goes out: whether a path is ignored. `#` is a comment, `!` takes
back, a `/` at the end means folders, one at the start or inside ties the pattern to the folder of
the file; `*` and `?` stop at a `/`, `**` does not. Not its job: finding files (shelves).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kvdsl.project.reading import Refusal
from kvdsl.project.shelves import Shelf

NAME = ".kvspecignore"


@dataclass(frozen=True, slots=True)
class Pattern:
    expression: re.Pattern[str]
    takes_back: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class Ignored:
    """The last pattern that matches a path, or a folder above it, decides."""

    patterns: tuple[Pattern, ...] = ()

    def __call__(self, path: str) -> bool:
        """`path` is relative to the folder of the patterns."""
        parts = PurePosixPath(path).parts
        for count in range(1, len(parts) + 1):
            inner = count < len(parts)
            verdict = self._verdict("/".join(parts[:count]), is_folder=inner)
            if verdict and (inner or count == len(parts)):
                return True
        return False

    def _verdict(self, path: str, *, is_folder: bool) -> bool:
        verdict = False
        for pattern in self.patterns:
            if (is_folder or not pattern.folders_only) and pattern.expression.fullmatch(path):
                verdict = not pattern.takes_back
        return verdict


def patterns(lines: Iterable[str]) -> Ignored:
    return Ignored(tuple(p for line in lines if (p := _pattern(line)) is not None))


def _pattern(line: str) -> Pattern | None:
    text = line.rstrip()
    if not text or text.startswith("#"):
        return None
    takes_back = text.startswith("!")
    text = text[1:] if takes_back else text
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    anywhere = "/" not in text
    text = text.lstrip("/")
    if not text:
        return None
    body = _expression(text)
    return Pattern(re.compile(f"(?:.*/)?{body}" if anywhere else body), takes_back, folders_only)


_PIECES = re.compile(r"/\*\*/|^\*\*/|/\*\*$|\*+|\?|[^*?/]+|/")
_MEANS = {"/**/": "/(?:.*/)?", "**/": "(?:.*/)?", "/**": "/.*", "?": "[^/]"}


def _expression(text: str) -> str:
    pieces = []
    for piece in _PIECES.findall(text):
        if piece in _MEANS:
            pieces.append(_MEANS[piece])
        else:
            pieces.append("[^/]*" if piece.startswith("*") else re.escape(piece))
    return "".join(pieces)


def ignored_below(shelf: Shelf, folder: str, more: Iterable[str] = ()) -> Ignored:
    """What the folder's own `.kvspecignore` says, and more patterns behind it."""
    text = shelf.read(Path(folder, NAME))
    lines = [] if isinstance(text, Refusal) else text.splitlines()
    return patterns([*lines, *more])


def specs_below(shelf: Shelf, folder: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Specs below a folder that are not ignored."""
    ignored = ignored_below(shelf, folder, more)
    base = Path(folder)
    return tuple(
        path for path in shelf.specs(folder) if not ignored(Path(path).relative_to(base).as_posix())
    )
