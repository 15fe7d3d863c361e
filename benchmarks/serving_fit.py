"""The fit of an engine's pace: robust least squares on the log ratio of predicted to measured.

Comes in: groups of rows. Goes out: constants by engine, their errors, and predictions with groups
of rows left out. The formulas are the product's own: inventories of all placements are stacked into
arrays, so that one evaluation serves all rows. Of two pools the one that decodes is fitted, by its
time of a token alone. Ratios past a factor of 1.16 (TPOT) or 2.7 (TTFT) count linearly; groups of n
rows weigh n^(3/4); each constant is drawn to a round start. No constant belongs to a model,
a device or a row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.serving_predict import Group
from benchmarks.serving_rows import Row
from kvdsl import units
from kvdsl.costs.collectives import CollectiveCost
from kvdsl.costs.experts import Routed
from kvdsl.costs.first_token import PROMPT, Own, first, prefilled
from kvdsl.costs.fitted import Serving
from kvdsl.costs.inventory import CacheRead, Inventory, Product, Weights
from kvdsl.costs.load import Load
from kvdsl.costs.pace import Constants
from kvdsl.costs.setting import Passed, Sent, Setting
from kvdsl.costs.steady import Lengths, Steady
from kvdsl.formulas import Term
from kvdsl.planning.bulk import Loads, Prepared, pool_lengths, pool_load

Array = Any

ROUND: Mapping[str, float] = {
    "layer": 45e-6, "sparse": 20e-6, "unfused": 25e-6, "latent": 40e-6, "state": 15e-6,
    "prefill": 3.0, "decode": 1.0, "age": 1.25,
    "weights": 0.9, "experts": 0.95, "emulated": 0.75, "cache": 0.65, "attention": 0.5,
    "products_16": 0.8, "products_8": 0.6, "products_4": 0.45, "grouped": 0.4,
    "prompts": 1.0, "vectors": 16.0,
    "entry": 25e-3, "steps": 4.0, "own": 1.1, "queue": 0.2, "crowd": 0.9, "length": 0.25,
    "full": 0.4,
}  # fmt: skip
"""Round starts, to which the fit is drawn."""

STEP = ("layer", "sparse", "unfused", "latent", "state", "prefill", "decode", "age", "weights",
        "experts", "emulated", "cache", "attention", "products_16", "products_8", "products_4",
        "grouped", "vectors", "prompts")  # fmt: skip
"""Constants of TPOT."""

FIRST = ("entry", "steps", "own", "queue", "crowd", "length", "full")
"""Constants of TTFT, fitted with those of TPOT at rest."""

OWN = frozenset({"layer", "latent", "age", "decode", "prompts", "entry", "steps", "own", "queue"})
"""Those that each engine has for itself; all engines share the others."""

SHARES = frozenset({"weights", "experts", "emulated", "cache", "attention", "products_16",
                    "products_8", "products_4", "grouped"})  # fmt: skip
"""Shares of a peak: at most 1."""

LINEAR = {"tpot": 0.15, "ttft": 1.0}
"""Log ratio past which a row counts linearly: chosen by left-out error, as what it is drawn to."""

DRAWN = {"tpot": 1.0, "ttft": 0.3}
"""Weight of each constant's pull to its round start: chosen by left-out error."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Rows of one engine and age whose inventories have one form, as arrays."""

    engine: str
    old: bool
    rows: tuple[Row, ...]
    serving: Serving
    load: Load
    lengths: Lengths


def stacks(groups: Sequence[Group]) -> tuple[Stack, ...]:
    """All rows that pools of one kind of rank decode, by the form of their inventory."""
    found: dict[tuple[object, ...], list[_Piece]] = defaultdict(list)
    for group in groups:
        decoding = [pool for pool in group.made.pools if pool.role != "prefill"]
        if len(decoding) > 1 or len(decoding[0].serving.setting.stocks) > 1:
            continue
        piece = _piece(decoding[0], group.rows)
        found[piece.form].append(piece)
    return tuple(_stacked(pieces) for pieces in found.values())


@dataclass(frozen=True, slots=True)
class _Piece:
    form: tuple[object, ...]
    pool: Prepared
    rows: tuple[Row, ...]
    load: Load
    lengths: Lengths
    sent: Mapping[str, Array]
    cost: CollectiveCost | None
    """One of its collectives, to stand for all of a pass."""


