"""Files of one revision of a git repository, read without a checkout.

Comes in: a revision as a user wrote it. Goes out: a shelf like the disk. The repository's own
objects are read by `git cat-file --batch`; nothing is written, fetched or run from it. Not its job:
what the files mean.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kvdsl.project.reading import MOST_BYTES, Refusal, decoded
from kvdsl.project.shelves import SUFFIX, Fence, hidden

UPSTREAM = "upstream"
"""The word for the revision where this branch left the one that it goes back to."""

TRUNKS = ("@{upstream}", "origin/HEAD", "origin/main", "origin/master", "main", "master")
"""What a branch goes back to: what it tracks, else the repository's trunk under its usual names."""

MOST_LINKS = 8
"""Links in a row; a longer way is a circle."""


class NoRevision(Exception):
    """There is no such revision, or no repository; the text says so to a user."""


def revision(name: str, folder: str = ".") -> Revision:
    """A revision by any name that git knows, or `upstream`. Raises NoRevision."""
    root = _git(folder, "rev-parse", "--show-toplevel")
    if root is None:
        raise NoRevision("this folder is in no git repository, or git is not installed")
    commit = _commit(folder, name)
    if commit is None and name == UPSTREAM:
        commit = _left_at(folder)
        if commit is None:
            raise NoRevision("this branch tracks none; name a revision, as in `--against main`")
    if commit is None:
        shallow = _git(folder, "rev-parse", "--is-shallow-repository") == "true"
        hint = "; the clone is shallow: fetch more of it" if shallow else ""
        raise NoRevision(f"git knows no revision `{name}`{hint}")
    return Revision(root, folder, commit, name)


def _commit(folder: str, name: str) -> str | None:
    if not name.strip() or "\0" in name:
        return None
    return _git(
        folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
    )


def _left_at(folder: str) -> str | None:
    for trunk in TRUNKS:
        if _commit(folder, trunk) is not None and (
            base := _git(folder, "merge-base", "HEAD", trunk)
        ):
            return base
    return None


def _git(folder: str, *words: str) -> str | None:
    """The one line that git answers; None where it refuses."""
    try:
        run = subprocess.run(  # noqa: S603 - a list of words, no shell
            ["git", "-C", folder, *words],  # noqa: S607 - the git that the user has
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return None
    text = run.stdout.decode("utf-8", "surrogateescape").strip()
    return text if run.returncode == 0 and text else None


class Revision:
    """The tree of one commit. Paths are those of the working folder, as on the disk."""

    def __init__(self, root: str, folder: str, commit: str, name: str) -> None:
        self.title = commit[:12] if commit.startswith(name) else f"{name} ({commit[:7]})"
        self.commit = commit
        self._root = os.path.realpath(root)
        self._folder = folder
        self._modes = dict(self._listed())
        self._process: subprocess.Popen[bytes] | None = None
        self._texts: dict[str, str | Refusal] = {}

    def _listed(self) -> Iterator[tuple[str, str]]:
        words = ["git", "-C", self._root, "ls-tree", "-r", "-z", "--full-tree", self.commit]
        run = subprocess.run(  # noqa: S603 - as above
            words, capture_output=True, check=True, stdin=subprocess.DEVNULL
        )
        for line in run.stdout.split(b"\0"):
            head, _, path = line.partition(b"\t")
            if path:
                yield path.decode("utf-8", "surrogateescape"), head.split(b" ")[0].decode()

    def within(self, path: Path | str) -> str | None:
        """A path of the working folder from the repository's root; None where it leads out."""
        try:
            real = Path(os.path.realpath(self._folder), path)
            # The folders' links are the disk's, the file's own the revision's.
            whole = os.path.normpath(real)
            return Path(whole).relative_to(self._root).as_posix()
        except ValueError:
            return None

    def read(self, path: Path, most: int = MOST_BYTES) -> str | Refusal:
        inside = self.within(path)
        if inside is None:
            return Refusal("it lies outside the repository")
        if inside not in self._texts:
            self._texts[inside] = self._read(inside, MOST_LINKS)
        text = self._texts[inside]
        if isinstance(text, str) and len(text) > most:
            return Refusal(f"it has more than {most:,} characters")
        return text

    def _read(self, path: str, links: int) -> str | Refusal:
        mode = self._modes.get(path)
        if mode is None:
            return Refusal(f"there is no such file in {self.title}")
        if mode == "160000":
            return Refusal("it is another repository")
        if "\n" in path:
            return Refusal("the path is not valid")
        data = self._blob(path)
        if mode != "120000":
            return decoded(data, MOST_BYTES)
        target = posixpath.normpath(
            posixpath.join(posixpath.dirname(path), data.decode("utf-8", "surrogateescape"))
        )
        if target.startswith(("..", "/")) or not links:
            return Refusal("it is a link out of this repository", "copy the file beside this one")
        return self._read(target, links - 1)

    def _blob(self, path: str) -> bytes:
        pipe, answer = self._batch()
        pipe.write(f"{self.commit}:{path}\n".encode("utf-8", "surrogateescape"))
        pipe.flush()
        head = answer.readline().split()
        if len(head) < 3 or head[1] != b"blob":
            return b"\0"  # a partial clone without the object: it is refused as no text
        size = int(head[2])
        data = answer.read(size)
        answer.read(1)
        return data

    def _batch(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            words = ["git", "-C", self._root, "cat-file", "--batch"]
            self._process = subprocess.Popen(  # noqa: S603 - as above
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        pipe, answer = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answer is not None
        return pipe, answer

    def close(self) -> None:
        """Ends git; nothing can be read any more."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def fence(self, folder: Path) -> Fence:  # noqa: ARG002 - the repository is the fence
        return self

    def refused(self, folder: Path, written: str) -> Refusal | None:
        if "\0" in written or self.within(folder / written) is None:
            name = posixpath.basename(self._root)
            return Refusal(f"it lies outside the repository `{name}`", "copy the file into it")
        return None

    def is_folder(self, path: str) -> bool:
        inside = self.within(path)
        return inside is not None and (
            inside == "." or any(known.startswith(inside + "/") for known in self._modes)
        )

    def specs(self, folder: str) -> tuple[str, ...]:
        inside = self.within(folder)
        if inside is None:
            return ()
        head = "" if inside == "." else inside + "/"
        rest = (
            known.removeprefix(head)
            for known in self._modes
            if known.startswith(head) and known.endswith(SUFFIX)
        )
        found = (path for path in rest if not hidden(path.split("/")[:-1]))
        return tuple(sorted(Path(folder, path).as_posix() for path in found))
