"""Predicts measured collectives and prints how far off it is.

    python benchmarks/collectives.py FILE.csv...

Every row is predicted through the public API on the catalog's hardware; no row changes a constant.
Errors are |predicted / measured - 1|.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from collective_rows import Row, quoter, read

from kvdsl.planning.quotes import Question, Quoter, Refused


@dataclass(frozen=True, slots=True)
class Guess:
    """A row with what was predicted, in seconds."""

    row: Row
    time: float
    low: float
    high: float
    basis: str
    algorithm: str

    @property
    def error(self) -> float:
        return self.time / self.row.seconds - 1

    @property
    def inside(self) -> bool:
        return self.low <= self.row.seconds <= self.high


def predicted(rows: Sequence[Row]) -> tuple[list[Guess], list[tuple[Row, str]]]:
    """Guesses, and rows that were refused with the reason; rows that differ in size alone are one
    array call."""
    together: dict[object, list[Row]] = defaultdict(list)
    refused = [(row, row.why) for row in rows if row.why or row.question is None]
    for row in rows:
        if not row.why and row.question is not None:
            same = replace(row.question, size=None, tokens=None)
            together[row.spec, row.on, row.libraries, same, row.question.tokens is None].append(row)
    asked: dict[str, Quoter] = {}
    guesses: list[Guess] = []
    for alike in together.values():
        first = alike[0]
        if first.spec not in asked:
            asked[first.spec] = quoter(first.spec or "kvspec 1\n")
        try:
            guesses += _guessed(asked[first.spec], alike)
        except Refused as why:
            refused += [(row, str(why)) for row in alike]
    return guesses, refused


def _guessed(source: Quoter, rows: Sequence[Row]) -> list[Guess]:
    first = rows[0].question
    assert isinstance(first, Question)
    questions = [row.question for row in rows if row.question is not None]
    if first.tokens is None:
        many = replace(first, size=np.array([float(q.size) for q in questions]))
    else:
        many = replace(first, tokens=np.array([float(q.tokens) for q in questions]))
    found = source.quote(rows[0].on, many, rows[0].libraries)
    name = "+".join(found.algorithms)
    return [
        Guess(row, float(time), float(low), float(high), found.basis, name)
        for row, time, low, high in zip(rows, found.time, found.low, found.high, strict=True)
        if np.isfinite(time)
    ]


# --- tables ---------------------------------------------------------------------------------------

BANDS = ((0, "to 32 KiB"), (2**15, "to 1 MiB"), (2**20, "to 16 MiB"), (2**24, "above 16 MiB"))


def size_band(guess: Guess) -> str:
    return [name for least, name in BANDS if guess.row.size > least or not least][-1]


def line(title: str, guesses: Sequence[Guess]) -> str:
    errors = 100 * np.abs(np.array([g.error for g in guesses]))
    inside = 100 * np.mean([g.inside for g in guesses])
    bias = 100 * float(np.median([g.error for g in guesses]))
    return (
        f"{title:<34} {len(guesses):>6} {np.median(errors):>8.1f} {errors.mean():>8.1f}"
        f" {np.percentile(errors, 90):>8.1f} {inside:>8.0f} {bias:>+8.1f}"
    )


HEAD = f"{'%':<34} {'rows':>6} {'median':>8} {'mean':>8} {'p90':>8} {'in band':>8} {'bias':>8}"

TABLES: tuple[tuple[str, Callable[[Guess], str]], ...] = (
    ("by hardware", lambda g: g.row.hardware),
    ("by collective", lambda g: g.row.collective.replace("_", "-")),
    ("by library", lambda g: f"{g.row.library}, {_span(g.row.nodes)}"),
    ("by size", size_band),
    ("by group", lambda g: f"{g.row.ranks} ranks on {_span(g.row.nodes)}"),
    ("by basis", lambda g: g.basis),
)


def _span(nodes: int) -> str:
    return "one node" if nodes <= 1 else f"{nodes} nodes"


def tables(guesses: Sequence[Guess]) -> str:
    found = [HEAD, line("all", guesses)]
    for title, key in TABLES:
        found += ["", title]
        kinds: dict[str, list[Guess]] = defaultdict(list)
        for guess in guesses:
            kinds[key(guess)].append(guess)
        found += [line(f"  {name}", kinds[name]) for name in sorted(kinds)]
    return "\n".join(found)


def main(arguments: Sequence[str]) -> int:
    rows = [row for name in arguments for row in read(Path(name))]
    guesses, refused = predicted(rows)
    print(f"rows {len(rows)}, predicted {len(guesses)}, refused {len(refused)}")
    for why, count in Counter(why for _, why in refused).most_common():
        print(f"  {count:>6}  {why}")
    if guesses:
        print()
        print(tables(guesses))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
