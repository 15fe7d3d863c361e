"""The console: the two streams, their width, and whether they show colour.

Made once, by the application; commands get it and write to it. Not its job: what is written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import TextIOWrapper
from typing import Literal, TextIO, cast

from kvdsl.cli.streams import Stream
from kvdsl.render.paint import Paint

Colour = Literal["auto", "always", "never"]

COLUMNS = 80
"""Width of what is no terminal, a file, a pipe or a log, where `COLUMNS` says nothing."""

NARROWEST, WIDEST = 40, 120
"""Sentences wrap between these: no line of prose is easy to read beyond the second."""


@dataclass(frozen=True, slots=True)
class Console:
    """`data` is what a program may read, `talk` is for people."""

    data: TextIO
    talk: TextIO
    columns: int
    colour: Colour
    no_colour: bool
    debug: bool
    arguments: tuple[str, ...] = ()
    """The words of the command line, to find what the same words printed before."""

    @staticmethod
    def of(environment: Mapping[str, str]) -> Console:
        """The process's own streams. A character that a stream cannot encode is spelt out: a
        report that ends in the middle would be worse."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        no_colour = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
        debug = environment.get("KVDSL_DEBUG") == "1"
        data = cast(TextIO, Stream(sys.stdout))
        talk = cast(TextIO, Stream(sys.stderr, dropped=True))
        columns = _columns(data, environment.get("COLUMNS", ""))
        return Console(data, talk, columns, "auto", no_colour, debug)

    def coloured(self, colour: Colour) -> Console:
        return replace(self, colour=colour)

    @property
    def data_paint(self) -> Paint:
        return Paint(colour=self._shows_colour(self.data))

    @property
    def talk_paint(self) -> Paint:
        return Paint(colour=self._shows_colour(self.talk))

    def write(self, text: str) -> None:
        self.data.write(text)

    def say(self, text: str) -> None:
        """A line of talk. What stands on stdout comes first, so that a terminal shows them in the
        order they were written."""
        self.data.flush()
        self.talk.write(text if text.endswith("\n") else text + "\n")

    def silence(self) -> None:
        """Neither stream says anything more, not even as Python ends."""
        for stream in (self.data, self.talk):
            if isinstance(stream, Stream):
                stream.silence()

    def _shows_colour(self, stream: TextIO) -> bool:
        if self.colour != "auto":
            return self.colour == "always"
        return not self.no_colour and stream.isatty()


def _columns(stream: TextIO, asked: str) -> int:
    """Of the terminal; of what is none, those that the environment asks."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        columns = 0
    columns = columns or (int(asked) if asked.isdecimal() and len(asked) < 6 else 0)
    return min(max(columns, NARROWEST), WIDEST) if columns else COLUMNS
