"""Layouts side by side: their values, the best of each row, and what would turn the order.

Comes in: named estimates with the findings they would have. Goes out: a `Comparison`. Ties are
honest: all that reach the best value are marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType

from kvdsl.formulas import Term
from kvdsl.plan import Column, Comparison
from kvdsl.units import Quantity, grouped, shown

ROWS: tuple[tuple[str, str, bool], ...] = (
    ("kv.tokens", "KV tokens", True),
    ("kv.sequences", "whole requests", True),
    ("kv.running", "requests at once", True),
    ("kv.copies", "copies of the cache", False),
    ("kv.bytes_per_token_per_gpu", "cache a token a GPU", False),
    ("memory.weights", "weights on the fullest GPU", False),
    ("memory.kv", "room for cache there", True),
    ("decode.tpot", "time of a token", False),
    ("decode.kv_read", "of it: cache read", False),
    ("decode.weight_read", "of it: weights read", False),
    ("decode.collectives", "of it: collectives", False),
    ("decode.throughput", "output tokens a second", True),
    ("prefill.ttft", "time to the first token", False),
    ("cost.per_mtok", "cost of a Mtok", False),
    ("gpus", "GPUs", False),
)
"""Value, label, whether more is better."""

FLEET_ROWS: tuple[tuple[str, str, bool], ...] = (
    ("gpus", "GPUs", False),
    ("power", "power", False),
    ("cost.per_hour", "cost an hour", False),
    ("cost.per_year", "cost a year", False),
    ("decode.throughput", "output tokens a second", True),
)
"""The same of fleets: their sums."""

ECHOES: Mapping[str, str] = MappingProxyType({"kv.running": "kv.sequences"})
"""A value that tells nothing where it is another's."""

OF_LENGTH = ("kv.sequences", "kv.running")
"""Capacities that follow from how long requests are."""

LENGTHS = ("workload.prompt", "workload.output", "workload.context")
LOADS: Mapping[str, str] = MappingProxyType(
    {"workload.concurrency": "in flight", "workload.rate": "arriving"}
)
"""How much is asked of a deployment at once, whatever its requests are, with its label."""

ENGINE = "engine"

MOST_LOADS = 4
"""So many are told with whose they are; the rest stands in the rows."""

