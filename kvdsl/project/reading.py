"""Bytes of one file, decoded or refused.

Comes in: a path. Goes out: its text, or why there is none. Not its job: parsing, or following
imports.
"""

from __future__ import annotations

import errno
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 1_000_000
"""A spec is written by hand; a larger file is a mistake, and would only be slow to refuse later."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file has no text, and what to do; `missing` where there is no such file at all."""

    reason: str
    way_out: str | None = None
    missing: bool = False


def read(path: Path, most: int = MOST_BYTES) -> str | Refusal:
    """The text of a file. A folder, a device or a pipe is refused before it is opened."""
    try:
        mode = path.stat()
        if stat.S_ISDIR(mode.st_mode):
            return Refusal("it is a folder", "name a .kvspec file in it")
        if not stat.S_ISREG(mode.st_mode):
            return Refusal("it is not a regular file", "write `-` to read standard input")
        if mode.st_size > most:
            return _too_large(mode.st_size, most)
        with path.open("rb") as file:
            return decoded(file.read(most + 1), most)
    except FileNotFoundError:
        return Refusal("there is no such file", _neighbours(path), missing=True)
    except NotADirectoryError:
        return Refusal("a part of the path is a file, not a folder", missing=True)
    except PermissionError:
        return Refusal("permission denied")
    except OSError as error:
        if error.errno == errno.ELOOP:
            return Refusal("it is a link that leads back to itself")
        return Refusal((error.strerror or "the path is not valid").lower())  # too long a name
    except ValueError:  # a NUL in the path
        return Refusal("the path is not valid")


def read_standard_input(most: int = MOST_BYTES) -> str | Refusal:
    if sys.stdin is None:
        return Refusal("stdin is closed")
    try:
        return decoded(sys.stdin.buffer.read(most + 1), most)
    except OSError as error:
        return Refusal((error.strerror or "stdin is closed").lower())


def decoded(data: bytes, most: int = MOST_BYTES) -> str | Refusal:
    """UTF-8, with or without a byte order mark; `\\r\\n` is a newline."""
    if len(data) > most:
        return _too_large(len(data), most)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return Refusal("it is UTF-16, not UTF-8", "save it as UTF-8")
    if b"\0" in data:
        return Refusal("it holds NUL bytes, so it is not text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = f"0x{data[error.start]:02x}"
        return Refusal(f"it is not UTF-8 (byte {byte} in line {line})", "save it as UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _too_large(size: int, most: int) -> Refusal:
    way_out = "split it, and import the pieces" if most == MOST_BYTES else None
    return Refusal(f"it has more than {most:,} bytes ({size:,})", way_out)


def _neighbours(path: Path) -> str | None:
    """Specs in the same folder with a name like it."""
    from kvdsl.spelling import nearest

    try:
        names = [p.stem for p in path.parent.iterdir() if p.suffix == ".kvspec"]
    except OSError:
        return None
    if path.suffix != ".kvspec" and path.name in names:
        return f"did you mean `{path.name}.kvspec`?"
    near = nearest(path.stem, names)
    return f"did you mean `{near[0]}.kvspec`?" if near else None
