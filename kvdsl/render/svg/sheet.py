"""Placements as one drawing that stands by itself, one below the other.

Comes in: pictures with their titles. Goes out: an SVG. Not its job: a picture in a report, which
has its words around it (placement).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvdsl.plan import Picture
from kvdsl.render.places import slugs
from kvdsl.render.svg.boxes import WIDTH
from kvdsl.render.svg.elements import Frame, Lettering, drawing, lettered
from kvdsl.render.svg.placement import placement

HEAD = 26
"""Room for a title above its picture."""

GAP = 18
_HEIGHT = re.compile(r'viewBox="0 0 [\d.]+ ([\d.]+)"')


def sheet(pictures: Sequence[tuple[str, Picture]]) -> str:
    """One drawing, ending in a newline. Raises ValueError for no picture."""
    if not pictures:
        raise ValueError("a drawing needs a picture")
    titles = [title for title, _ in pictures]
    parts, y = [], 0.0
    for name, (title, picture) in zip(slugs(titles), pictures, strict=True):
        drawn = placement(f"picture-{name}", title, picture)
        height = _HEIGHT.search(drawn)
        assert height is not None
        parts.append(lettered(0, y + HEAD - 10, title, Lettering(size=14, bold=True, most=WIDTH)))
        parts.append(drawn.replace("<svg ", f'<svg y="{y + HEAD:g}" ', 1))
        y += HEAD + float(height[1]) + GAP
    frame = Frame("sheet", ", ".join(titles), "Where ranks, shards and copies lie.")
    return drawing(frame, WIDTH, y, parts) + "\n"
