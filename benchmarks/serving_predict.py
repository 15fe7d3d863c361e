"""Predictions of measured rows through the public bulk call, rows of one deployment at a time.

Comes in: rows. Goes out: a prediction of each, or why there is none. `kvdsl.bulk` compiles the text
that a user would write, and is equal to `kvdsl.compile` of each row by a law (tests/laws).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import serving_specs
from benchmarks.serving_rows import Refused, Row
from kvdsl import bulk
from kvdsl.pipeline import Bulk


@dataclass(frozen=True, slots=True)
class Prediction:
    """Milliseconds; `low` and `high` are the wide band of TPOT, `floor` the time that weights hit
    and cache take at the data sheet's bandwidth. `ttft` is None where no prefill is known."""

    row: Row
    tpot: float
    low: float
    high: float
    ttft: float | None
    floor: float

    @property
    def devices(self) -> int:
        workers = self.row.workers or 1
        decode = self.row.layout.devices * workers
        if self.row.prefill is None:
            return decode
        return decode + self.row.prefill.devices * (self.row.prefill_workers or 1)

    def rate(self, ttft: float, tpot: float) -> float:
        """Output tokens a second and GPU of closed loops with these times."""
        request = (ttft + (self.row.output - 1) * tpot) / 1e3
        return self.row.concurrency * self.row.output / request / self.devices


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that differ in their workload alone."""

    rows: tuple[Row, ...]
    made: Bulk


def groups(rows: Sequence[Row]) -> tuple[tuple[Group, ...], tuple[Refused, ...]]:
    """Rows by deployment, each compiled once."""
    found: dict[str, list[Row]] = defaultdict(list)
    refused: list[Refused] = []
    for row in rows:
        try:
            found[serving_specs.head(row)].append(row)
        except serving_specs.NoSpec as reason:
            refused.append(Refused(row.id, str(reason)))
    names = {f"row_{number}": head for number, head in enumerate(found)}
    declared: dict[str, None] = {}
    text = ""
    for name, head in names.items():
        before, _, rest = head.partition(serving_specs.BEGIN)
        declared.update(dict.fromkeys(before.removeprefix("kvspec 1\n").splitlines()))
        text += f"deployment {name} {{{rest}{serving_specs.workload(found[head][0])}}}\n"
    shared = "\n".join(declared)
    made = []
    for one in bulk(f"kvspec 1\n{shared}\n{text}"):
        members = found[names[one.name]]
        if one.pools:
            made.append(Group(tuple(members), one))
        else:
            refused.extend(Refused(row.id, one.refusal) for row in members)
    return tuple(made), tuple(refused)


def predict(rows: Sequence[Row]) -> tuple[list[Prediction], list[Refused]]:
    made, refused = groups(rows)
    found: list[Prediction] = []
    missing = list(refused)
    for group in made:
        loads = [[getattr(row, name) for row in group.rows]
                 for name in ("prompt", "output", "concurrency")]  # fmt: skip
        served = group.made.serve(*loads)
        floors = floor(group.made, loads)
        values = served.values
        fits = served.fits
        for number, row in enumerate(group.rows):
            if fits is None or not fits[number]:
                missing.append(Refused(row.id, "no room for one request beside the weights"))
                continue
            tpot = float(values["decode.tpot"][number]) * 1e3
            ttft = values.get("prefill.ttft")
            found.append(
                Prediction(
                    row,
                    tpot,
                    float(values.get("decode.tpot_low", values["decode.tpot"])[number]) * 1e3,
                    float(values.get("decode.tpot_high", values["decode.tpot"])[number]) * 1e3,
                    None if ttft is None else float(ttft[number]) * 1e3,
                    floors[number] * 1e3,
                )
            )
    return found, missing


def floor(made: Bulk, loads: list[list[int]]) -> list[float]:
    """Weights hit and cache over the full bandwidth, of the pool that decodes: no step is
    shorter."""
    from kvdsl.planning.bulk import floors

    return [float(value) for value in floors(made.pools, _loads(loads))]


def _loads(loads: list[list[int]]) -> Any:
    from numpy import asarray

    from kvdsl.planning.bulk import Loads

    return Loads(*(asarray(values, dtype=float) for values in loads))
