"""Markdown: tables, links and blocks of code.

Comes in: texts. Goes out: lines of a page. A text may hold backticks; a `|` in it is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MADE = "<!-- Made by `python -m kvdsl.reference`; edit the code or the catalog, not this page. -->"


def document(title: str, *blocks: str) -> str:
    """A page: its title, then its blocks, an empty line between two."""
    return "\n\n".join((f"# {title}", MADE, *(block.strip("\n") for block in blocks))) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(heads), _row(["---"] * len(heads)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") or " " for cell in cells) + " |"


def code(text: str) -> str:
    return f"`{text}`"


def spec(text: str, sort: str) -> str:
    """A block of kvspec. `sort` is `part` (lacks its first line) or `more` (follows the block
    above it)."""
    return f"```kvspec {sort}\n{text}\n```"


def anchor(heading: str) -> str:
    """The place of a heading on its page, as GitHub names it."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return "#" + kept.replace(" ", "-")


def link(text: str, heading: str) -> str:
    return f"[{text}]({anchor(heading)})"
