"""How far imports may reach: the repository that the main file lies in, and no link out of it.

Comes in: the main file's folder, then each import. Goes out: why it may not be read, if so. Not its
job: reading it (reading).

Why: a check runs on what strangers propose, and shows the lines that it cannot read. A link in
their branch, or enough `../`, would show the files of the machine that checks it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kvdsl.project.reading import Refusal


@dataclass(frozen=True, slots=True)
class Tree:
    """`folder` is the main file's, without links; `root` the repository that it lies in, if any."""

    folder: Path
    root: Path | None

    @staticmethod
    def around(folder: Path) -> Tree:
        try:
            real = Path(os.path.realpath(folder))
        except OSError:  # the working folder is gone
            return Tree(folder, None)
        # os.path, since a folder that may not be looked into is no repository and no fault.
        above = (each for each in (real, *real.parents) if os.path.exists(each / ".git"))  # noqa: PTH110
        return Tree(real, next(above, None))

    def refused(self, folder: Path, written: str) -> Refusal | None:
        """Why a path that a file in `folder` imports may not be read."""
        try:
            path = Path(os.path.normpath(Path(os.path.realpath(folder), written)))
            real = Path(os.path.realpath(path))
        except (OSError, ValueError):  # no working folder; a NUL, or half a character, in the path
            return Refusal("the path is not valid")
        if self.root is not None and not path.is_relative_to(self.root):
            return Refusal(
                f"it lies outside the repository `{self.root.name}`", "copy the file into it"
            )
        # Without a repository `../` is the user's own; where a link leads is not to be seen.
        inside = real == path or real.is_relative_to(self.root or self.folder)
        if not inside:
            what = "repository" if self.root is not None else "folder"
            return Refusal(f"it is a link out of this {what}", "copy the file beside this one")
        return None