LABELS: Mapping[str, str] = MappingProxyType({name: label for name, label, _ in ROWS})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout with its values; none where it cannot stand (`note` says why)."""

    name: str
    text: str
    values: dict[str, Term]
    findings: tuple[str, ...]
    fits: bool
    main: bool
    note: str = ""
    times: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    """Its workload by the names of its attributes, and its engine."""


Texts = tuple[str, ...]


def compare(candidates: Sequence[Candidate]) -> Comparison | None:
    """None where there is nothing beside the plan."""
    if len(candidates) < 2:
        return None
    running = [_runs(c.values) for c in candidates]
    if any(own["kv.running"].value != own["kv.sequences"].value for own in running if own):
        candidates = [
            replace(c, values={**c.values, **own})
            for c, own in zip(candidates, running, strict=True)
        ]
        return _compared(candidates, ROWS)
    return _compared(candidates, tuple(row for row in ROWS if row[0] != "kv.running"))


def _runs(values: Mapping[str, Term]) -> dict[str, Term]:
    """Requests that fit whole and that run at once: those, where an engine keeps room for their
    ends and has no figure of its own."""
    fit = values.get("kv.sequences")
    return {} if fit is None else {"kv.sequences": fit, "kv.running": values.get("kv.running", fit)}


def compare_fleets(candidates: Sequence[Candidate]) -> Comparison | None:
    """The sums of fleets, of one too; None where there is no fleet."""
    return _compared(candidates, FLEET_ROWS) if candidates else None


def _compared(
    candidates: Sequence[Candidate], every: Sequence[tuple[str, str, bool]]
) -> Comparison:
    rows = tuple(row for row in every if any(row[0] in c.values for c in candidates))
    columns = tuple(
        Column(
            c.name,
            c.text,
            {name: c.values[name].quantity for name, _, _ in rows if name in c.values},
            c.findings,
            c.fits,
            c.main,
            c.note,
            c.times,
        )
        for c in candidates
    )
    unlike = tuple(_unlike(candidates))
    loads = [row for row in unlike if row[0] != ENGINE]
    others = any(name not in LOADS for name, _, _ in loads)
    said = [_unranked(columns)] if mixed(columns) else []
    said += [_loads_differ(columns, loads)] if loads else []
    free = [
        (name, more)
        for name, _, more in rows
        if not (said and _of_time(name)) and not (others and name in OF_LENGTH)
    ]
    best = {name: _best(columns, name, more=more) for name, more in free}
    return Comparison(columns, rows, best, " ".join(said) or _flips(columns), unlike)


def _unlike(candidates: Sequence[Candidate]) -> Iterator[tuple[str, str, Texts]]:
    """What planned deployments are not all asked or served by; those without a plan say nothing."""
    planned = [c for c in candidates if c.values]
    first = (*LENGTHS, *LOADS)
    met = sorted({name for c in planned for name in c.asked} - {*first, ENGINE})
    for name in (*first, *met, ENGINE):
        if len({c.asked.get(name) for c in planned}) > 1:
            label = LOADS.get(name, name.removeprefix("workload.").replace("_", " "))
            yield name, label, tuple(c.asked.get(name, "") for c in candidates)


def _loads_differ(columns: Sequence[Column], loads: Sequence[tuple[str, str, Texts]]) -> str:
    """`Loads differ (in flight: 16 req of low, 512 req of high)`, and what is not ranked so."""
    _, label, texts = loads[0]
    told: dict[str, list[str]] = {}
    for column, text in zip(columns, texts, strict=True):
        if column.values:
            told.setdefault(text or "none", []).append(column.name)
    said = ", ".join(f"{text} of {' and '.join(names)}" for text, names in told.items())
    if len(told) > MOST_LOADS:
        said = f"{', '.join(islice(told, MOST_LOADS))} and {len(told) - MOST_LOADS} more"
    return f"Loads differ ({label}: {said}): times, throughput and their cost are not ranked."


def mixed(columns: Sequence[Column]) -> bool:
    """Whether times of several kinds stand side by side: those are not ranked."""
    return len({c.times for c in columns if c.values}) > 1


def _of_time(name: str) -> bool:
    return name.startswith(("decode.", "prefill.", "cost.per_mtok"))


def _unranked(columns: Sequence[Column]) -> str:
    kinds: dict[str, list[str]] = {}
    for column in columns:
        if column.values:
            kinds.setdefault(column.times or "of no kind", []).append(column.name)
    said = " and ".join(f"those of {', '.join(names)} {kind}" for kind, names in kinds.items())
    return f"Times of several kinds are not ranked: {said}."


def _best(columns: Sequence[Column], name: str, *, more: bool) -> tuple[int, ...]:
    found = [(i, c.values[name]) for i, c in enumerate(columns) if name in c.values and c.fits]
    if len(found) < 2:
        return ()
    pick = max if more else min
    target = shown(pick((q for _, q in found), key=lambda q: q.value))
    # A tie is what a reader sees as one: equal as printed.
    best = tuple(i for i, q in found if shown(q) == target)
    return () if len(best) == len(found) else best


def _flips(columns: Sequence[Column]) -> str:
    """Where one layout holds more and another is faster, the two and by how much."""
    able = [c for c in columns if c.fits and {"kv.tokens", "decode.tpot"} <= set(c.values)]
    if len(able) < 2:
        return ""
    holds = max(able, key=lambda c: c.values["kv.tokens"].value)
    fast = min(able, key=lambda c: c.values["decode.tpot"].value)
    # Equal as printed is equal, as in the rows.
    both = [c for c in able if _alike(c, holds, "kv.tokens") and _alike(c, fast, "decode.tpot")]
    if len(both) == len(able):
        return ""
    if len(both) == 1:
        return f"{both[0].name} holds the most tokens and takes the least time a token."
    if both:
        names = f"{', '.join(c.name for c in both[:-1])} and {both[-1].name}"
        return f"{names} hold the most tokens and take the least time a token."
    more = _times(holds.values["kv.tokens"], fast.values["kv.tokens"])
    faster = _times(holds.values["decode.tpot"], fast.values["decode.tpot"])
    return (
        f"{holds.name} holds {more} the tokens of {fast.name}, and takes {faster} its time a "
        f"token. {fast.name} is better where all requests fit and the time of a token counts."
    )


def _alike(one: Column, other: Column, name: str) -> bool:
    return shown(one.values[name]) == shown(other.values[name])


def _times(a: Quantity, b: Quantity) -> str:
    return f"{grouped(round(float(a.value) / float(b.value), 2))}x" if b.value else "more than"
