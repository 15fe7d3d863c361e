"""Where texts come from: the disk, or one revision of a repository.

Comes in: a path as a user or an import wrote it. Goes out: its text, or why there is none; and
which specs lie below a folder. Not its job: what an import means (loader), git itself (revisions).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from kvdsl.project.reading import MOST_BYTES, Refusal, read
from kvdsl.project.tree import Tree

SUFFIX = ".kvspec"


class Fence(Protocol):
    """How far the imports of one main file may reach."""

    def refused(self, folder: Path, written: str) -> Refusal | None:
        """Why a path that a file in `folder` imports may not be read."""


class Shelf(Protocol):
    title: str

    def read(self, path: Path, most: int = MOST_BYTES) -> str | Refusal: ...

    def raw(self, path: Path) -> bytes | None:
        """What of a file shows whether another is the same, where neither is text; None where
        there is no file."""

    def fence(self, folder: Path) -> Fence: ...

    def specs(self, folder: str) -> tuple[str, ...]:
        """Specs below a folder, in a fixed order; none where there is no such folder."""

    def is_folder(self, path: str) -> bool: ...


class Disk:
    """The files as they lie."""

    def __init__(self, title: str = "the working tree") -> None:
        self.title = title

    def read(self, path: Path, most: int = MOST_BYTES) -> str | Refusal:
        return read(path, most)

    def raw(self, path: Path) -> bytes | None:
        try:
            if not path.is_file():  # a pipe would never end
                return None
            with path.open("rb") as file:
                return file.read(MOST_BYTES + 1)
        except (OSError, ValueError):
            return None

    def fence(self, folder: Path) -> Fence:
        return Tree.around(folder)

    def is_folder(self, path: str) -> bool:
        return Path(path).is_dir()

    def specs(self, folder: str) -> tuple[str, ...]:
        """Hidden folders are skipped, and links to folders: a circle of them would not end. So are
        links out of the folder: whoever checks a stranger's branch would show files of their own.
        """
        paths: list[str] = []
        root = os.path.realpath(folder)
        for place, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            found = (Path(place, name) for name in names if name.endswith(SUFFIX))
            paths += [path.as_posix() for path in found if not _leads_out(path, root)]
        return tuple(sorted(paths))


def _leads_out(path: Path, root: str) -> bool:
    return path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root)


DISK = Disk()


def hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") for part in parts)
