"""Characters on a terminal: what is safe to print, and how many columns it takes.

Comes in: any text, a user's file or name included. Goes out: the same text with nothing in it that
could move the cursor, change colours or reverse the reading order, and its width in columns. Not
its job: colours of our own (paint).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from kvdsl.render.visible import visible

TAB = 4
"""Columns from one tab stop to the next."""


def shown_character(character: str) -> str:
    """One character as it may be printed: `<U+001B>`; `cells` expands the tabs of source."""
    return repr(character)[1:-1] if character in "\t\n" else visible(character)


def safe(text: str) -> str:
    """A text for one line: nothing hidden, newlines and tabs escaped too."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(shown_character, text))


def character_width(character: str) -> int:
    """Columns of a printable character: 0 where it sits on the one before, 2 where it is wide."""
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def width(text: str) -> int:
    """Columns of a text that is safe already."""
    return len(text) if text.isascii() else sum(map(character_width, text))


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """The text filled up with spaces; `right` puts them before it."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def clipped(text: str, columns: int) -> str:
    """The text, or its head and an ellipsis, in at most so many columns."""
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += character_width(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + "…"


def cells(line: str) -> Iterator[tuple[str, int]]:
    """Every character of a source line as it is drawn, with its columns; tabs become spaces."""
    column = 0
    for character in line:
        drawn = " " * (TAB - column % TAB) if character == "\t" else shown_character(character)
        columns = width(drawn)
        yield drawn, columns
        column += columns


def wrapped(text: str, columns: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most so many columns, broken at spaces; `first` and `rest` stand before them.

    A newline in the text is kept. A word that is longer than a line stays whole: addresses and
    formulas are copied from terminals.
    """
    lines: list[str] = []
    start = first
    for paragraph in text.split("\n"):
        # Leading spaces are the writer's: an example in a help text keeps its indentation.
        body = paragraph.lstrip(" ")
        line = start + " " * (len(paragraph) - len(body))
        empty = True
        for word in body.split(" "):
            piece = safe(word)
            if not empty and width(line) + 1 + width(piece) > columns:
                lines.append(line.rstrip())
                line, empty = rest, True
            line += piece if empty else " " + piece
            empty = False
        lines.append(line.rstrip())
        start = rest
    return lines
