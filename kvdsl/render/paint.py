"""Colours of the terminal: a style is a name, and whether it shows is decided once.

Comes in: text and a style. Goes out: the text, between escape codes where colour is on. Not its
job: deciding whether the terminal wants colour (cli).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kvdsl.diagnostics import Severity


class Style(Enum):
    """What a piece of text is, with the codes that show it on light and on dark terminals."""

    ERROR = "1;31"
    WARNING = "1;33"
    INFO = "1;36"
    GOOD = "1;32"
    STRONG = "1"
    PLACE = "34"
    FAINT = "2"


SEVERITIES = {
    Severity.ERROR: Style.ERROR,
    Severity.WARNING: Style.WARNING,
    Severity.INFO: Style.INFO,
}


@dataclass(frozen=True, slots=True)
class Paint:
    """`Paint(colour=False)` gives text back as it is."""

    colour: bool

    def __call__(self, style: Style, text: str) -> str:
        return f"\x1b[{style.value}m{text}\x1b[0m" if self.colour and text else text


PLAIN = Paint(colour=False)
