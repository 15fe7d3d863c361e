"""Replays a check whose inputs have not changed, before anything heavy is imported.

Comes in: the arguments. Goes out: what the same check printed before, if kvdsl, the catalog, the
terminal and every file that it read are what they were. A file counts by its content; kvdsl and its
catalog by name, size and time of change. Kept in the user's cache folder; a check that could not
read a file, reads standard input or a folder, or writes one, is never kept. `--no-cache` goes past.

Why: reading the grammar and the typed spec costs more than a check itself, and CI and editors check
the same files over and over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from kvdsl import __version__

FORMAT = 1
MOST_KEPT = 512
"""Results that are kept; the oldest half goes when there are more."""

TALKS_OF_FILES = ("KV020", "KV021", "KV022", "KV079")
"""Codes of files that could not be read: what they say may change though no file did."""


def replayed(arguments: Sequence[str]) -> int | None:
    """Prints what this check printed before and gives its exit code; None if it has to run."""
    if not _may_be_kept(arguments):
        return None
    try:
        with open(_place(arguments), encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 5 ms
            import json

            kept = json.load(file)
        if not all(_digest(path) == digest for path, digest in kept["inputs"].items()):
            return None
        sys.stdout.write(kept["stdout"])
        sys.stdout.flush()
        sys.stderr.write(kept["stderr"])
        return int(kept["code"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # the application tells what is wrong with a stream


def keep(
    arguments: Sequence[str], read: Mapping[str, str], said: tuple[str, str], code: int
) -> None:
    """Keeps what a check printed on the two streams. `read` are the files that it read, by path,
    with the text that it found: one that has changed since is not kept. A folder that cannot be
    written is no fault: then nothing is kept."""
    import json
    import tempfile

    if not _may_be_kept(arguments):
        return
    place = _place(arguments)
    try:
        if not all(_unchanged(path, text) for path, text in read.items()):
            return
        inputs = {os.path.abspath(path): _digest(path) for path in read}  # noqa: PTH100
        folder = os.path.dirname(place)  # noqa: PTH120
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        _prune(folder)
        text = json.dumps({"inputs": inputs, "stdout": said[0], "stderr": said[1], "code": code})
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            file.write(text)
        os.replace(file.name, place)  # noqa: PTH105
    except (OSError, UnicodeError):
        return


def _may_be_kept(arguments: Sequence[str]) -> bool:
    if not arguments or arguments[0] != "check" or "--no-cache" in arguments:
        return False
    if sys.stdout is None or sys.stderr is None:  # closed: there is none to ask for its width
        return False
    rest = arguments[1:]
    # These ask what no digest of a file tells: a repository, a lock, policies.
    if any(a.split("=")[0] in ("--against", "--locked", "--lock", "--policy") for a in rest):
        return False
    writes = any("=" in a for a in rest if not a.startswith("--output=")) or any(
        a.count("=") > 1 for a in rest
    )
    return "-" not in rest and not writes and not any(os.path.isdir(a) for a in rest)  # noqa: PTH112


def _place(arguments: Sequence[str]) -> str:
    from hashlib import sha256

    told = [str(FORMAT), __version__, sys.version, os.getcwd(), *_terminal(os.environ), *arguments]  # noqa: PTH109
    digest = sha256("\0".join((*told, *_package())).encode("utf-8", "surrogateescape"))
    return os.path.join(_folder(os.environ), f"{digest.hexdigest()}.json")  # noqa: PTH118


def _terminal(environment: Mapping[str, str]) -> Iterator[str]:
    """All that decides width and colour."""
    for name in ("NO_COLOR", "TERM", "COLUMNS", "KVDSL_DEBUG"):
        yield environment.get(name, "")
    for stream in (sys.stdout, sys.stderr):
        terminal = stream.isatty()
        yield str(os.get_terminal_size(stream.fileno()).columns) if terminal else "none"
        yield str(stream.encoding)


def _folder(environment: Mapping[str, str]) -> str:
    given = environment.get("XDG_CACHE_HOME", "")
    home = given if os.path.isabs(given) else os.path.expanduser("~/.cache")  # noqa: PTH111, PTH117
    return os.path.join(home, "kvdsl", "checks")  # noqa: PTH118


def _package() -> Iterator[str]:
    """Name, size and time of change of every file of kvdsl, its grammar and its catalog."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    beside = os.path.dirname(here)  # noqa: PTH120
    roots = [here]
    if os.path.isdir(os.path.join(beside, "specs", "catalog")):  # noqa: PTH112, PTH118
        roots += [os.path.join(beside, "grammar"), os.path.join(beside, "specs", "catalog")]  # noqa: PTH118
    for root in roots:
        yield from _files(root)


def _files(folder: str) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry.path)
        else:
            state = entry.stat()
            yield f"{entry.path}:{state.st_size}:{state.st_mtime_ns}"


def _digest(path: str) -> str:
    from hashlib import sha256

    with open(path, "rb") as file:  # noqa: PTH123
        return sha256(file.read()).hexdigest()


def _unchanged(path: str, text: str) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read().removeprefix(b"\xef\xbb\xbf") == text.encode().removeprefix(
            b"\xef\xbb\xbf"
        )


def _prune(folder: str) -> None:
    kept = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
    if len(kept) > MOST_KEPT:
        for entry in sorted(kept, key=lambda e: e.stat().st_mtime_ns)[: MOST_KEPT // 2]:
            os.unlink(entry.path)  # noqa: PTH108
