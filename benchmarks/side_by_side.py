"""Commands timed side by side: one run of each in turn, so that a slow moment hits all alike.

Comes in: commands by name, the first the yardstick. Goes out: medians, spreads and ratios.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

Command = Sequence[str]


@dataclass(frozen=True)
class Timing:
    """Seconds of all runs of one command."""

    name: str
    runs: tuple[float, ...]

    @property
    def typical(self) -> float:
        return median(self.runs)


def timed(
    commands: Mapping[str, Command], runs: int, environment: Mapping[str, str]
) -> tuple[Timing, ...]:
    """Runs every command `runs` times, in turn. The first round is
    not counted: it fills the system's file cache and the folders of compiled modules."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            taken = _once(command, environment)
            if number:
                seconds[name].append(taken)
    return tuple(Timing(name, tuple(found)) for name, found in seconds.items())


def _once(command: Command, environment: Mapping[str, str]) -> float:
    start = perf_counter()
    done = subprocess.run(
        [sys.executable, *command],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    taken = perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr.decode()[-2000:]}")
    return taken


def table(title: str, timings: Sequence[Timing]) -> str:
    """Milliseconds, and how many times the first row."""
    least = timings[0].typical
    lines = [f"\n{title}", f"{'':<34}{'median':>10}{'fastest':>10}{'slowest':>10}{'times':>8}"]
    for t in timings:
        figures = (t.typical, min(t.runs), max(t.runs))
        shown = "".join(f"{seconds * 1000:>7.1f} ms" for seconds in figures)
        lines.append(f"{t.name:<34}{shown}{t.typical / least:>8.1f}")
    return "\n".join(lines)
