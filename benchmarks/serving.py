"""Serving: predicted times beside measured ones, the fit of the engines' pace, left-out tables.

    python benchmarks/serving.py CSV...              predict and score
    python benchmarks/serving.py --fit CSV...        fit the constants, print them as catalog text
    python benchmarks/serving.py --left-out CSV...   score with groups of rows left out in turn
    python benchmarks/serving.py --write FOLDER CSV  write each row's spec

Scores are of clean rows; `all rows` counts the suspicious ones in. No row changes a constant: only
`--fit` fits, and prints what it finds.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

if __package__ in (None, ""):  # run as a script: the checkout is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.serving_predict import Prediction, predict
from benchmarks.serving_rows import Reading, Row, read, shape, stem
from benchmarks.serving_scores import errors, lines

SHOWN = 3
"""Rows named for each reason of a refusal."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("csv", nargs="+", type=Path, help="files with the columns of the table")
    parser.add_argument("--fit", action="store_true", help="fit, and print catalog text")
    parser.add_argument("--left-out", action="store_true", help="leave groups out in turn")
    parser.add_argument("--write", type=Path, help="a folder for the specs of the rows")
    parser.add_argument("--rows", action="store_true", help="print each row")
    chosen = parser.parse_args(arguments)
    reading = read(chosen.csv)
    if chosen.write is not None:
        return written(reading, chosen.write)
    if chosen.fit or chosen.left_out:
        return refitted(reading, left_out=chosen.left_out)
    for line in scored(reading, each=chosen.rows):
        print(line)
    return 0


def scored(reading: Reading, *, each: bool = False) -> Iterator[str]:
    """The report of a reading."""
    found, refused = predict(reading.rows)
    impossible = [p for p in found if p.row.tpot < p.floor]
    clean = [p for p in found if p.row.tpot >= p.floor]
    asked = len(reading.rows) - len(impossible) + len(reading.refused)
    yield f"lines: {reading.lines}"
    for reason, count in sorted(reading.repairs.items()):
        yield f"mended: {count} {reason}"
    doubts = Counter(reason for _, reason in reading.aside)
    if impossible:
        doubts["faster than the data sheet's bandwidth"] += len(impossible)
    for reason, count in sorted(doubts.items()):
        yield f"set aside: {count} {reason}"
    yield from _taken(reading)
    yield f"rows: {asked}"
    yield f"predicted: {len(clean)}"
    turned = [*reading.refused, *refused]
    yield f"refused: {len(turned)} ({len(turned) / max(asked, 1) * 100:.1f} %)"
    for reason, count in Counter(r.reason for r in turned).most_common():
        names = ", ".join([r.id for r in turned if r.reason == reason][:SHOWN])
        yield f"refused: {count} {reason} ({names}{', ...' if count > SHOWN else ''})"
    if each:
        yield from (_row(one) for one in clean)
    if clean:
        yield from lines(clean)
    yield from _everything(reading, found)


def _taken(reading: Reading) -> Iterator[str]:
    """Models that stand for another release of their series."""
    from benchmarks.serving_specs import NoSpec, model

    for path, count in sorted(Counter(row.model for row in reading.rows).items()):
        try:
            name = model(path)
        except NoSpec:
            continue
        if name != stem(path) and shape(path) != shape(name):
            yield f"taken: {count} rows of {path} as models.{name}"


def _row(one: Prediction) -> str:
    row = one.row
    first = "-" if one.ttft is None else f"{one.ttft:.1f}"
    return (
        f"row {row.id}: {row.shape} {row.system} {row.engine} {row.precision} {row.layout.text} "
        f"c{row.concurrency} TPOT {one.tpot:.2f} ms, measured {row.tpot:.2f}; "
        f"TTFT {first} ms, measured {row.ttft:.1f}"
    )


def _everything(reading: Reading, found: Sequence[Prediction]) -> Iterator[str]:
    """TPOT with the suspicious rows, disaggregated ones without a known pool apart."""
    aside = [row for row, _ in reading.aside if row.mode == "agg"]
    more, _ = predict(aside)
    pairs = [(p.tpot, p.row.tpot) for p in (*found, *more) if p.row.mode == "agg"]
    if pairs:
        yield f"TPOT aggregated, nothing set aside: {errors(pairs)}"


def written(reading: Reading, folder: Path) -> int:
    """One file a row."""
    from benchmarks.serving_specs import NoSpec, text

    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for row in reading.rows:
        try:
            made = text(row)
        except NoSpec:
            continue
        name = re.sub(r"[^a-zA-Z0-9_]+", "_", row.id)
        (folder / f"{name}.kvspec").write_text(made, encoding="utf-8")
        count += 1
    print(f"wrote {count} specs")
    return 0


KEYS: dict[str, Callable[[Row], str]] = {
    "model x system x engine": lambda r: f"{r.shape} {r.system} {r.engine}",
    "model": lambda r: r.shape,
    "system": lambda r: r.system,
    "engine": lambda r: r.engine,
}
"""What is left out in turn."""


def refitted(reading: Reading, *, left_out: bool) -> int:
    """The fit as catalog text, or tables of what is predicted without a row's own group."""
    from benchmarks.serving_predict import groups
    from benchmarks.serving_refit import blocks, tables

    found, _ = groups(reading.rows)
    shown = tables(found, KEYS) if left_out else blocks(found, KEYS)
    for line in shown:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
