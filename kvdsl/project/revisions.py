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
from shutil import which
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
        raise NoRevision(_no_tree(folder))
    commit = _commit(folder, name)
    if commit is None and name == UPSTREAM:
        commit = _left_at(folder)
    if commit is None:
        hint = f"; {SHALLOW}" if _shallow(folder) else ""
        raise NoRevision(f"git knows no revision `{name}`{hint}")
    return Revision(root, folder, commit, name)


SHALLOW = "the clone is shallow: fetch more of it, as `git fetch --unshallow` does"


def _shallow(folder: str) -> bool:
    return _git(folder, "rev-parse", "--is-shallow-repository") == "true"


def _no_tree(folder: str) -> str:
    """Why git shows no working tree."""
    if which("git") is None:
        return "git is not installed, or not where programs are looked for"
    if _git(folder, "rev-parse", "--is-bare-repository") == "true":
        return "this repository is bare: it has no files beside its commits; use a clone of it"
    if _git(folder, "rev-parse", "--is-inside-git-dir") == "true":
        return "this is git's own folder; go up to the files of the repository"
    told = _asked(folder, "rev-parse", "--show-toplevel").stderr
    if b"dubious ownership" in told:
        quoted = os.fsdecode(told).split("'")
        place = quoted[1] if len(quoted) > 2 else str(Path(folder).resolve())
        return (
            "git reads no repository that another user owns; if you trust it, run"
            f" `git config --global --add safe.directory {place}`"
        )
    return "this folder is in no git repository"


def _commit(folder: str, name: str) -> str | None:
    if not name.strip() or "\0" in name:
        return None
    return _git(
        folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
    )


def _left_at(folder: str) -> str:
    """Where this branch left the first trunk that there is. Raises NoRevision."""
    if _commit(folder, "HEAD") is None:
        raise NoRevision("this repository has no commit yet: there is nothing to compare with")
    trunk = next((trunk for trunk in TRUNKS if _commit(folder, trunk) is not None), None)
    if trunk is None:
        detached = _git(folder, "symbolic-ref", "--quiet", "HEAD") is None
        who = "HEAD is on no branch" if detached else "this branch tracks none"
        raise NoRevision(f"{who}; name a revision, as in `--against main`")
    base = _git(folder, "merge-base", "HEAD", trunk)
    if base is None:
        hint = SHALLOW if _shallow(folder) else "name a revision, as in `--against main`"
        raise NoRevision(f"this branch and `{trunk}` have no commit in common; {hint}")
    return base


def _git(folder: str, *words: str) -> str | None:
    """The one line that git answers; None where it refuses."""
    try:
        run = _asked(folder, *words)
    except OSError:
        return None
    text = run.stdout.decode("utf-8", "surrogateescape").strip()
    return text if run.returncode == 0 and text else None


def _asked(folder: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603 - a list of words, no shell
        ["git", "-C", folder, *words],  # noqa: S607 - the git that the user has
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=_surroundings(),
    )


def _surroundings() -> dict[str, str]:
    """Messages as they are looked for here; and nothing is fetched, in a partial clone either."""
    return {**os.environ, "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}


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
            words, capture_output=True, check=True, stdin=subprocess.DEVNULL, env=_surroundings()
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
            return Refusal(f"there is no such file in {self.title}", missing=True)
        if mode == "160000":
            return Refusal("it is another repository")
        if "\n" in path:
            return Refusal("the path is not valid")
        data = self._blob(path)
        if data is None:
            return Refusal(
                "this clone is a part, without the text", "fetch it: `git fetch --refetch`"
            )
        if mode != "120000":
            return decoded(data, MOST_BYTES)
        target = posixpath.normpath(
            posixpath.join(posixpath.dirname(path), data.decode("utf-8", "surrogateescape"))
        )
        if target.startswith(("..", "/")) or not links:
            return Refusal("it is a link out of this repository", "copy the file beside this one")
        return self._read(target, links - 1)

    def raw(self, path: Path) -> bytes | None:
        inside = self.within(path)
        if inside is None or "\n" in inside or self._modes.get(inside) in (None, "160000"):
            return None
        data = self._blob(inside)
        return None if data is None else data[: MOST_BYTES + 1]

    def nested(self, path: str) -> str | None:
        """The repository within this one that a path lies in: a submodule here or on the disk."""
        inside = self.within(path)
        for folder in reversed(Path(inside or "").parents[:-1]):
            name = folder.as_posix()
            if self._modes.get(name) == "160000" or Path(self._root, name, ".git").exists():
                return name
        return None

    def _blob(self, path: str) -> bytes | None:
        pipe, answer = self._batch()
        pipe.write(f"{self.commit}:{path}\n".encode("utf-8", "surrogateescape"))
        pipe.flush()
        head = answer.readline().split()
        if len(head) < 3 or head[1] != b"blob":
            return None  # a partial clone without the object
        size = int(head[2])
        data = answer.read(size)
        answer.read(1)
        return data

    def _batch(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            words = ["git", "-C", self._root, "cat-file", "--batch"]
            self._process = subprocess.Popen(  # noqa: S603 - as above
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_surroundings(),
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
