"""Tables, written as text and Markdown.

Comes in: texts and quantities in rows. Goes out: lines. A row that belongs to no quantity (a
sentence, a picture) is not a table's. Not its job: what stands in a plan's tables (plan_tables) or
around them (terminal).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvdsl.render.characters import padded, safe, width, wrapped
from kvdsl.units import Quantity, decimals, shown, unit

Cell = str | Quantity | None

NOTHING = "-"
"""What stands where a plan has no value."""


@dataclass(frozen=True, slots=True)
class Table:
    """`units[i]` is the unit of column i (every quantity in it is written so, with `digits` behind
    the point), or empty where each cell says its own. `best` are cells that win their row."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    units: tuple[str, ...]
    digits: int = 2
    best: frozenset[tuple[int, int]] = frozenset()
    notes: tuple[str, ...] = ()
    """What stands below it: why rows are empty."""
    keys: int = 1
    """So many columns at the left name a row."""


def measures(name: str, quantity: Quantity) -> bool:
    """Whether a quantity can be written in that unit."""
    known = unit(name)
    return known is not None and known[0] == quantity.dimension


def cell_text(table: Table, row: int, column: int) -> str:
    """A cell for people: rounded, in its column's unit, the best of a row with a star."""
    cell = table.rows[row][column]
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        text = safe(cell)
    elif measures(table.units[column], cell):
        text = _rounded(float(cell.in_unit(table.units[column])), table.digits)
    else:
        text = shown(cell)
    return f"{text} *" if (row, column) in table.best else text


def _rounded(number: float, digits: int) -> str:
    """With so many digits; what is there, but less than the last of them, is not zero."""
    least = 10.0**-digits
    return f"< {least:.{digits}f}" if 0 < number < least / 2 else decimals(number, digits)


def as_text(table: Table, columns: int) -> list[str]:
    """Aligned lines; figures stand to the right. A table that is too wide comes in pieces, and
    words among figures are as wide as those at most: the rest goes on a line below."""
    texts = [[cell_text(table, r, c) for c in range(len(row))] for r, row in enumerate(table.rows)]
    figures = _figures(table)
    heads = [safe(head) for head in table.header]
    starred = {c for _, c in table.best if c < len(figures) and figures[c]}
    texts = [  # room for the star, so that figures without one end in the same column
        [t if t.endswith(" *") or c not in starred else t + "  " for c, t in enumerate(row)]
        for row in texts
    ]
    widths = [
        max(
            [
                width(heads[c]),
                *(width(row[c]) for r, row in enumerate(texts) if _counts(table, r, c, figures)),
            ]
        )
        for c in range(len(heads))
    ]
    lines: list[str] = []
    for piece in _pieces(widths, columns, table.keys):
        lines += [""] if lines else []
        for row in (heads, *texts):
            cells = [_folded(row[c], widths[c]) for c in piece]
            for deep in range(max(map(len, cells))):
                level = (cell[deep] if deep < len(cell) else "" for cell in cells)
                told = (
                    padded(t, widths[c], right=figures[c])
                    for t, c in zip(level, piece, strict=True)
                )
                lines.append(("  " + "  ".join(told)).rstrip())
    for note in table.notes:
        lines += wrapped(note, columns, "  ", "    ")
    return lines


def _figures(table: Table) -> list[bool]:
    """For each column whether it has figures."""
    return [
        any(isinstance(row[c], Quantity) for row in table.rows) for c in range(len(table.header))
    ]


def _counts(table: Table, row: int, column: int, figures: Sequence[bool]) -> bool:
    """Whether a cell may widen its column."""
    return not figures[column] or isinstance(table.rows[row][column], Quantity)


def _folded(text: str, most: int) -> list[str]:
    if width(text) <= most:
        return [text]
    return wrapped(text.rstrip(), most, "", "")


def _pieces(widths: Sequence[int], columns: int, keys: int) -> Iterator[list[int]]:
    """Indices of columns that fit on a line together, those that name a row in each, but the first
    alone where they leave no room for figures."""
    leading = keys if sum(widths[:keys]) + 2 * keys <= columns // 2 else 1
    lead = list(range(leading))
    taken = sum(widths[c] + 2 for c in lead)
    piece, used = [*lead], taken
    for index in range(leading, len(widths)):
        if used + 2 + widths[index] > columns and len(piece) > leading:
            yield piece
            piece, used = [*lead], taken
        piece.append(index)
        used += 2 + widths[index]
    yield piece


def as_markdown(table: Table) -> str:
    figures = _figures(table)
    lines = [_row(table.header), "|" + "|".join(" --: " if f else " --- " for f in figures) + "|"]
    for index, row in enumerate(table.rows):
        lines.append(_row(cell_text(table, index, column) for column in range(len(row))))
    lines += ["", *(f"- {_escaped(note)}" for note in table.notes)] if table.notes else []
    return f"### {_escaped(table.title)}\n\n" + "\n".join(lines) + "\n"


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(_escaped(text) or " " for text in texts) + " |"


def _escaped(text: str) -> str:
    """Text that Markdown does not take for markup: a name may hold anything."""
    return "".join("\\" + sign if sign in "\\|<>[]`*_&#!" else sign for sign in safe(text))
