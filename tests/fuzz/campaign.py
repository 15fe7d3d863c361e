"""Many texts, one after the other, and what became of them.

Comes in: how many, and a seed. Goes out: figures and the texts that broke kvdsl, each once a place
of the fault. Not its job: one text (trial).
"""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from random import Random

from tests.fuzz.mutations import mutated
from tests.fuzz.specs import spec
from tests.fuzz.trial import Overtime, Way, limited, walked

MOST_MEMORY = 3 * 2**30
"""Bytes of address space that a process may take."""

ROOT = Path(__file__).resolve().parent.parent.parent
WAYS: tuple[Way, ...] = ("all", "check", "check", "plan", "check", "check", "plan", "check")
"""How far one text goes after the other."""


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
    memory: int = 0
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
        if way < 0.5:
            text = spec(random)
        elif way < 0.75:
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
    figures.memory = peak()
    return figures


def run_in_parallel(seed: int, runs: int, first: int, seconds: float | None, jobs: int) -> Figures:
    """The same texts, shared out over processes. Each has its own bound of memory."""
    each = -(-runs // jobs)
    starts = range(first, first + runs, each)
    sizes = [min(each, first + runs - start) for start in starts]
    with ProcessPoolExecutor(jobs, initializer=bound_memory) as pool:
        found = pool.map(run, repeat(seed), sizes, starts, repeat(seconds))
        return united(found)


def united(parts: Iterable[Figures]) -> Figures:
    whole = Figures()
    for part in parts:
        whole.runs += part.runs
        whole.characters += part.characters
        whole.outcomes += part.outcomes
        whole.memory = max(whole.memory, part.memory)
        if part.slowest > whole.slowest:
            whole.slowest, whole.slowest_text = part.slowest, part.slowest_text
        for broke in part.broke.values():
            _note(whole, broke)
    return whole


def bound_memory() -> None:
    """A text that needs more ends in a MemoryError, which is a fault."""
    try:
        import resource
    except ImportError:  # no such limits on this system
        return
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def peak() -> int:
    """The most bytes that this process ever held; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _tried(figures: Figures, number: int, text: str) -> None:
    try:
        with limited():
            figures.outcomes[walked(text, WAYS[number % len(WAYS)])] += 1
    except (Exception, Overtime) as fault:  # noqa: BLE001 - any fault is what is looked for
        figures.outcomes["broke kvdsl"] += 1
        frames = traceback.extract_tb(fault.__traceback__)
        inner = [f for f in frames if "kvdsl" in Path(f.filename).parts] or list(frames)
        place = f"{type(fault).__name__} in {Path(inner[-1].filename).name}:{inner[-1].lineno}"
        if isinstance(fault, Overtime):
            place = "Overtime"
        trace = "".join(traceback.format_exception(fault))
        _note(figures, Broke(number, place, text, trace))


def _note(figures: Figures, broke: Broke) -> None:
    """The shortest text for each place is the one to look at."""
    known = figures.broke.get(broke.place)
    if known is None or len(broke.text) < len(known.text):
        figures.broke[broke.place] = broke
