"""`python -m tests.fuzz --runs 100000 --seed 1`: tries texts until they are through.

Exit code 1 if any broke kvdsl; the shortest text for each place is written below `--keep`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import Figures, run_in_parallel


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first text")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    given = parser.parse_args()
    started = time.perf_counter()
    figures = run_in_parallel(given.seed, given.runs, given.first, given.seconds, given.jobs)
    _tell(figures, time.perf_counter() - started)
    _keep(figures, given.keep)
    return 1 if figures.broke else 0


def _tell(figures: Figures, taken: float) -> None:
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(figures.outcomes.items()))
    print(f"{figures.runs:,} texts, {figures.characters:,} characters, {taken:,.0f} s: {counts}")
    print(f"slowest {figures.slowest:.2f} s, most memory {figures.memory / 2**20:,.0f} MiB")
    for place, broke in sorted(figures.broke.items()):
        print(f"\n{place}: text {broke.number}, {len(broke.text):,} characters\n{broke.trace}")


def _keep(figures: Figures, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    slowest = figures.slowest_text.encode("utf-8", "surrogatepass")
    (folder / "slowest.kvspec").write_bytes(slowest)
    for broke in figures.broke.values():
        path = folder / f"{broke.number}.kvspec"
        path.write_bytes(broke.text.encode("utf-8", "surrogatepass"))


if __name__ == "__main__":
    sys.exit(main())
