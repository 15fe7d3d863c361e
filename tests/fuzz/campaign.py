"""Many texts, one after the other or shared out over processes, and what became of them.

Comes in: how many, and a seed. Goes out: figures and the texts that broke kvdsl, each once a place
of the fault. Not its job: one text (trial).
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import repeat
from pathlib import Path
from random import Random

from tests.fuzz.figures import Broke, Figures
from tests.fuzz.growth import KINDS
from tests.fuzz.mutations import mutated
from tests.fuzz.pieces import layout_alone, piece, small
from tests.fuzz.shrinking import shrunk
from tests.fuzz.specs import spec
from tests.fuzz.trial import Overtime, Way, limited, steps_of, walked

MOST_MEMORY = 3 * 2**30
"""Bytes of address space that a process may take."""

GIVEN_UP = 300.0
"""Seconds after which a process that no alarm reaches is ended, with a trace of where it hung."""

SHARE = 250
"""Texts that a process takes at a time."""

DRAWN = (spec, small, small, *[piece] * 14, *[layout_alone] * 8)
"""How a text is drawn; the cheaper the text, the more often."""

ROOT = Path(__file__).resolve().parent.parent.parent


@cache
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
        yield number, _drawn(Random(f"{seed}:{number}"), base)


def _drawn(random: Random, base: Sequence[str]) -> str:
    """A quarter real and damaged, the others drawn, whole or in pieces, every third of them
    damaged; a few are long."""
    way = random.random()
    if way < 0.0005:
        return KINDS[random.choice(tuple(KINDS))](random.randrange(1_000))
    if way < 0.25:
        # The shorter of two: what is long takes most of the time and finds little more.
        return mutated(random, min(random.choices(base, k=2), key=len))
    text = random.choice(DRAWN)(random)
    return mutated(random, text) if random.random() < 0.33 else text


def run(seed: int, runs: int, first: int = 0, until: float | None = None) -> Figures:
    """So many texts, or as many as are done at that time of the monotonic clock."""
    figures = Figures()
    for number, text in texts(seed, first, runs, corpus()):
        if until is not None and time.monotonic() > until:
            break
        _Now.say(number)
        _tried(figures, number, text)
    figures.memory = peak()
    return figures


def run_in_parallel(
    seed: int, runs: int, first: int, until: float | None, jobs: int, folder: Path
) -> Iterator[Figures]:
    """The same texts, shared out over processes, as they are done. Each has its own bound of
    memory. Raises RuntimeError, with the texts to look at, where a process was lost."""
    starts = range(first, first + runs, SHARE)
    sizes = [min(SHARE, first + runs - start) for start in starts]
    for old in folder.glob("now-*"):
        old.unlink()
    try:
        with ProcessPoolExecutor(jobs, initializer=_begin, initargs=(folder,)) as pool:
            yield from pool.map(run, repeat(seed), sizes, starts, repeat(until))
    except BrokenProcessPool:
        last = sorted(path.read_text().strip() for path in folder.glob("now-*"))
        told = "a process was lost, by a hang that no alarm could end or for want of memory"
        raise RuntimeError(f"{told}; it had one of the texts {', '.join(last)}") from None


class _Now:
    """Which text a process has: the one to look at where the process itself is lost."""

    file: int | None = None

    @classmethod
    def say(cls, number: int) -> None:
        if cls.file is not None:
            os.pwrite(cls.file, f"{number:<12}".encode(), 0)
            faulthandler.dump_traceback_later(GIVEN_UP, exit=True)


def _begin(folder: Path) -> None:
    bound_memory()
    _Now.file = os.open(folder / f"now-{os.getpid()}", os.O_CREAT | os.O_WRONLY)


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
    begun = time.process_time()
    way, fault = _walked(number, text)
    if fault is None:
        assert way is not None
        figures.walked(text, way.steps, way.seconds, time.process_time() - begun)
        return
    place = _place(fault)
    trace = "".join(traceback.format_exception(fault))
    least = text
    if not isinstance(fault, Overtime) and place not in figures.broke:
        least = shrunk(text, lambda less: _place(_walked(number, less)[1]) == place)
    figures.broken(Broke(number, place, text, trace, least))


def _walked(number: int, text: str) -> tuple[Way | None, BaseException | None]:
    try:
        with limited():
            return walked(text, steps_of(number)), None
    except (Exception, Overtime) as fault:  # noqa: BLE001 - any fault is what is looked for
        return None, fault


def _place(fault: BaseException | None) -> str:
    """Which fault it is: its kind, and the line of kvdsl's own that it comes from."""
    if fault is None or isinstance(fault, Overtime):
        return "" if fault is None else "Overtime"
    frames = traceback.extract_tb(fault.__traceback__)
    inner = [f for f in frames if "kvdsl" in Path(f.filename).parts] or list(frames)
    return f"{type(fault).__name__} in {Path(inner[-1].filename).name}:{inner[-1].lineno}"