def _piece(pool: Prepared, rows: tuple[Row, ...]) -> _Piece:
    columns = ([getattr(r, n) for r in rows] for n in ("prompt", "output", "concurrency"))
    loads = Loads(*(np.asarray(column, dtype=float) for column in columns))
    lengths = pool_lengths(pool, loads)
    _, carried = pool_load(pool, loads)
    sent: dict[str, Array] = {}
    costs: list[CollectiveCost] = []
    real = pool.serving.setting.sent

    def recorded(passed: Passed) -> tuple[Sent, ...]:
        made = real(passed)
        here = made[0].costs
        costs.extend(here)
        time = sum((np.asarray(cost.all.value, float) for cost in here), start=np.zeros(1))
        sent[passed.what] = np.broadcast_to(time, (len(rows),))
        return made

    serving = replace(pool.serving, setting=replace(pool.serving.setting, sent=recorded))
    at = serving.at(carried, lengths)
    if pool.role == "both":
        serving.first(at, carried, lengths, None)
    stock = pool.serving.setting.stocks[0]
    old = pool.serving.constants.age.value != 1
    kinds = tuple(
        (w.kind, w.emulated, tuple((p.row, p.peak is None) for p in w.products))
        for w in stock.weights
    )
    reads = tuple(
        (r.state, r.every, r.limit is None, r.peak is None, r.prompt_peak is None)
        for r in stock.reads
    )
    engine = pool.placement.subject.engine
    family = engine.family if engine is not None else ""
    form = (family, old, pool.role, kinds, reads)
    return _Piece(form, pool, rows, carried, lengths, sent, costs[0] if costs else None)


def _stacked(pieces: list[_Piece]) -> Stack:
    counts = [len(piece.rows) for piece in pieces]
    firsts = [piece.pool.serving.setting.stocks[0] for piece in pieces]

    def over(terms: Sequence[Term]) -> Term:
        """One term of arrays: each piece's value, once a row."""
        values = [np.broadcast_to(np.asarray(float(t.value) if not isinstance(t.value, np.ndarray)
                                             else t.value, float), (n,))
                  for t, n in zip(terms, counts, strict=True)]  # fmt: skip
        return replace(terms[0], value=np.concatenate(values), inputs=(), formula=None)

    def optional(terms: Sequence[Term | None]) -> Term | None:
        there = [t for t in terms if t is not None]
        return over(there) if len(there) == len(terms) else None

    def routed(found: Sequence[Routed | None]) -> Routed | None:
        there = [one for one in found if one is not None]
        if len(there) < len(found):
            return None
        return Routed(*(over([getattr(one, n) for one in there]) for n in Routed.__slots__))

    weights = tuple(
        Weights(
            w.kind, w.label, over([f.weights[i].size for f in firsts]),
            tuple(
                Product(p.row, over([f.weights[i].products[j].work for f in firsts]),
                        optional([f.weights[i].products[j].peak for f in firsts]),
                        over([f.weights[i].products[j].alone for f in firsts]))
                for j, p in enumerate(w.products)
            ),
            w.row, w.emulated, routed([f.weights[i].routed for f in firsts]), w.own,
        )
        for i, w in enumerate(firsts[0].weights)
    )  # fmt: skip
    reads = tuple(
        CacheRead(
            r.label, over([f.reads[i].size for f in firsts]),
            over([f.reads[i].decode_work for f in firsts]),
            over([f.reads[i].prefill_work for f in firsts]),
            optional([f.reads[i].limit for f in firsts]), r.every, r.state,
            optional([f.reads[i].peak for f in firsts]),
            optional([f.reads[i].prompt_peak for f in firsts]),
        )
        for i, r in enumerate(firsts[0].reads)
    )  # fmt: skip
    words = ("layers", "sparse", "unfused", "latent", "mixers", "indexers", "vector")
    counted = {name: over([getattr(f, name) for f in firsts]) for name in words}
    stock = Inventory(firsts[0].stage, firsts[0].book, over([f.bandwidth for f in firsts]),
                      weights, reads, **counted)  # fmt: skip
    # Without DP attention a prompt is always alone, and its pass is sent once.
    passes = sorted({what for piece in pieces for what in piece.sent})
    sent = {
        what: np.concatenate([p.sent[what if what in p.sent else PROMPT] for p in pieces])
        for what in passes
    }

    one_cost = next((p.cost for p in pieces if p.cost is not None), None)

    def replayed(passed: Passed) -> tuple[Sent, ...]:
        if one_cost is None:
            return (Sent(stock.stage.number, ()),)
        whole = Term("collectives", sent[passed.what], units.TIME)
        return (Sent(stock.stage.number, (replace(one_cost, all=whole),)),)

    setting = Setting(
        (stock,), (stock.stage.number,), str(pieces[0].form[2]),
        over([p.pool.serving.setting.ranks for p in pieces]),
        over([p.pool.serving.setting.replicas for p in pieces]), replayed,
    )  # fmt: skip
    one = pieces[0].pool.serving
    load = Load(*(over([getattr(p.load, n) for p in pieces]) for n in Load.__slots__))
    lengths = Lengths(*(over([getattr(p.lengths, n) for p in pieces]) for n in Lengths.__slots__))
    engine, old = str(pieces[0].form[0]), bool(pieces[0].form[1])
    rows = tuple(row for piece in pieces for row in piece.rows)
    return Stack(engine, old, rows, Serving(setting, one.constants, one.drafting),
                 load, lengths)  # fmt: skip


