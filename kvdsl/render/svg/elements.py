"""SVG as text: elements, words and whole drawings, escaped and with fixed decimals.

Comes in: names, numbers and words. Goes out: markup that is the same byte for byte every time. A
drawing needs a title and a description, because a picture without them is closed to some readers.
Colours come as attributes (for print, which reads no stylesheet inside a picture) and as classes
(for screens, where the stylesheet follows light and dark).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from kvdsl.render.svg.colours import fill, stroke
from kvdsl.render.svg.scales import fitted
from kvdsl.render.visible import visible

TEXT_FONT = "Inter, 'Helvetica Neue', Arial, sans-serif"
CODE_FONT = "'JetBrains Mono', Menlo, Consolas, monospace"


def decimals(value: float) -> str:
    """A coordinate with at most two decimals, and never `-0`."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def tag(name: str, *inside: str, **attributes: str | float | None) -> str:
    """`tag("rect", x=1, class_="bar")`; an underscore is a hyphen, a last one is dropped."""
    parts = [name]
    for key, value in attributes.items():
        if value is None:
            continue
        shown = decimals(value) if isinstance(value, int | float) else escape(value)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{shown}"')
    start = " ".join(parts)
    return f"<{start}>{''.join(inside)}</{name}>" if inside else f"<{start}/>"


def words(text: str) -> str:
    return escape(visible(text), quote=False)


@dataclass(frozen=True, slots=True)
class Lettering:
    """How words are set. `most` is the width that they may take; longer ones are cut with `…`."""

    size: float = 12
    bold: bool = False
    mono: bool = False
    anchor: str = "start"
    ink: str = "ink"
    most: float | None = None


PLAIN = Lettering()


def lettered(x: float, y: float, text: str, style: Lettering = PLAIN) -> str:
    """Words at a baseline; cut ones keep their whole text as a title to hover."""
    seen = visible(text)
    kept = seen if style.most is None else fitted(seen, style.most, style.size, bold=style.bold)
    inside = escape(kept, quote=False)
    if kept != seen:
        inside += tag("title", escape(seen, quote=False))
    return tag(
        "text",
        inside,
        x=x,
        y=y,
        font_size=style.size,
        font_weight="600" if style.bold else None,
        font_family=CODE_FONT if style.mono else None,
        text_anchor=style.anchor if style.anchor != "start" else None,
        **fill(style.ink),
    )


def line(x1: float, y1: float, x2: float, y2: float, ink: str, **more: str | float) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, **stroke(ink), **more)


@dataclass(frozen=True, slots=True)
class Hatch:
    """A pattern laid over a colour, so that print without colour tells it apart."""

    name: str
    path: str
    size: float
    ink: str
    width: float = 1
    turn: int = 0


HATCHES = (
    Hatch("stripes", "M0 0V6", 6, "ink-soft", 1.4, 45),
    Hatch("rising", "M0 0V5", 5, "ink-soft", 1, -45),
    Hatch("crossed", "M0 0H7M0 0V7", 7, "ink-faint", 1, 45),
    Hatch("dots", "M1.5 1.5h1.4M5.5 5.5h1.4", 8, "ink-soft", 1.4),
    Hatch("dashes", "M1 2h4", 6, "ink-soft", 1.2),
)


def hatched(drawing: str, name: str) -> dict[str, str]:
    """Attributes that fill a shape with a pattern of this drawing."""
    return {"fill": f"url(#{drawing}-{name})"}


def _patterns(drawing: str, body: str) -> str:
    """Definitions of the patterns that the body uses; unused ones would be dead weight."""
    used = [h for h in HATCHES if f"#{drawing}-{h.name})" in body]
    if not used:
        return ""
    made = [
        tag(
            "pattern",
            tag("path", d=h.path, fill="none", stroke_width=h.width, **stroke(h.ink)),
            id=f"{drawing}-{h.name}",
            width=h.size,
            height=h.size,
            patternUnits="userSpaceOnUse",
            patternTransform=f"rotate({h.turn})" if h.turn else None,
        )
        for h in used
    ]
    return tag("defs", *made)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a drawing is called: `name` is its id, `title` and `description` its words."""

    name: str
    title: str
    description: str


def drawing(frame: Frame, width: float, height: float, parts: Iterable[str]) -> str:
    body = "".join(parts)
    return tag(
        "svg",
        tag("title", words(frame.title), id=f"{frame.name}-title"),
        tag("desc", words(frame.description), id=f"{frame.name}-desc"),
        _patterns(frame.name, body),
        body,
        xmlns="http://www.w3.org/2000/svg",
        id=frame.name,
        role="img",
        aria_labelledby=f"{frame.name}-title {frame.name}-desc",
        viewBox=f"0 0 {decimals(width)} {decimals(height)}",
        width=width,
        height=height,
        font_family=TEXT_FONT,
        font_size=12,
    )
