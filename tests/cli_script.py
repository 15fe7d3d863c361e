"""Scripts of commands: what is typed, what comes out on both streams, and the exit code.

A script is one text. Words for its reader come first, then commands with their output, then files:

    $ kvdsl check a.kvspec < input.txt      a command; also `cat`, `ls`, and NO_COLOR=1 before it
    | a line of stdout
    ! a line of stderr
    ? 1                                     the exit code, where it is not 0
    -- a.kvspec --                          a file, up to the next such line

`{version}` stands for kvdsl's version, `...` alone for any lines of that stream, and at
the end of a line for the rest of it.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvdsl import __version__
from kvdsl.cli import main

_FILE = re.compile(r"-- (\S+) --")
_SETTING = re.compile(r"[A-Z_]+=\S*")
ANY = "..."


@dataclass(frozen=True)
class Command:
    """A command line as it is written, and what is expected of it."""

    line: str
    expected: tuple[str, ...]
    words: tuple[str, ...] = ()
    """For its reader, before it."""


@dataclass(frozen=True)
class Script:
    intro: tuple[str, ...]
    commands: tuple[Command, ...]
    files: tuple[tuple[str, str], ...]


def read_script(text: str) -> Script:
    intro: list[str] = []
    commands: list[tuple[str, list[str], tuple[str, ...]]] = []
    words: list[str] = []
    files: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        named = _FILE.fullmatch(line)
        if named:
            files.append((named[1], []))
        elif files:
            files[-1][1].append(line)
        elif line.startswith("$ "):
            commands.append((line[2:], [], tuple(words)))
            words = []
        elif commands and line[:1] in ("|", "!", "?"):
            commands[-1][1].append(line)
        elif not commands:
            intro.append(line)
        else:
            assert not line or line.startswith("#"), f"what is this line? {line}"
            words += [line] if line or words else []
    return Script(
        tuple(intro),
        tuple(Command(line, tuple(expected), words) for line, expected, words in commands),
        tuple((name, "".join(f"{line}\n" for line in lines)) for name, lines in files),
    )


def written(script: Script, outputs: list[list[str]]) -> str:
    """The script with these outputs in the place of the expected ones."""
    parts = ["\n".join(script.intro).rstrip(), ""] if any(script.intro) else []
    for command, output in zip(script.commands, outputs, strict=True):
        parts += [*command.words, f"$ {command.line}", *output, ""]
    for name, text in script.files:
        parts += [f"-- {name} --", *text.splitlines()]
    return "\n".join(parts) + "\n"


def same(expected: tuple[str, ...], output: list[str]) -> bool:
    """Whether the output is as expected, where `...` stands for any lines of its stream."""
    pattern = "".join(map(_pattern, expected))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in output)) is not None


def open_ended(command: Command) -> bool:
    return any(line.endswith(ANY) for line in command.expected)


def _pattern(line: str) -> str:
    if line[2:] == ANY:
        return rf"(?:{re.escape(line[0])}[^\n]*\n)*"
    if line.endswith(ANY):
        return re.escape(line.removesuffix(ANY)) + r"[^\n]*\n"
    return re.escape(line) + r"\n"


def run(line: str, patch: pytest.MonkeyPatch) -> list[str]:
    """The output of a command line in the working folder, in the form of a script."""
    words = shlex.split(line)
    while words and _SETTING.fullmatch(words[0]):
        name, _, value = words.pop(0).partition("=")
        patch.setenv(name, value)
    given = b""
    if "<" in words:
        at = words.index("<")
        given = Path(words[at + 1]).read_bytes()
        del words[at : at + 2]
    out, err = io.StringIO(), io.StringIO()
    patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    patch.setattr(sys, "stdout", out)
    patch.setattr(sys, "stderr", err)
    commands: dict[str, Callable[[list[str]], int]] = {"kvdsl": main, "cat": _cat, "ls": _ls}
    code = commands[words[0]](words[1:])
    lines = [*_marked("|", out.getvalue()), *_marked("!", err.getvalue())]
    return [*lines, f"? {code}"] if code else lines


def _marked(mark: str, text: str) -> Iterator[str]:
    for line in text.replace(__version__, "{version}").splitlines():
        yield f"{mark} {line}".rstrip()


def _cat(names: list[str]) -> int:
    for name in names:
        sys.stdout.write(Path(name).read_text(encoding="utf-8"))
    return 0


def _ls(names: list[str]) -> int:
    for folder in names or ["."]:
        sys.stdout.writelines(f"{path.name}\n" for path in sorted(Path(folder).iterdir()))
    return 0