# --- evaluation ----------------------------------------------------------------------------------

Values = Mapping[str, float]
"""Constants by name; those of one engine as `layer.vllm`."""


def of_engine(values: Values, engine: str, *, old: bool) -> dict[str, float]:
    found = {}
    for name, value in values.items():
        word, _, family = name.partition(".")
        if family in ("", engine):
            found[word] = value
    if not old:
        found["age"] = 1.0
    return found


def paced(stack: Stack, values: Values) -> Serving:
    """A stack at other constants."""
    constants = stack.serving.constants.with_values(
        **of_engine(values, stack.engine, old=stack.old)
    )
    return replace(stack.serving, constants=_shared_indexer(constants))


@dataclass(frozen=True, slots=True)
class Rested:
    """A stack with its steady state at rest: what TTFT's constants do not move."""

    stack: Stack
    found: Steady
    own: Own | None

    def ttft(self, values: Values) -> Array:
        if self.own is None:
            return np.full(len(self.stack.rows), np.nan)
        made = paced(self.stack, values)
        met = made.arrival(self.found, self.stack.load, None)
        return first(made.constants, self.stack.lengths, self.own, met).ttft.value


def rested(stack: Stack, values: Values) -> Rested:
    made = paced(stack, values)
    found = made.at(stack.load, stack.lengths)
    own = None
    if made.setting.role == "both":
        own = prefilled(made.setting, made.constants, stack.lengths, found)
    return Rested(stack, found, own)


def _shared_indexer(constants: Constants) -> Constants:
    """No row has an indexer: its launches are taken to be those that a latent needs more."""
    return replace(constants, indexer=replace(constants.indexer, value=constants.latent.value))


@dataclass(frozen=True, slots=True)
class Table:
    """All rows in one order: what was measured, weights, and the stacks' places in it."""

    stacks: tuple[Stack, ...]
    rows: tuple[Row, ...]
    tpot: Array
    ttft: Array
    weight: Array

    def tokens(self, values: Values) -> Array:
        """TPOT of all rows, in seconds."""
        return np.concatenate(
            [paced(s, values).at(s.load, s.lengths).tpot.value for s in self.stacks]
        )

    def firsts(self, values: Values) -> Callable[[Values], Array]:
        """TTFT of all rows as a function of its own constants, in seconds."""
        still = [rested(stack, values) for stack in self.stacks]
        return lambda tried: np.concatenate([one.ttft(tried) for one in still])

    def predicted(self, values: Values) -> tuple[Array, Array]:
        return self.tokens(values), self.firsts(values)(values)


def table(found: Sequence[Stack]) -> Table:
    rows = tuple(row for stack in found for row in stack.rows)
    names = [(row.shape, row.system, row.engine) for row in rows]
    sizes = Counter(names)
    weight = np.array([sizes[name] ** -0.25 for name in names])
    return Table(
        tuple(found), rows, np.array([row.tpot for row in rows]) / 1e3,
        np.array([row.ttft if row.mode == "agg" else 0.0 for row in rows]) / 1e3,
        weight / weight.mean(),
    )  # fmt: skip


# --- least squares -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fit:
    """Constants, and the relative standard error of each."""

    values: dict[str, float]
    errors: dict[str, float]


def names_of(words: Sequence[str], engines: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        name
        for word in words
        for name in ([f"{word}.{e}" for e in engines] if word in OWN else [word])
    )


