"""Many texts, one after the other, and what became of them.

Comes in: how many, and a seed. Goes out: figures and the texts that broke kvdsl, each once a place
of the fault. Not its job: one text (trial).
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz.mutations import mutated
from tests.fuzz.specs import spec
from tests.fuzz.trial import Overtime, limited, walked

ROOT = Path(__file__).resolve().parent.parent.parent
WHOLE_EVERY = 8
"""One text in so many is also drawn as graphs and as a report page."""


@dataclass(frozen=True, slots=True)
class Broke:
    """A text that kvdsl could not take. `number` and the seed make it again."""

    number: int
    place: str
    text: str
    trace: str


@dataclass(slots=True)
class Figures:
    runs: int = 0
    characters: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    slowest_text: str = ""
    broke: dict[str, Broke] = field(default_factory=dict)


def corpus() -> tuple[str, ...]:
    """Real specs to damage: examples, and what tests hold of errors, rules and formatting."""
    folders = ("specs/examples", "specs/catalog", "tests/errors", "tests/rules", "tests/format")
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.kvspec"))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return tuple(text for text in texts if len(text) < 6_000)


def texts(seed: int, first: int, runs: int, base: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Every text by its number. Each has its own source of randomness, so that one can be made
    again without those before it."""
    for number in range(first, first + runs):
        random = Random(f"{seed}:{number}")
        way = random.random()
        if way < 0.35:
            text = spec(random)
        elif way < 0.7:
            text = mutated(random, spec(random))
        else:
            text = mutated(random, random.choice(base))
        yield number, text


def run(seed: int, runs: int, first: int = 0, seconds: float | None = None) -> Figures:
    """So many texts, or as many as fit into so many seconds."""
    figures = Figures()
    started = time.perf_counter()
    for number, text in texts(seed, first, runs, corpus()):
        begun = time.perf_counter()
        if seconds is not None and begun - started > seconds:
            break
        _tried(figures, number, text)
        taken = time.perf_counter() - begun
        figures.runs += 1
        figures.characters += len(text)
        if taken > figures.slowest:
            figures.slowest, figures.slowest_text = taken, text
    return figures


def _tried(figures: Figures, number: int, text: str) -> None:
    try:
        with limited():
            figures.outcomes[walked(text, whole=number % WHOLE_EVERY == 0)] += 1
    except (Exception, Overtime) as fault:  # noqa: BLE001 - any fault is what is looked for
        figures.outcomes["broke kvdsl"] += 1
        frames = traceback.extract_tb(fault.__traceback__)
        inner = [f for f in frames if "kvdsl" in Path(f.filename).parts] or list(frames)
        place = f"{type(fault).__name__} in {Path(inner[-1].filename).name}:{inner[-1].lineno}"
        if isinstance(fault, Overtime):
            place = "Overtime"
        trace = "".join(traceback.format_exception(fault))
        # The shortest text for each place is the one to look at.
        known = figures.broke.get(place)
        if known is None or len(text) < len(known.text):
            figures.broke[place] = Broke(number, place, text, trace)
