"""What came of many texts: how far they came, what they took, and those that broke kvdsl.

Comes in: one text's way after the other. Goes out: figures, and a table of them. Not its job:
walking a text (trial).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

ENDS = ("diagnosed", "clean", "broke kvdsl")
"""Every text is one of these; all others are further steps of a share."""

STEPS = ("diagnosed", "clean", "broke kvdsl", "formatted", "planned", "rendered")
"""In the order that they are told; commands follow by name."""


@dataclass(frozen=True, slots=True)
class Broke:
    """A text that kvdsl could not take. `number` and the seed make it again."""

    number: int
    place: str
    text: str
    trace: str
    least: str = ""
    """What is left of the text where all is left out that the fault does not need."""


@dataclass(slots=True)
class Class:
    """Texts of about one size: how many, and what they and their checks came to."""

    texts: int = 0
    characters: int = 0
    seconds: float = 0.0

    def add(self, other: Class) -> None:
        self.texts += other.texts
        self.characters += other.characters
        self.seconds += other.seconds


@dataclass(slots=True)
class Figures:
    texts: int = 0
    characters: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    slowest_text: str = ""
    memory: int = 0
    classes: dict[int, Class] = field(default_factory=dict)
    broke: dict[str, Broke] = field(default_factory=dict)

    def walked(self, text: str, steps: Iterable[str], check: float, whole: float) -> None:
        """A text that was taken. Seconds: of its check, and of all that was done with it."""
        self.texts += 1
        self.characters += len(text)
        self.steps.update(steps)
        self._class(len(text)).add(Class(1, len(text), check))
        if whole > self.slowest:
            self.slowest, self.slowest_text = whole, text

    def broken(self, broke: Broke) -> None:
        self.texts += 1
        self.characters += len(broke.text)
        self.steps["broke kvdsl"] += 1
        self._note(broke)

    def add(self, part: Figures) -> None:
        self.texts += part.texts
        self.characters += part.characters
        self.steps += part.steps
        self.memory = max(self.memory, part.memory)
        for power, found in part.classes.items():
            self.classes.setdefault(power, Class()).add(found)
        if part.slowest > self.slowest:
            self.slowest, self.slowest_text = part.slowest, part.slowest_text
        for broke in part.broke.values():
            self._note(broke)

    @property
    def growth(self) -> float | None:
        """The exponent that the seconds of a check grow with: 1 is linear, 2 square. Fitted over
        the means of the classes, the texts below 1,000 characters left out, whose time is what
        every check takes; None where there are too few."""
        points = [
            (math.log(c.characters / c.texts), math.log(c.seconds / c.texts))
            for power, c in self.classes.items()
            if power >= 10 and c.texts >= 10
        ]
        if len(points) < 3:
            return None
        x_mean = sum(x for x, _ in points) / len(points)
        y_mean = sum(y for _, y in points) / len(points)
        spread = sum((x - x_mean) ** 2 for x, _ in points)
        return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread

    def _class(self, characters: int) -> Class:
        return self.classes.setdefault(characters.bit_length(), Class())

    def _note(self, broke: Broke) -> None:
        """The shortest text for each place is the one to look at."""
        known = self.broke.get(broke.place)
        if known is None or len(broke.text) < len(known.text):
            self.broke[broke.place] = broke


def united(parts: Iterable[Figures]) -> Figures:
    whole = Figures()
    for part in parts:
        whole.add(part)
    return whole


def table(figures: Figures, taken: float) -> str:
    """The figures for a person; times are told and never judged."""
    return "\n".join(_lines(figures, taken)) + "\n"


def _lines(figures: Figures, taken: float) -> Iterator[str]:
    each = figures.texts / taken if taken else 0
    yield f"{'texts':<14} {figures.texts:>11,}   {figures.characters:,} characters"
    for step in (*STEPS, *sorted(figures.steps.keys() - set(STEPS))):
        count = figures.steps[step]
        yield f"  {step:<12} {count:>11,}   {count / max(1, figures.texts):.1%}"
    yield f"{'time':<14} {taken:>9,.0f} s   {each:,.0f} texts a second"
    yield f"{'peak memory':<14} {figures.memory / 2**20:>7,.0f} MiB   in one process"
    slowest = f"of {len(figures.slowest_text):,} characters, all its steps"
    yield f"{'slowest text':<14} {figures.slowest:>9,.2f} s   {slowest}"
    yield "check, by size"
    for power, found in sorted(figures.classes.items()):
        mean = 1000 * found.seconds / found.texts
        size = f"up to {2**power - 1:,}"
        yield f"  {size:<14} {found.texts:>9,}   {mean:,.1f} ms a text"
    if figures.growth is not None:
        yield f"{'growth':<14} {figures.growth:>11.2f}   exponent of time over size; 1 is linear"
