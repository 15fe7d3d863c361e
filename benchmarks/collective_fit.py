"""Refits the constants of libraries over measured rows, and leaves rows out to see what holds.

    python benchmarks/collective_fit.py FILE.csv...

A group of rows is fitted by itself: its constants are tied where the catalog ties them. The loss is
robust (soft L1 on the log of predicted / measured), so that every size counts alike and spikes do
not pull. Nothing is written: what is printed is put into the catalog by hand.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from collective_rows import Row, catalog, read

from kvdsl.pipeline import quoter
from kvdsl.planning.quotes import Question, Quote, Quoter, Refused, quote
from kvdsl.spec.library import OTHER, Library

SOFT = 0.15
"""Beyond this log ratio a row counts by its distance, no longer by the square."""

Place = tuple[str, str, str, float]
"""Algorithm, attribute, row of a table (empty: none), and a factor that ties it to its constant."""


@dataclass(frozen=True)
class Constant:
    """One constant and where the catalog has it; `generation` is the one that it belongs to."""

    name: str
    places: tuple[Place, ...]
    generation: str = ""


@dataclass(frozen=True)
class Family:
    """Rows that one library's constants are fitted over."""

    title: str
    library: str
    takes: Callable[[Row], bool]
    constants: tuple[Constant, ...]
    rows: list[Row] = field(default_factory=list)


def tied(
    name: str, algorithms: Sequence[str], attribute: str, rows: Sequence[str] = ("",)
) -> Constant:
    """One value in several algorithms."""
    places = tuple((a, attribute, row, 1.0) for a in algorithms for row in rows)
    return Constant(name, places)


def by_generation(attribute: str, algorithms: Mapping[str, Sequence[str]]) -> list[Constant]:
    return [
        Constant(f"{attribute}.{g}", tuple((a, attribute, g, 1.0) for a in names), g)
        for g, names in algorithms.items()
    ]


IN_NODE = ("ring", "pairwise")
NVLS = Constant(
    "efficiency",
    (
        ("ring", "efficiency", "", 1.0),
        ("pairwise", "efficiency", "", 1.0),
        ("in_switch", "efficiency", "hopper", 0.85),  # NCCL's own factors, src/graph/tuning.cc
        ("in_switch", "efficiency", "blackwell", 0.74),
    ),
)
GENERATIONS = {
    "ampere": IN_NODE,
    "hopper": (*IN_NODE, "in_switch"),
    "blackwell": (*IN_NODE, "in_switch"),
}


def _in_table(row: Row, *libraries: str) -> bool:
    return row.library in libraries and not row.file.startswith("measured")


def kernels(stack: str, limit: int) -> Family:
    singles = ("one_shot", "one_shot_pair")
    both = (*singles, "two_shot")
    return Family(
        f"{stack} kernels",
        f"{stack}_kernels",
        lambda r: _in_table(r, stack) and r.size <= limit and not on_bus(r),
        (
            *by_generation("launch", dict.fromkeys(("ampere", "hopper", "blackwell"), both)),
            Constant("step", (("two_shot", "step", "any", 1.0),)),
            tied("efficiency of one-shot", singles, "efficiency", ("any",)),
            Constant("efficiency of two-shot", (("two_shot", "efficiency", "any", 1.0),)),
        ),
    )


SHOTS = ("one_shot_pair", "one_shot_four", "one_shot", "two_shot")
KERNELS = dict.fromkeys(("ampere", "hopper", "blackwell"), SHOTS)
VLLM = Family(
    "vllm kernels",
    "vllm_kernels",
    lambda r: _in_table(r, "vllm") and r.size < 8 * 2**20 and not on_bus(r),
    (
        *by_generation("launch", KERNELS),
        *by_generation("step", dict.fromkeys(KERNELS, ("two_shot",))),
        *by_generation("efficiency", dict.fromkeys(KERNELS, ("one_shot_four", "one_shot"))),
        *by_generation("efficiency", dict.fromkeys(KERNELS, ("one_shot_pair",))),
        *by_generation("efficiency", dict.fromkeys(KERNELS, ("two_shot",))),
    ),
)