def start(engines: Sequence[str]) -> dict[str, float]:
    return {n: ROUND[n.partition(".")[0]] for n in names_of((*STEP, *FIRST), engines)}


def fit(data: Table, chosen: Array | None = None, before: Fit | None = None,
        steps: int = 14) -> Fit:  # fmt: skip
    """TPOT's constants, then TTFT's beside them. `chosen` rows are fitted; `before` is a fit to
    begin from."""
    engines = sorted({stack.engine for stack in data.stacks})
    mask = np.ones(len(data.rows), bool) if chosen is None else chosen
    begun = start(engines)
    found = Fit(dict(before.values) if before else dict(begun), {})
    errors: dict[str, float] = {}
    for what, words in (("tpot", STEP), ("ttft", FIRST)):
        measured = data.tpot if what == "tpot" else data.ttft
        predicted = data.tokens if what == "tpot" else data.firsts(found.values)
        aim = _Aim(what, names_of(words, engines), mask & (measured > 0), begun, found.values)
        found = _fitted(data, aim, measured, predicted, steps)
        errors.update(found.errors)
    return Fit(found.values, errors)


@dataclass(frozen=True, slots=True)
class _Aim:
    what: str
    names: tuple[str, ...]
    kept: Array
    begun: Mapping[str, float]
    base: Mapping[str, float]


def _fitted(
    data: Table, aim: _Aim, measured: Array, predicted: Callable[[Values], Array], steps: int
) -> Fit:
    def residuals(logs: Array) -> Array:
        values = {**aim.base, **dict(zip(aim.names, np.exp(logs), strict=True))}
        ratio = np.log(predicted(values)[aim.kept] / measured[aim.kept])
        return np.concatenate([
            data.weight[aim.kept] * softened(ratio, LINEAR[aim.what]),
            DRAWN[aim.what] * (logs - np.log([aim.begun[n] for n in aim.names])),
        ])  # fmt: skip

    begin = np.log([aim.base[n] for n in aim.names])
    most = np.log([1.0 if n in SHARES else np.inf for n in aim.names])
    logs, errors = solved(residuals, begin, most, steps)
    return Fit(
        {**aim.base, **dict(zip(aim.names, map(float, np.exp(logs)), strict=True))},
        dict(zip(aim.names, map(float, errors), strict=True)),
    )


def softened(ratio: Array, scale: float) -> Array:
    """Residuals whose squares are a soft L1 loss past the scale."""
    return np.sign(ratio) * scale * np.sqrt(2 * (np.sqrt(1 + (ratio / scale) ** 2) - 1))


def solved(
    residuals: Callable[[Array], Array], first: Array, most: Array, steps: int
) -> tuple[Array, Array]:
    """Levenberg and Marquardt with an upper bound on each unknown; and their standard errors."""
    at, damping = np.minimum(first, most), 1e-2
    now = residuals(at)
    slopes = _slopes(residuals, at, now)
    for _ in range(steps):
        normal, pull = slopes.T @ slopes, slopes.T @ now
        moved = False
        for _ in range(6):
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -pull)
            there = np.minimum(at + np.clip(step, -0.5, 0.5), most)
            then = residuals(there)
            if then @ then < now @ now:
                moved = True
                break
            damping *= 4
        if not moved:
            break
        gained = 1 - (then @ then) / (now @ now)
        at, now, damping = there, then, max(damping / 4, 1e-6)
        slopes = _slopes(residuals, at, now)
        if gained < 1e-5:
            break
    spread = (now @ now) / max(len(now) - len(at), 1)
    return at, np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)) * spread)


def _slopes(residuals: Callable[[Array], Array], at: Array, now: Array) -> Array:
    columns = []
    for number in range(len(at)):
        moved = at.copy()
        moved[number] += 1e-4
        columns.append((residuals(moved) - now) / 1e-4)
    return np.stack(columns, axis=1)


def left_out(data: Table, keys: Sequence[str], whole: Fit, steps: int = 5) -> tuple[Array, Array]:
    """Each row predicted by constants that were fitted without its group."""
    tpot, ttft = np.full(len(keys), np.nan), np.full(len(keys), np.nan)
    named = np.array(keys)
    for key in sorted(set(keys)):
        out = named == key
        found = fit(data, ~out, whole, steps)
        first, second = data.predicted(found.values)
        tpot[out], ttft[out] = first[out], second[out]
    return tpot, ttft
