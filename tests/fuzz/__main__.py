"""`python -m tests.fuzz --runs 100000 --seed 1`: tries texts until they are through.

Exit code 1 if any broke kvdsl; the shortest text for each place is written below `--keep`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import run_in_parallel
from tests.fuzz.figures import Figures, table

AGAIN = "python -m tests.fuzz --seed {} --first {} --runs 1 --jobs 1"
"""How a text is made and tried again."""

TOLD_EVERY = 30.0
"""Seconds between two words of how far it is."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first text")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    started = told = time.monotonic()
    until = None if given.seconds is None else started + given.seconds
    figures = Figures()
    try:
        parts = run_in_parallel(given.seed, given.runs, given.first, until, given.jobs, given.keep)
        for part in parts:
            for place in part.broke.keys() - figures.broke.keys():
                number = part.broke[place].number
                _say(f"{place}: text {number}; `{AGAIN.format(given.seed, number)}`")
            figures.add(part)
            _keep(figures, given.keep)
            if time.monotonic() - told > TOLD_EVERY:
                told = time.monotonic()
                _say(_progress(figures.texts, given.runs, told - started))
    except RuntimeError as lost:
        _say(str(lost))
        return 1
    finally:
        print(f"seed {given.seed}, from text {given.first:,}")
        print(table(figures, time.monotonic() - started), end="")
    for place, broke in sorted(figures.broke.items()):
        print(f"\n{place}: text {broke.number}, {len(broke.text):,} characters")
        print(f"again: {AGAIN.format(given.seed, broke.number)}")
        print(f"the least of it that breaks there:\n{broke.least or broke.text}\n{broke.trace}")
    return 1 if figures.broke else 0


def _progress(texts: int, runs: int, taken: float) -> str:
    left = taken / texts * (runs - texts) if texts else 0
    return f"{texts:,} of {runs:,} texts, about {left / 60:.0f} min left"


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _keep(figures: Figures, folder: Path) -> None:
    slowest = figures.slowest_text.encode("utf-8", "surrogatepass")
    (folder / "slowest.kvspec").write_bytes(slowest)
    for broke in figures.broke.values():
        for stem, text in ((f"{broke.number}", broke.text), (f"{broke.number}.least", broke.least)):
            path = folder / f"{stem}.kvspec"
            path.write_bytes(text.encode("utf-8", "surrogatepass"))


if __name__ == "__main__":
    sys.exit(main())
