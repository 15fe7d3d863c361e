"""Files that commands find and write: specs below a folder, and outputs that are whole or absent.

Comes in: paths as a user gave them. Goes out: paths to read, or a file. Not its job: reading specs
(project).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click

from kvdsl.cli.console import Console
from kvdsl.cli.exits import CommandError
from kvdsl.cli.options import Output
from kvdsl.project.ignoring import specs_below
from kvdsl.project.shelves import DISK, SUFFIX
from kvdsl.render.characters import safe

STANDARD_INPUT = "-"


def shown_file(path: str) -> str:
    """A file as messages name it."""
    return "standard input" if path == STANDARD_INPUT else safe(path)


def spec_paths(given: Iterable[str], excluded: Sequence[str] = ()) -> tuple[str, ...]:
    """The files as they were named, folders walked for specs; each once, in a fixed order. What a
    folder's `.kvspecignore` or `excluded` matches is left out of the walk."""
    found: dict[str, str] = {}
    for path in given:
        if path != STANDARD_INPUT and Path(path).is_dir():
            below = specs_below(DISK, path, excluded)
            if not below:
                raise CommandError(f"no {SUFFIX} file below `{safe(path)}`")
            for each in below:
                found.setdefault(os.path.normpath(each), each)
        else:
            found.setdefault(os.path.normpath(path), path)
    return tuple(found.values())


def spare(inputs: Iterable[str], written: Iterable[str | Path | None]) -> None:
    """Refuses, before any work, an output onto a file that is read, imports included: whoever asks
    for one has mistaken a path, and would lose a spec. Raises UsageError."""
    targets = {_real(path): str(path) for path in written if path is not None}
    if not targets:
        return
    from kvdsl.project.closure import read_with

    named = [path for path in inputs if path != STANDARD_INPUT]
    specs = [s for p in named for s in (specs_below(DISK, p) if Path(p).is_dir() else [p])]
    for path in read_with(specs, DISK):
        target = targets.get(_real(path))
        if target is not None:
            raise click.UsageError(f"`{safe(target)}` is read: write the output to another file")


def _real(path: str | Path) -> str:
    try:
        return os.path.realpath(path)
    except (ValueError, OSError):  # a NUL, a folder that is gone: what reads or writes refuses it
        return str(path)


def deliver(console: Console, outputs: Iterable[Output], texts: Mapping[str, str]) -> None:
    """Each output's text to its file or to stdout."""
    for output in outputs:
        if output.path is None:
            console.write(texts[output.form])
        else:
            write_file(Path(output.path), texts[output.form].encode("utf-8", "backslashreplace"))


def write_file(path: Path, data: bytes) -> None:
    """Writes beside the file and renames: whoever reads it sees the old text or the new one.

    A file that was there keeps its mode; a link is followed; a device or a pipe is written to as
    it is, since a rename would replace it. Raises CommandError.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise CommandError(f"cannot write `{safe(str(path))}`: it is a folder")
            target.write_bytes(data)
            return
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not os.access(target, os.W_OK):
            raise CommandError(f"cannot write `{safe(str(path))}`: permission denied")
        _replace(target, data, mode)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        reason = (error.strerror or "the path is not valid").lower()
        raise CommandError(f"cannot write `{safe(str(path))}`: {reason}") from None
    except (ValueError, RuntimeError):  # a NUL in the path, a circle of links
        raise CommandError(f"cannot write `{safe(str(path))}`: the path is not valid") from None


def _replace(target: Path, data: bytes, mode: int | None) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    # Opened so that the user's mask decides the mode of a new file, as for any other program.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if mode is not None:
            temporary.chmod(mode & 0o7777)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