FAMILIES = (
    Family(
        "NCCL in a node",
        "nccl",
        lambda r: _in_table(r, "nccl") and generation(r) in GENERATIONS and not on_bus(r),
        (
            *by_generation("launch", GENERATIONS),
            *by_generation("step", GENERATIONS),
            NVLS,
            tied("pair_loss", IN_NODE, "pair_loss"),
            tied("fill", IN_NODE, "fill"),
            tied("steps", ("pairwise",), "steps"),
            tied("doubling", ("pairwise",), "doubling"),
            tied("fill in the switch", ("in_switch",), "fill"),
        ),
    ),
    Family(
        "NCCL over PCIe",
        "nccl",
        lambda r: _in_table(r, "nccl") and on_bus(r) and "l40" not in r.hardware,
        (
            tied(
                "launch", ("bus_pair", "bus_ring", "bus_pairwise"), "launch", ("blackwell", OTHER)
            ),
            tied("step", ("bus_pair", "bus_ring", "bus_pairwise"), "step", ("blackwell", OTHER)),
            tied("efficiency of a pair", ("bus_pair",), "efficiency", ("any",)),
            tied("efficiency", ("bus_ring", "bus_pairwise"), "efficiency", ("any",)),
        ),
    ),
    Family(
        "NCCL through a host",
        "nccl",
        lambda r: _in_table(r, "nccl") and "l40" in r.hardware,
        (
            tied("launch", ("through_host", "pairwise_through_host"), "launch", ("any",)),
            tied("step", ("through_host", "pairwise_through_host"), "step", ("any",)),
            tied("efficiency", ("through_host", "pairwise_through_host"), "efficiency", ("any",)),
        ),
    ),
    VLLM,
    kernels("sglang", 16 * 2**20),
    kernels("tensorrt_llm", 8 * 2**20),
    Family(
        "NCCL over several nodes",
        "nccl",
        lambda r: (
            r.library == "nccl"
            and r.nodes > 1
            and r.hardware.upper()[:2] in ("A1", "H1", "H2", "B2")
        ),
        (
            tied("network_efficiency", ("tree_of_rings", "tree_of_switches"), "network_efficiency"),
            tied("network_fill", ("tree_of_rings", "tree_of_switches"), "network_fill"),
        ),
    ),
    Family(
        "DeepEP low latency",
        "deepep",
        lambda r: _in_table(r, "deepep low latency"),
        (
            tied(
                "launch",
                ("low_latency_dispatch", "low_latency_combine"),
                "launch",
                ("hopper", OTHER),
            ),
            tied("network_step", ("low_latency_dispatch", "low_latency_combine"), "network_step"),
            tied(
                "network_efficiency",
                ("low_latency_dispatch", "low_latency_combine"),
                "network_efficiency",
            ),
            tied("efficiency of dispatch", ("low_latency_dispatch",), "efficiency", ("any",)),
            tied("efficiency of combine", ("low_latency_combine",), "efficiency", ("any",)),
        ),
    ),
    Family(
        "DeepEP normal",
        "deepep",
        lambda r: _in_table(r, "deepep normal") and r.nodes <= 4,
        (
            tied("launch of dispatch", ("normal_dispatch",), "launch", ("hopper", OTHER)),
            tied("launch of combine", ("normal_combine",), "launch", ("hopper", OTHER)),
            tied("network_step", ("normal_dispatch", "normal_combine"), "network_step"),
            tied("network_efficiency", ("normal_dispatch", "normal_combine"), "network_efficiency"),
            tied("efficiency", ("normal_dispatch", "normal_combine"), "efficiency", ("any",)),
            tied("sm_rate of dispatch", ("normal_dispatch",), "sm_rate"),
            tied("sm_rate of combine", ("normal_combine",), "sm_rate"),
        ),
    ),
    Family(
        "DeepEP normal, wide",
        "deepep",
        lambda r: _in_table(r, "deepep normal") and r.nodes > 4,
        (
            tied("network_efficiency of dispatch", ("normal_dispatch_wide",), "network_efficiency"),
            tied("network_efficiency of combine", ("normal_combine_wide",), "network_efficiency"),
        ),
    ),
    Family(
        "One-sided",
        "tensorrt_llm_one_sided",
        lambda r: r.library == "one-sided",
        (
            tied("launch of dispatch", ("dispatch",), "launch", ("blackwell", OTHER)),
            tied("launch of combine", ("combine",), "launch", ("blackwell", OTHER)),
            tied("step", ("dispatch", "combine"), "step", ("any",)),
            tied("efficiency of dispatch", ("dispatch",), "efficiency", ("any",)),
            tied("efficiency of combine", ("combine",), "efficiency", ("any",)),
        ),
    ),
)


