"""The palette: one place for every colour of a picture, in light and dark.

Hues are those of Okabe and Ito (2008), tuned so that words in `ink` keep a contrast of 4.5 on every
fill in both modes. Nothing is told by colour alone: fills also differ by pattern, letter or place.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PALETTE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "paper": ("#ffffff", "#15181c"),
        "panel": ("#f6f7f9", "#1c2026"),
        "panel-deep": ("#eceff2", "#252a31"),
        "ink": ("#16191d", "#eceef0"),
        "ink-soft": ("#525b66", "#a9b2bc"),
        "ink-faint": ("#8b949e", "#6d7681"),
        "rule": ("#d5dae0", "#363d46"),
        "frame": ("#aab2bc", "#4d5661"),
        "alarm": ("#c2400c", "#ff8a5c"),
        "wire": ("#2f6690", "#7db8e8"),
        "calm": ("#525b66", "#a9b2bc"),
        "weights-0": ("#8fbde0", "#1f5582"),
        "weights-1": ("#b5d3ea", "#2b4c68"),
        "weights-2": ("#d3e4f2", "#304252"),
        "cache": ("#f3c273", "#80540c"),
        "free": ("#ffffff", "#15181c"),
        "reserve": ("#dfe3e8", "#3a414b"),
        "over": ("#f0f1f3", "#262b32"),
        "read": ("#8fbde0", "#1f5582"),
        "compute": ("#8fd0b6", "#16604a"),
        "attention": ("#f3c273", "#80540c"),
        "collective": ("#e2abc9", "#7a3f62"),
        "other": ("#dfe3e8", "#3a414b"),
        "hue-0": ("#a9cfee", "#1c4f7a"),
        "hue-1": ("#f6cd8a", "#7a500a"),
        "hue-2": ("#9fd9c0", "#155c46"),
        "hue-3": ("#f3b08d", "#8a3c12"),
        "hue-4": ("#e3b4d0", "#743b5d"),
        "hue-5": ("#efe58f", "#635c0e"),
        "hue-6": ("#c5c3ec", "#474480"),
        "hue-7": ("#d3c4b0", "#5c4b35"),
        "line-0": ("#0b5fa5", "#6cb6f2"),
        "line-1": ("#b84a00", "#ff9d5c"),
        "line-2": ("#00795c", "#4fcfa8"),
        "line-3": ("#96407a", "#ea9acb"),
        "line-4": ("#7a5c00", "#e0b83d"),
        "line-5": ("#4b4aa0", "#a9a7f5"),
    }
)
"""Name to colour in light and in dark."""

HUES = 8
LINES = 6


def fill(name: str) -> dict[str, str]:
    return {"class_": f"f-{name}", "fill": PALETTE[name][0]}


def stroke(name: str) -> dict[str, str]:
    return {"class_": f"s-{name}", "stroke": PALETTE[name][0]}


def painted(inside: str, edge: str) -> dict[str, str]:
    """Attributes of a shape with a fill and an edge."""
    return {
        "class_": f"f-{inside} s-{edge}",
        "fill": PALETTE[inside][0],
        "stroke": PALETTE[edge][0],
    }


def dark_rules() -> str:
    """The stylesheet's rules for dark: in light, the attributes of the shapes already say it."""
    fills = "".join(f".f-{name}{{fill:{dark}}}" for name, (_, dark) in PALETTE.items())
    edges = "".join(f".s-{name}{{stroke:{dark}}}" for name, (_, dark) in PALETTE.items())
    return f"@media (prefers-color-scheme:dark){{{fills}{edges}}}"
