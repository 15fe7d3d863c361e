"""Lines one under the other share their columns.

Comes in: rows of a paragraph (no empty line inside), cut where a column may start. Goes out: their
lines. Not its job: what a row says (formatter).

    budget   { utilization = 90 % }  # signs and braces of neighbours of one shape
    workload { context = 1 Mtok }    # comments of the whole paragraph
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

_UNLIMITED = 1000

_COMMENT_GAP = 2
_WIDEST_COMMENT_GAP = 24
"""A comment keeps the column that its author chose, if it is not farther behind its line."""


@dataclass(frozen=True, slots=True)
class Key:
    """Neighbours with equal keys share a column, if their widths differ by `spread` at most."""

    shape: Hashable
    spread: int = _UNLIMITED


@dataclass(frozen=True, slots=True)
class Row:
    """One line: `cells` with a blank between, and a key for each cell but the last.

    `above` are comment lines before it. `column` is where its comment was written. `block` says
    that it holds one whole block, `opens` that it ends in the `{` of a block on several lines.
    """

    cells: tuple[str, ...]
    keys: tuple[Key, ...] = ()
    above: tuple[str, ...] = ()
    comment: str = ""
    column: int = 0
    block: bool = False
    opens: bool = False


def lines(rows: Sequence[Row], indent: int, width: int) -> Iterator[str]:
    margin = " " * indent
    texts = _aligned(rows, width - indent)
    column = _comment_column(rows, texts, indent)
    for row, text in zip(rows, texts, strict=True):
        yield from (margin + comment for comment in row.above)
        line = margin + text
        if row.comment:
            gap = max(column - len(line), 1)
            line += " " * gap + row.comment
        yield line


def _aligned(rows: Sequence[Row], room: int) -> list[str]:
    cells = [list(row.cells) for row in rows]
    for column in range(max((len(row.keys) for row in rows), default=0)):
        for run in _runs(rows, column):
            widths = [len(rows[index].cells[column]) for index in run]
            widest = max(widths)
            too_far = widest - min(widths) > rows[run[0]].keys[column].spread
            longest = max(len(" ".join(cells[i])) + widest - len(cells[i][column]) for i in run)
            if too_far or (column > 0 and longest > room):
                continue  # a column inside braces is not worth a line too long
            for index in run:
                if not rows[index].opens:
                    cells[index][column] = cells[index][column].ljust(widest)
    return [" ".join(row) for row in cells]


def _runs(rows: Sequence[Row], column: int) -> Iterator[list[int]]:
    """Neighbours that share this column, and so all columns before it."""
    start = 0
    while start < len(rows):
        keys = rows[start].keys[: column + 1]
        if len(keys) <= column:
            start += 1
            continue

        def shares(index: int, keys: tuple[Key, ...] = keys) -> bool:
            row = rows[index]
            # A block on several lines widens the column only of a block above it.
            stands_apart = row.opens and not rows[index - 1].block
            return row.keys[: column + 1] == keys and not stands_apart

        run = [start, *takewhile(shares, range(start + 1, len(rows)))]
        yield run
        start = run[-1] + 1


def _comment_column(rows: Sequence[Row], texts: Sequence[str], indent: int) -> int:
    """Where the comments stand: as the first was written, unless that is too near or too far."""
    commented = [(row, text) for row, text in zip(rows, texts, strict=True) if row.comment]
    if not commented:
        return 0
    widest = indent + max(len(text) for _, text in commented)
    written = commented[0][0].column
    if widest < written <= widest + _WIDEST_COMMENT_GAP:
        return written
    return widest + _COMMENT_GAP