def generation(row: Row) -> str:
    return row.group


def on_bus(row: Row) -> bool:
    return any(word in row.hardware.lower() for word in ("rtx", "l40", "pcie", "l4"))


# --- constants in and out of a library ------------------------------------------------------------


def held(library: Library, constant: Constant) -> float:
    """The value that the catalog has."""
    name, attribute, row, factor = constant.places[0]
    value = getattr(library.algorithms[name], attribute)
    if isinstance(value, dict):
        value = value[row or "any"]
    return float(value) / factor


def with_constants(
    library: Library, constants: Sequence[Constant], values: Sequence[float]
) -> Library:
    algorithms = dict(library.algorithms)
    for constant, value in zip(constants, values, strict=True):
        for name, attribute, row, factor in constant.places:
            if name not in algorithms:
                continue
            old = getattr(algorithms[name], attribute)
            new: Any = Fraction(value * factor)
            if isinstance(old, dict):
                new = {**old, (row or "any"): new}
            algorithms[name] = algorithms[name].model_copy(update={attribute: new})
    return library.model_copy(update={"algorithms": algorithms})


def without(library: Library, gone: str) -> Library:
    """A library that never saw a generation: what others have stands in for it."""
    algorithms = {}
    for name, algorithm in library.algorithms.items():
        changes: dict[str, Any] = {}
        for attribute in ("launch", "step", "efficiency"):
            table = dict(getattr(algorithm, attribute))
            if table.pop(gone, None) is None:
                continue
            rest = [float(v) for k, v in table.items() if k != OTHER]
            if rest:
                table[OTHER] = Fraction(float(np.exp(np.mean(np.log(rest)))))
            changes[attribute] = table
        algorithms[name] = algorithm.model_copy(update=changes)
    return library.model_copy(update={"algorithms": algorithms})


# --- predicting -----------------------------------------------------------------------------------


class Bench:
    """Rows of a family, grouped so that those which differ in size alone are one call."""

    def __init__(self, rows: Sequence[Row]) -> None:
        groups: dict[object, list[int]] = defaultdict(list)
        for index, row in enumerate(rows):
            asked = row.question
            assert asked is not None
            same = replace(asked, size=None, tokens=None)
            groups[row.spec, row.on, row.libraries, same, asked.tokens is None].append(index)
        self.rows = rows
        self.groups = list(groups.values())
        self.logs = np.log([row.seconds for row in rows])
        self._sources: dict[str, Quoter] = {}

    def quotes(self, library: Library) -> list[tuple[list[int], Quote]]:
        found = []
        for indices in self.groups:
            first = self.rows[indices[0]]
            source = self._sources.setdefault(first.spec, quoter(first.spec or "kvspec 1\n"))
            hardware = source.declared(first.on)
            asked = [self.rows[i].question for i in indices]
            whole = first.question
            assert isinstance(whole, Question)
            if whole.tokens is None:
                whole = replace(whole, size=np.array([float(q.size) for q in asked if q]))
            else:
                whole = replace(whole, tokens=np.array([float(q.tokens) for q in asked if q]))
            libraries = [
                library if name.endswith(f".{library.name}") else source.library(name)
                for name in first.libraries or (f"libraries.{library.name}",)
            ]
            found.append((indices, quote(hardware, libraries, whole)))
        return found

    def log_ratio(self, library: Library) -> np.ndarray:
        made = np.empty(len(self.rows))
        for indices, each in self.quotes(library):
            made[indices] = np.log(each.time)
        return made - self.logs

    def inside(self, library: Library) -> np.ndarray:
        made = np.empty(len(self.rows), dtype=bool)
        times = np.exp(self.logs)
        for indices, each in self.quotes(library):
            made[indices] = (each.low <= times[indices]) & (times[indices] <= each.high)
        return made


