"""Pace: an engine's fitted constants as terms, with their sources.

Comes in: a subject. Goes out: its constants of time, or None where times are ideal or the engine
has none. Not its job: what they multiply (step, steady).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from kvdsl.costs.origins import fixed, leaf
from kvdsl.formulas import Term
from kvdsl.placement.subject import Subject
from kvdsl.recall import Recall
from kvdsl.spec.declaration import Block
from kvdsl.spec.engine_pace import Band, Pace
from kvdsl.units import NONE, TIME, TOKENS, Dimension

if TYPE_CHECKING:
    from kvdsl.spec.engine import Engine, Limits


@dataclass(frozen=True, slots=True)
class Constants:
    """Launches a layer of each kind and their factors; shares of the peaks; the first token's."""

    layer: Term
    sparse: Term
    unfused: Term
    latent: Term
    state: Term
    indexer: Term
    prefill: Term
    decode: Term
    age: Term
    weights: Term
    experts: Term
    emulated: Term
    cache: Term
    attention: Term
    products_16: Term
    products_8: Term
    products_4: Term
    grouped: Term
    prompts: Term
    vectors: Term
    chunk: Term
    entry: Term
    steps: Term
    own: Term
    queue: Term
    crowd: Term
    length: Term
    full: Term
    tpot: Band | None = None
    ttft: Band | None = None

    def products(self, row: str) -> Term:
        """The share of the peak that products of a row of the device's compute reach."""
        bits = "".join(c for c in row if c.isdigit())
        return {"4": self.products_4, "8": self.products_8}.get(bits, self.products_16)

    def with_values(self, **values: float) -> Constants:
        """The same with other values, as a fit tries them."""
        changed = {name: replace(getattr(self, name), value=value)
                   for name, value in values.items()}  # fmt: skip
        return replace(self, **changed)


NAMES = tuple(f.name for f in fields(Constants) if f.name not in ("tpot", "ttft"))


def pace_of(subject: Subject) -> Pace | None:
    """The pace of a subject's engine; None where times are ideal."""
    engine = subject.engine
    return None if engine is None or subject.ideal else engine.pace


def constants(subject: Subject) -> Constants | None:
    pace, engine = pace_of(subject), subject.engine
    if pace is None or engine is None:
        return None
    limits = subject.limits
    return _KNOWN.get((engine, pace, limits), (), lambda: _constants(engine, pace, limits))


_KNOWN: Recall[Constants] = Recall(64)
"""All layouts under an engine have the same."""


def _constants(engine: Engine, pace: Pace, limits: Limits) -> Constants:
    found: dict[str, Term] = {}
    for block, dimensions in (
        (pace.launches, {"prefill": NONE, "decode": NONE}),
        (pace.reached, None),
        (pace.first, {"entry": TIME}),
    ):
        for name in type(block).model_fields:
            if name in ("origins", "at"):
                continue
            other = TIME if block is pace.launches else NONE
            dimension = (dimensions or {}).get(name, other)
            found[name] = _constant(block, name, dimension)
    found["prompts"] = _constant(pace, "prompts", NONE)
    found["vectors"] = _constant(pace, "vectors", NONE)
    found["chunk"] = _chunk(limits, pace)
    found["age"] = _age(engine, pace)
    return Constants(**found, tpot=pace.tpot, ttft=pace.ttft)


def _constant(block: Block, name: str, dimension: Dimension) -> Term:
    origin = block.origin(name)
    field = type(block).model_fields[name]
    label = f"{type(block).__name__.lower()} {name.replace('_', ' ')}"
    value = dict(block)[name]
    if origin is None:
        return Term(label, value, dimension, basis="default", note=field.description or "")
    basis = "catalog" if origin.source else "spec"
    return Term(label, value, dimension, basis=basis, span=origin.span, source=origin.source,
                note=field.description or "")  # fmt: skip


def _chunk(limits: Limits, pace: Pace) -> Term:
    if limits.step is not None:
        return leaf(limits, "step", "tokens in one step", limits.step, TOKENS)
    return replace(_constant(pace, "chunk", TOKENS), label="tokens in one step")


def _age(engine: Engine, pace: Pace) -> Term:
    older = pace.older
    if older is not None and is_older(engine.version, older.before):
        return replace(_constant(older, "launches", NONE), label="launches of an older build")
    return fixed("age", 1, "no older build")


def is_older(version: str, before: str) -> bool:
    """Whether a version stands before another. One that does not begin with a number does not."""
    first, second = numbers_of(version), numbers_of(before)
    return bool(first) and first < second


def numbers_of(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: of `0.5.10.post1` (0, 5, 10)."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(n) for n in found[1].split(".")) if found else ()