def fitted(bench: Bench, library: Library, constants: Sequence[Constant]) -> list[float]:
    """Constants that minimise the robust loss, by damped least squares on their logs."""
    x = np.log([held(library, c) for c in constants])

    def residuals(at: np.ndarray) -> np.ndarray:
        return bench.log_ratio(with_constants(library, constants, list(np.exp(at))))

    def loss(r: np.ndarray) -> float:
        return float(np.sum(2 * SOFT**2 * (np.sqrt(1 + (r / SOFT) ** 2) - 1)))

    r = residuals(x)
    damping = 1e-2
    for _ in range(25):
        slopes = np.empty((len(r), len(x)))
        for i in range(len(x)):
            moved = x.copy()
            moved[i] += 1e-3
            slopes[:, i] = (residuals(moved) - r) / 1e-3
        weight = 1 / np.sqrt(1 + (r / SOFT) ** 2)
        square = slopes.T @ (slopes * weight[:, None])
        gradient = slopes.T @ (weight * r)
        before = loss(r)
        for _ in range(6):
            step = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-9), -gradient)
            tried = x + np.clip(step, -0.5, 0.5)
            new = residuals(tried)
            if loss(new) < before:
                break
            damping *= 4
        else:
            break
        x, r, damping = tried, new, max(damping / 3, 1e-7)
        if before - loss(r) < 1e-5 * before:
            break
    return [float(value) for value in np.exp(x)]


def summary(title: str, ratios: np.ndarray, inside: np.ndarray | None = None) -> str:
    errors = 100 * np.abs(np.expm1(ratios))
    shown = "" if inside is None else f" {100 * inside.mean():>8.0f}"
    return (
        f"  {title:<32} {len(errors):>6} {np.median(errors):>8.1f} {errors.mean():>8.1f}"
        f" {np.percentile(errors, 90):>8.1f}{shown}"
    )


def report(family: Family) -> None:
    library, _ = catalog()[0].declaration(f"libraries.{family.library}")
    assert isinstance(library, Library)
    family = replace(family, rows=answered(family.rows, library))
    bench = Bench(family.rows)
    constants = [
        c
        for c in family.constants
        if not c.generation
        or any(generation(r) == c.generation for r in family.rows)
        or c.generation == OTHER
    ]
    print(f"\n{family.title}{'':<20} rows   median     mean      p90  in band")
    print(summary("as in the catalog", bench.log_ratio(library), bench.inside(library)))
    best = fitted(bench, library, constants)
    new = with_constants(library, constants, best)
    print(summary("fitted", bench.log_ratio(new), bench.inside(new)))
    for constant, value in zip(constants, best, strict=True):
        print(f"      {constant.name:<28} {value:.4g}   (was {held(library, constant):.4g})")
    for word, key in (("system", lambda r: r.hardware), ("generation", generation),
                      ("nodes", lambda r: str(r.nodes))):  # fmt: skip
        left_out(family, library, constants, word, key)


def left_out(
    family: Family, library: Library, constants: Sequence[Constant], word: str,
    key: Callable[[Row], str],
) -> None:  # fmt: skip
    """Each kind predicted by constants that never saw it."""
    kinds = sorted({key(row) for row in family.rows})
    if len(kinds) < 2:
        return
    ratios, insides = [], []
    for kind in kinds:
        rest = [row for row in family.rows if key(row) != kind]
        own = Bench([row for row in family.rows if key(row) == kind])
        start = without(library, kind) if word == "generation" else library
        seen = [
            c
            for c in constants
            if not c.generation or any(generation(r) == c.generation for r in rest)
        ]
        made = with_constants(start, seen, fitted(Bench(rest), start, seen))
        made = without(made, kind) if word == "generation" else made
        ratio, inside = own.log_ratio(made), own.inside(made)
        print(summary(f"without the {word} {kind}", ratio, inside))
        ratios.append(ratio)
        insides.append(inside)
    print(summary(f"each {word} left out", np.concatenate(ratios), np.concatenate(insides)))


def answered(rows: Sequence[Row], library: Library) -> list[Row]:
    """Rows that the library takes."""
    kept: list[Row] = []
    bench = Bench(rows)
    for indices in bench.groups:
        try:
            Bench([rows[i] for i in indices]).quotes(library)
        except Refused:
            continue
        kept += [rows[i] for i in indices]
    return kept


def main(arguments: Sequence[str]) -> int:
    wanted = [a for a in arguments if not a.endswith(".csv")]
    for name in (a for a in arguments if a.endswith(".csv")):
        for row in read(Path(name)):
            for family in FAMILIES:
                if not row.why and row.question is not None and family.takes(row):
                    family.rows.append(row)
    for family in FAMILIES:
        if family.rows and (not wanted or family.title in wanted):
            report(family)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
